//! Checks of alerts, runbooks and dashboards against the metrics that exist.
//!
//! `docs/metrics.md` lists all metrics; a test of the runtime compares it with the code. The series of its metrics must answer
//! the query of each panel, and those of the usual dashboards: `promtool test rules tests/dashboards.yaml` evaluates them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use super::files::{read, root};

const ALERTS: &str = "deploy/lockstep/files/alerts.yaml";
const DASHBOARDS: [&str; 2] =
    ["deploy/lockstep/files/dashboard.json", "deploy/lockstep/files/dashboard-sentinel.json"];
const GENERATED: &str = "tests/dashboards.yaml";

/// Labels that a scrape adds, unless the metric has them.
const TARGET: [(&str, &str); 5] = [
    ("cluster", "prod"),
    ("namespace", "lockstep-system"),
    ("job", "lockstep"),
    ("pod", "lockstep-a"),
    ("instance", "10.0.0.1:8080"),
];

/// Series of kube-state-metrics with the configurations in `deploy/kube-state-metrics`.
const KUBE_STATE_METRICS: [&str; 2] = [
    r#"kube_dpuservice_status_condition{cluster="prod",namespace="dpu",name="ovn",type="Ready"}"#,
    r#"kube_dpuservice_rollout_health{cluster="prod",namespace="dpu",name="ovn",health="Degraded"}"#,
];

/// A row of a table of metrics.
struct Metric {
    name: String,
    kind: String,
    labels: Vec<String>,
}

fn metrics() -> Vec<Metric> {
    let page = read(Path::new("docs/metrics.md"));
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let metrics: Vec<Metric> = rows
        .filter_map(|(name, rest)| {
            let (kind, rest) = rest.split_once(" | ")?;
            let outside = |part: &str| part.rsplit(')').next().unwrap_or_default().to_owned();
            let labels: String = rest.split('|').next()?.split('(').map(outside).collect();
            let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
            Some(Metric {
                name: name.to_owned(),
                kind: kind.to_owned(),
                labels: labels.map(str::to_owned).collect(),
            })
        })
        .collect();
    assert!(metrics.len() > 30, "the tables of docs/metrics.md are not recognised");
    metrics
}

/// Returns values that a label has.
fn values(metric: &str, label: &str) -> &'static [&'static str] {
    match label {
        "controller" => &["namespaceclass"],
        "reconciler" => &["binding"],
        "name" if metric.starts_with("workqueue_") => &["namespaceclass/binding", "sentinel/event"],
        "namespace" => &["web"],
        "result" => &["success", "error", "requeue_after"],
        "outcome" => &["ok", "forbidden"],
        "type" => &["Ready"],
        "status" => &["True", "False"],
        "class" => &["forbidden"],
        "code" => &["200"],
        _ => &["x"],
    }
}

/// Returns the series of a metric, without its name.
fn label_sets(metric: &Metric) -> Vec<String> {
    let target = TARGET.iter().filter(|(label, _)| !metric.labels.iter().any(|own| own == label));
    let mut sets = vec![target.map(|(label, value)| format!("{label}=\"{value}\"")).collect::<Vec<_>>()];
    for label in &metric.labels {
        let with =
            |set: &Vec<String>, value: &str| [set.clone(), vec![format!("{label}=\"{value}\"")]].concat();
        sets = sets
            .iter()
            .flat_map(|set| values(&metric.name, label).iter().map(move |value| with(set, value)))
            .collect();
    }
    sets.into_iter().map(|set| set.join(",")).collect()
}

