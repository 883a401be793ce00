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
    use std::time::Duration;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use lockstep_engine::time::Monotonic;
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

    #[tokio::test]
    async fn metrics_are_served_as_text() {
        let metrics = Metrics::new(prometheus::Registry::new()).unwrap();
        metrics.set_leader(true);
        let (code, text) = get(&metrics_routes(metrics), "/metrics").await;
        assert!(code == 200 && text.lines().any(|line| line == "lockstep_leader 1"), "{text}");
    }
}
