use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use lockstep_engine::action::{KubeRequest, Success};
use lockstep_engine::lease::Election;
use lockstep_engine::machine::{Machine, WorkQueue};
use lockstep_engine::object::Kind;
use lockstep_engine::operator::Config;
use serde_json::json;

use super::*;

/// The type of a metric and its labels.
type Described = (String, BTreeSet<String>);

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.encode().unwrap()).unwrap()
}

fn text_has(metrics: &Metrics, lines: &[&str]) {
    let text = text(metrics);
    for line in lines {
        assert!(text.lines().any(|served| served == *line), "{line} is not in {text}");
    }
}

/// Returns the metrics in the tables of a page: name, type and labels are the first three columns. Values of labels are in
/// parentheses.
fn documented() -> BTreeMap<String, Described> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let described = |rest: &str| {
        let (kind, rest) = rest.split_once(" | ")?;
        let outside = |part: &str| part.rsplit(')').next().unwrap_or_default().to_owned();
        let labels: String = rest.split('|').next()?.split('(').map(outside).collect();
        let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned);
        Some((kind.to_owned(), labels.collect()))
    };
    rows.filter_map(|(name, rest)| Some((name.to_owned(), described(rest)?))).collect()
}

/// Returns metrics in which each family has a series.
fn filled() -> Metrics {
    let metrics = Metrics::new(Registry::new()).unwrap();
    metrics.set_leader(true);
    let running = vec![Monotonic::START];
    let queues = vec![WorkQueue { name: "binding", waiting: 3, running }];
    let failed = |user_error| ReconcileResult::Failed {
        reason: "no".to_owned(),
        retry_after: Duration::ZERO,
        user_error,
    };
    let results = [ReconcileResult::Converged, failed(false), failed(true), ReconcileResult::Abandoned];
    for result in results {
        metrics.reconciled("namespaceclass", "binding", &result, [1, 2].map(Duration::from_millis));
    }
    metrics.workload("namespaceclass", &Workload { queues, concurrency: Some(16) }, Monotonic::START);
    let action = Action::Kube(KubeRequest::Discover { api_version: "v1".to_owned() });
    metrics.action("namespaceclass", &action, &Ok(Success::Done), Duration::from_millis(2));
    metrics.watch_failed("namespaceclass", "Namespace", "forbidden");
    metrics.requested("200", "GET", "10.96.0.1:443");
    let kind =
        Kind::known("namespaceclass.akuity.io", "v1alpha1", "NamespaceClass", "namespaceclasses", false);
    let condition = json!({"type": "Valid", "status": "True", "reason": "Resolved"});
    let object = Arc::new(json!({"metadata": {"name": "web"}, "status": {"conditions": [condition]}}));
    metrics.watched(&Event::Applied { kind, object });
    metrics
}

fn declared() -> Vec<Metric> {
    let config =
        Config { concurrency: 1, resync: Duration::from_mins(10), instance: "test".to_owned(), seed: 1 };
    let machines: [Box<dyn Machine>; 4] = [
        Box::new(lockstep_bridge::Operator::new(config.clone())),
        Box::new(lockstep_dpuservice::Operator::new(config.clone())),
        Box::new(lockstep_namespaceclass::Operator::new(config)),
        Box::new(Election::new("ns", "lockstep", "me".to_owned())),
    ];
    let metrics = machines.iter().map(|machine| machine.metrics()).chain([lockstep_sentinel::metrics::ALL]);
    metrics.flatten().copied().collect()
}

#[test]
fn the_page_of_metrics_lists_all_with_their_types_and_labels() {
    let metrics = filled();
    let labels = metrics.families().unwrap();
    let mut labels: BTreeMap<&str, BTreeSet<String>> = labels
        .iter()
        .flat_map(|family| family.desc())
        .map(|desc| (desc.fq_name.as_str(), desc.variable_labels.iter().cloned().collect()))
        .collect();
    let text = text(&metrics);
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut existing: BTreeMap<String, Described> = types
        .map(|(name, kind)| (name.to_owned(), (kind.to_owned(), labels.remove(name).unwrap_or_default())))
        .collect();
    assert_eq!(labels, BTreeMap::new(), "these have no series in the test");
    existing.extend(declared().iter().map(|metric| {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
        (metric.name.to_owned(), (kind.to_owned(), labels))
    }));
    assert_eq!(documented(), existing);
}

#[test]
fn reconciles_have_the_names_and_values_of_controller_runtime() {
    text_has(
        &filled(),
        &[
            r#"controller_runtime_reconcile_total{controller="namespaceclass",reconciler="binding",result="success"} 1"#,
            r#"controller_runtime_reconcile_total{controller="namespaceclass",reconciler="binding",result="error"} 1"#,
            r#"controller_runtime_reconcile_total{controller="namespaceclass",reconciler="binding",result="requeue_after"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="namespaceclass",reconciler="binding"} 1"#,
            r#"controller_runtime_reconcile_time_seconds_sum{controller="namespaceclass",reconciler="binding"} 0.006"#,
            r#"controller_runtime_active_workers{controller="namespaceclass"} 1"#,
            r#"controller_runtime_max_concurrent_reconciles{controller="namespaceclass"} 16"#,
            r#"workqueue_depth{controller="namespaceclass",name="namespaceclass/binding"} 3"#,
            // Three have finished, one runs, three wait.
            r#"workqueue_adds_total{controller="namespaceclass",name="namespaceclass/binding"} 7"#,
            r#"workqueue_retries_total{controller="namespaceclass",name="namespaceclass/binding"} 2"#,
            r#"workqueue_queue_duration_seconds_sum{controller="namespaceclass",name="namespaceclass/binding"} 0.003"#,
            r#"workqueue_work_duration_seconds_count{controller="namespaceclass",name="namespaceclass/binding"} 3"#,
            r#"rest_client_requests_total{code="200",host="10.96.0.1:443",method="GET"} 1"#,
            r#"lockstep_condition{kind="NamespaceClass",name="web",namespace="",reason="Resolved",status="True",type="Valid"} 1"#,
            "lockstep_conditions_omitted 0",
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn unfinished_work_gets_older_until_it_ends() {
    let metrics = Metrics::new(Registry::new()).unwrap();
    let measured = |running: &[u64], now| {
        let at = |seconds| Monotonic::START + Duration::from_secs(seconds);
        let running = running.iter().map(|began| at(*began)).collect();
        let queues = vec![WorkQueue { name: "bridge", waiting: 0, running }];
        metrics.workload("bridge", &Workload { queues, concurrency: Some(5) }, at(now));
    };
    measured(&[], 0);
    tokio::time::advance(Duration::from_secs(10)).await;
    measured(&[4, 7], 10);
    tokio::time::advance(Duration::from_mins(1)).await;
    let labels = r#"{controller="bridge",name="bridge/bridge"}"#;
    let has = |unfinished, longest| {
        let unfinished = format!("workqueue_unfinished_work_seconds{labels} {unfinished}");
        let longest = format!("workqueue_longest_running_processor_seconds{labels} {longest}");
        text_has(&metrics, &[&unfinished, &longest]);
    };
    has(129, 66);
    measured(&[], 70);
    has(0, 0);
}
