//! Serves metrics, probes and pages over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::health::Health;
use crate::metrics::{self, Metrics};
use crate::shutdown::Shutdown;

/// The maximum number of connections to one address. More of them wait until others have ended.
const CONNECTIONS_MAX: u32 = 256;
/// The time for the headers of a request. It begins when the connection is made or the last response has ended, so a connection that is
/// idle for longer is closed. Without it, connections of clients that disappeared would accumulate.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);

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

/// Serves routes until shutdown is requested, and then until the responses that have begun are complete. Only HTTP/1.1 is served, which
/// probes, Prometheus and browsers use without TLS.
pub async fn serve(mut listener: TcpListener, routes: Router, mut shutdown: Shutdown) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, Listener::accept(&mut listener).await.0)
        };
        let (place, stream) = tokio::select! {
            biased;
            () = shutdown.requested() => break,
            accepted = accepted => accepted,
        };
        let connection = serve_connection(stream, routes.clone(), shutdown.clone());
        tokio::spawn(async move {
            connection.await;
            drop(place);
        });
    }
    drop(listener);
    // All places are free once all connections have ended.
    let _ = places.acquire_many(CONNECTIONS_MAX).await;
}

/// Serves a connection until it ends; its errors are those of the client.
async fn serve_connection(stream: TcpStream, routes: Router, mut shutdown: Shutdown) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    tokio::pin!(connection);
    tokio::select! {
        biased;
        () = shutdown.requested() => {}
        _ = &mut connection => return,
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
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
    use std::convert::Infallible;

    use axum::body::{Body, to_bytes};
    use axum::http::Request;
    use futures::StreamExt as _;
    use lockstep_engine::time::Monotonic;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};
    use tower::ServiceExt as _;

    use super::*;
    use crate::shutdown::{self, Trigger};

    const SECOND: Duration = Duration::from_secs(1);
    const TICK: Duration = Duration::from_secs(50);

    /// A server with a route that is quick, and one whose response has three ticks.
    struct Server {
        address: std::net::SocketAddr,
        trigger: Trigger,
        task: JoinHandle<()>,
    }

    impl Server {
        async fn start() -> Self {
            let ticks = || async {
                let tick = |n: usize| async move {
                    sleep(TICK).await;
                    Ok::<_, Infallible>(format!("tick {n};"))
                };
                Body::from_stream(futures::stream::iter(1..=3).then(tick))
            };
            let quick = axum::routing::get(|| async { "quick" });
            let routes = Router::new().route("/quick", quick).route("/ticks", axum::routing::get(ticks));
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let (trigger, shutdown) = shutdown::channel();
            Self { address, trigger, task: tokio::spawn(serve(listener, routes, shutdown)) }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        /// Sends a request, and returns the connection.
        async fn ask(&self, path: &str) -> TcpStream {
            let mut stream = self.connect().await;
            let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        }
    }

    /// Returns what a connection brings until it is closed, and after which time.
    async fn rest(mut stream: TcpStream) -> (String, Duration) {
        let start = Instant::now();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.unwrap();
        (String::from_utf8(text).unwrap(), start.elapsed())
    }

    /// Returns whether two times are equal, but for the resolution of timers.
    fn is_about(time: Duration, expected: Duration) -> bool {
        (expected..expected + SECOND).contains(&time)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed() {
        let server = Server::start().await;
        let mut begun = server.connect().await;
        begun.write_all(b"GET /quick HTTP/1.1\r\nhost: loc").await.unwrap();
        for silent in [server.connect().await, begun] {
            let (_, closed) = rest(silent).await;
            assert!(closed < HEADERS_WITHIN + SECOND, "{closed:?}");
        }
        let (text, closed) = rest(server.ask("/quick").await).await;
        assert!(text.ends_with("quick") && is_about(closed, HEADERS_WITHIN), "{closed:?} {text}");
    }

    /// As the event streams of the live page.
    #[tokio::test(start_paused = true)]
    async fn a_slow_response_is_not_cut() {
        let server = Server::start().await;
        let (text, closed) = rest(server.ask("/ticks").await).await;
        let ticks = text.matches("tick ").count();
        assert!(ticks == 3 && is_about(closed, TICK * 3 + HEADERS_WITHIN), "{closed:?} {text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_too_many_waits_for_a_place() {
        let server = Server::start().await;
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            silent.push(server.connect().await);
        }
        let mut waiting = server.ask("/quick").await;
        let start = Instant::now();
        let mut first = [0; 8];
        waiting.read_exact(&mut first).await.unwrap();
        assert!(&first == b"HTTP/1.1" && is_about(start.elapsed(), HEADERS_WITHIN), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_waits_for_responses_and_not_for_idle_connections() {
        let server = Server::start().await;
        let (idle, busy) = (server.connect().await, server.ask("/ticks").await);
        sleep(SECOND).await;
        let start = Instant::now();
        server.trigger.pull();
        let (_, closed) = rest(idle).await;
        assert!(closed < SECOND, "{closed:?}");
        assert!(TcpStream::connect(server.address).await.is_err());
        let (text, _) = rest(busy).await;
        assert_eq!(text.matches("tick ").count(), 3, "{text}");
        server.task.await.unwrap();
        assert!(is_about(start.elapsed() + SECOND, TICK * 3), "{:?}", start.elapsed());
    }

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
