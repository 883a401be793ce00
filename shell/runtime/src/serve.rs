//! Serves metrics and probes over HTTP.

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::clock::Clock;
use crate::health::Health;
use crate::metrics::{self, Metrics};
use crate::shutdown::Shutdown;

/// Returns the routes of the metrics address.
pub fn metrics_routes(metrics: Metrics) -> Router {
    let answer = move || {
        let text = metrics.encode();
        async move {
            match text {
                Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
            }
        }
    };
    Router::new().route("/metrics", get(answer))
}

/// Returns the routes of the probe address. `/healthz` fails if a driver's loop has stalled. `/readyz` fails until each
/// controller has listed what its decisions depend on; a standby replica is ready too.
pub fn probe_routes(drivers: Vec<Health>, clock: Clock) -> Router {
    let alive = drivers.clone();
    let healthz = move || {
        let now = clock.monotonic();
        let bad = names(&alive, |health| !health.is_alive(now));
        async move { verdict(&bad, "stalled") }
    };
    let readyz = move || {
        let bad = names(&drivers, |health| !health.is_synced());
        async move { verdict(&bad, "not yet synced") }
    };
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz))
}

/// Serves routes until shutdown is requested.
pub async fn serve(listener: TcpListener, routes: Router, mut shutdown: Shutdown) -> std::io::Result<()> {
    axum::serve(listener, routes).with_graceful_shutdown(async move { shutdown.requested().await }).await
}

fn names(drivers: &[Health], bad: impl Fn(&Health) -> bool) -> Vec<&'static str> {
    drivers.iter().filter(|health| bad(health)).map(Health::controller).collect()
}

fn verdict(bad: &[&str], what: &str) -> Response {
    if bad.is_empty() {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{what}: {}\n", bad.join(", "))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use lockstep_engine::action::{Action, Success};
    use lockstep_engine::machine::{Machine, ReconcileResult};
    use lockstep_engine::operator::Config;
    use lockstep_engine::time::Monotonic;
    use prometheus::Registry;
    use tower::ServiceExt as _;

    use super::*;

    async fn get(routes: &Router, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let answer = routes.clone().oneshot(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn probes_name_who_is_not_ready_or_stalled() {
        let (one, two) = (Health::new("one"), Health::new("two"));
        let clock = Clock::start(jiff::Timestamp::now);
        let routes = probe_routes(vec![one.clone(), two.clone()], clock);
        assert_eq!(get(&routes, "/healthz").await, (200, "ok\n".to_owned()));
        assert_eq!(get(&routes, "/readyz").await, (503, "not yet synced: one, two\n".to_owned()));
        one.turned(Monotonic::START, None, None, true);
        two.turned(Monotonic::START, Some(Monotonic::START + Duration::from_secs(5)), None, true);
        assert_eq!(get(&routes, "/readyz").await, (200, "ok\n".to_owned()));
        tokio::time::advance(Duration::from_secs(66)).await;
        assert_eq!(get(&routes, "/healthz").await, (503, "stalled: two\n".to_owned()));
    }

    /// Returns the names of the metrics in a table of a page, with the other entries of the second column.
    fn documented(page: &str) -> BTreeMap<String, BTreeSet<String>> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let labels = |rest: &str| {
            let column = rest.split('|').next().unwrap_or_default();
            let outside = |part: &str| part.rsplit(')').next().unwrap_or_default().to_owned();
            let column: String = column.split('(').map(outside).collect();
            column.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect()
        };
        rows.map(|(name, rest)| (name.to_owned(), labels(rest))).collect()
    }

    #[tokio::test]
    async fn every_metric_is_served_and_in_the_readme() {
        let metrics = Metrics::new(Registry::new()).unwrap();
        metrics.set_leader(true);
        metrics.queue_depth("namespaceclass", "binding", 3);
        let (reason, retry_after) = ("it rains".to_owned(), Duration::ZERO);
        let failed = ReconcileResult::Failed { reason, retry_after, user_error: false };
        metrics.reconciled("namespaceclass", "binding", &failed, Duration::from_millis(2));
        let action = Action::Discover { api_version: "v1".to_owned() };
        metrics.action("namespaceclass", &action, &Ok(Success::Done), Duration::from_millis(2));
        metrics.watch_failed("namespaceclass", "Namespace", "forbidden");

        let families = metrics.families();
        let registered: BTreeMap<String, BTreeSet<String>> = families
            .iter()
            .flat_map(|family| family.desc())
            .map(|desc| (desc.fq_name.clone(), desc.variable_labels.iter().cloned().collect()))
            .collect();
        let (code, text) = get(&metrics_routes(metrics.clone()), "/metrics").await;
        assert_eq!(code, 200);
        let served = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        assert!(served.eq(registered.keys()), "{text}");
        let mut documented = documented("README.md");
        documented.retain(|name, _| name.starts_with("lockstep_"));
        assert_eq!(documented, registered);
        for line in [
            "lockstep_leader 1",
            r#"lockstep_queue_depth{controller="namespaceclass",reconciler="binding"} 3"#,
            r#"lockstep_reconcile_total{controller="namespaceclass",reconciler="binding",result="failed"} 1"#,
            r#"lockstep_reconcile_duration_seconds_sum{controller="namespaceclass",reconciler="binding"} 0.002"#,
            r#"lockstep_requeues_total{controller="namespaceclass",reconciler="binding"} 1"#,
            r#"lockstep_actions_total{action="discover",controller="namespaceclass",kind="",outcome="ok"} 1"#,
            r#"lockstep_action_duration_seconds_sum{action="discover",controller="namespaceclass"} 0.002"#,
            r#"lockstep_watch_errors_total{class="forbidden",controller="namespaceclass",kind="Namespace"} 1"#,
            concat!("lockstep_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|served| served == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn every_metric_that_a_controller_declares_is_in_its_page() {
        let config =
            Config { concurrency: 1, resync: Duration::from_mins(10), instance: "test".to_owned(), seed: 1 };
        let machines: [Box<dyn Machine>; 3] = [
            Box::new(lockstep_bridge::Operator::new(config.clone())),
            Box::new(lockstep_dpuservice::Operator::new(config.clone())),
            Box::new(lockstep_namespaceclass::Operator::new(config)),
        ];
        let mut declared = vec![(lockstep_crds::sentinel::CONTROLLER, lockstep_sentinel::metrics::ALL)];
        declared.extend(machines.iter().map(|machine| (machine.name(), machine.metrics())));
        assert!(
            declared.len() == lockstep_crds::all().len()
                && declared.iter().any(|(_, metrics)| metrics.len() > 1)
        );
        for (controller, metrics) in declared {
            let documented = documented(&format!("docs/{controller}.md"));
            for metric in metrics {
                assert!(documented.contains_key(metric.name), "{} is not in {documented:#?}", metric.name);
            }
        }
    }
}
