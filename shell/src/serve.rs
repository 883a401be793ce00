//! Serves metrics and probes over HTTP.

use std::net::SocketAddr;

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

/// The routes of the metrics address.
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

/// The routes of the probe address. `/healthz` fails if a driver's loop has stalled, `/readyz` until all watches have
/// listed their objects once; a replica that stands by is ready too.
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

/// Binds an address.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves routes until shutdown is asked for.
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