fn series(metric: &Metric) -> Vec<(String, &'static str)> {
    let Metric { name, kind, .. } = metric;
    let one = |labels: String| match kind.as_str() {
        "histogram" => vec![
            (format!("{name}_bucket{{{labels},le=\"0.1\"}}"), "0+2x60"),
            (format!("{name}_bucket{{{labels},le=\"+Inf\"}}"), "0+3x60"),
            (format!("{name}_sum{{{labels}}}"), "0+1x60"),
            (format!("{name}_count{{{labels}}}"), "0+3x60"),
        ],
        "counter" => vec![(format!("{name}{{{labels}}}"), "0+3x60")],
        _ => vec![(format!("{name}{{{labels}}}"), "1x60")],
    };
    label_sets(metric).into_iter().flat_map(one).collect()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Returns the queries of a panel.
fn of_panel(panel: &Value) -> Vec<String> {
    let targets = list(&panel["targets"]).into_iter();
    targets.filter_map(|target| target["expr"].as_str().map(str::to_owned)).collect()
}

/// Returns the queries of the single numbers in a dashboard that count what has happened.
fn totals(dashboard: &Value) -> Vec<String> {
    let numbers = list(&dashboard["panels"]).into_iter().filter(|panel| panel["type"] == "stat");
    numbers.flat_map(|panel| of_panel(&panel)).filter(|query| query.contains("increase(")).collect()
}

/// Returns the queries of the panels and variables of a dashboard.
fn queries(dashboard: &Value) -> Vec<String> {
    let panels = list(&dashboard["panels"]);
    let panels = panels.iter().flat_map(of_panel);
    let variables = list(&dashboard["templating"]["list"]);
    let variables = variables.iter().filter_map(|variable| {
        let (series, label) = variable["query"].as_str()?.strip_prefix("label_values(")?.rsplit_once(", ")?;
        Some(format!("count by ({}) ({series})", label.strip_suffix(')')?))
    });
    panels.chain(variables).collect()
}

/// Replaces Grafana's variables: those of the dashboards select all, and those of others select Lockstep.
fn resolved(query: &str) -> String {
    let query = query.replace("$__rate_interval", "5m");
    let query = TARGET.iter().fold(query, |query, (label, value)| {
        query.replace(&format!("=\"${label}\""), &format!("=\"{value}\""))
    });
    let all = ["cluster", "namespace", "job", "controller", "shard", "resource_type"];
    all.iter().fold(query, |query, variable| query.replace(&format!("\"${variable}\""), "\".*\""))
}

fn generated() -> String {
    let mut text = "# Each query of the dashboards has a result: promtool test rules tests/dashboards.yaml\n\
                    # Generated by LOCKSTEP_REGENERATE=1 cargo test -p lockstep-test-runner dashboards\n\
                    tests:\n- interval: 1m\n  input_series:\n"
        .to_owned();
    let metrics = metrics();
    let own = metrics.iter().flat_map(series);
    for (series, values) in own.chain(KUBE_STATE_METRICS.map(|series| (series.to_owned(), "1x60"))) {
        writeln!(text, "  - {{series: '{series}', values: '{values}'}}").expect("text grows");
    }
    text.push_str("  promql_expr_test:\n");
    let stock = read(Path::new("tests/stock-queries.promql"));
    let stock = stock.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
    let dashboards =
        DASHBOARDS.map(|path| serde_json::from_str::<Value>(&read(Path::new(path))).expect("JSON"));
    let own = dashboards.iter().flat_map(queries);
    for query in own.chain(stock) {
        let expr = resolved(&query);
        writeln!(text, "  - expr: 'count({expr}) > bool 0'\n    eval_time: 30m").expect("text grows");
        text.push_str("    exp_samples: [{labels: '{}', value: 1}]\n");
    }
    // Most counters have no series before they count something for the first time.
    let built = metrics.iter().filter(|metric| metric.name == "lockstep_build_info").flat_map(series);
    text.push_str(
        "# After the start of a process, numbers are 0 and not missing.\n- interval: 1m\n  input_series:\n",
    );
    for (series, values) in built {
        writeln!(text, "  - {{series: '{series}', values: '{values}'}}").expect("text grows");
    }
    text.push_str("  promql_expr_test:\n");
    let totals: Vec<String> = dashboards.iter().flat_map(totals).collect();
    assert!(totals.len() >= 5, "{totals:?}");
    for query in totals {
        writeln!(text, "  - expr: '{}'\n    eval_time: 30m", resolved(&query)).expect("text grows");
        text.push_str("    exp_samples: [{labels: '{}', value: 0}]\n");
    }
    text
}

#[test]
fn the_queries_of_the_dashboards_are_those_that_promtool_evaluates() {
    let wanted = generated();
    assert!(!wanted.contains('$'), "a variable is not replaced");
    if std::env::var_os("LOCKSTEP_REGENERATE").is_some() {
        std::fs::write(root().join(GENERATED), &wanted).expect("the file can be written");
    }
    assert!(
        read(Path::new(GENERATED)) == wanted,
        "{GENERATED} is outdated; its second line says how to generate it"
    );
}

/// Returns the expression of each alert.
fn alerts() -> BTreeMap<String, String> {
    let file = read(Path::new(ALERTS));
    let alerts = file.split("- alert: ").skip(1);
    alerts
        .map(|alert| {
            let (name, rest) = alert.split_once('\n').expect("an alert has several lines");
            let rest = rest.split_once("expr: ").expect("an alert has an expression").1;
            let expression = rest.split(" labels:").next().unwrap_or_default();
            (name.to_owned(), expression.to_owned())
        })
        .collect()
}

#[test]
fn alerts_use_metrics_that_exist() {
    let existing: BTreeSet<String> = metrics().into_iter().map(|metric| metric.name).collect();
    for (alert, expression) in alerts() {
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let prefixes = ["lockstep_", "controller_runtime_", "workqueue_", "hyperfleet_", "dpfhcpbridge_"];
        for word in words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))) {
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            assert!(existing.contains(histogram.unwrap_or(word)), "{alert} uses {word}");
        }
    }
}

#[test]
fn each_alert_has_a_runbook() {
    let page = read(Path::new("docs/runbooks.md"));
    let sections: Vec<(&str, &str)> =
        page.split("\n## ").skip(1).filter_map(|part| part.split_once('\n')).collect();
    let titles: BTreeSet<&str> = sections.iter().map(|(title, _)| *title).collect();
    assert_eq!(alerts().keys().map(String::as_str).collect::<BTreeSet<_>>(), titles);
    for (title, text) in sections {
        assert!(text.contains("- **Check**") && text.contains("- **Do**"), "{title}");
    }
}
