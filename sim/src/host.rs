//! Serves the API server model over HTTP: on loopback, or on whatever else accepts connections ([`Listener`]).
//!
//! The only place of this crate with a clock and with I/O. One mutex guards the server; each change wakes the watches and
//! the actors, in the order in which they began to wait. ([`tokio::sync::watch`] would wake them in a random order, and a
//! simulated network would differ from run to run.)

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::stream::FuturesUnordered;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::apiserver::{Actors, ApiServer, BODY_MAX_BYTES, Options as ServerOptions, Response};

mod listener;
mod state;
mod stop;
mod stream;

pub use listener::Listener;
pub use state::{State, Witness};
use stop::Stop;

/// How long connections may take to finish when the host shuts down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the actors look at the clock when nothing changes.
const ACTOR_TICK: Duration = Duration::from_millis(100);

/// How a host is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server behind it.
    pub server: ServerOptions,
    /// The actors that run beside it; none leaves the server alone.
    pub actors: Option<Actors>,
}

impl Default for Options {
    fn default() -> Self {
        let server = ServerOptions { start: Timestamp::now(), ..ServerOptions::default() };
        Self { server, actors: Some(Actors::default()) }
    }
}

/// A running host; stopped by [`Host::shutdown`] or, abruptly, when dropped.
#[derive(Debug)]
pub struct Host {
    addr: SocketAddr,
    state: State,
    stop: Arc<Stop>,
    accept: JoinHandle<()>,
    actors: JoinHandle<()>,
}

impl Host {
    /// Listens and serves a new server on the current tokio runtime; port 0 takes a free port.
    ///
    /// # Errors
    ///
    /// If the address can't be bound.
    pub async fn bind(addr: SocketAddr, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let state = State::new(ApiServer::new(&options.server), Timestamp::now);
        Self::start(listener, state, options.actors)
    }

    /// Serves what the state holds to whoever the listener accepts, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// If the listener does not know its address.
    pub fn start(listener: impl Listener, state: State, actors: Option<Actors>) -> io::Result<Self> {
        let addr = listener.local_addr()?;
        let stop = Arc::new(Stop::default());
        let accept = tokio::spawn(accept(listener, state.clone(), Arc::clone(&stop)));
        let actors = tokio::spawn(run_actors(actors, state.clone(), Arc::clone(&stop)));
        Ok(Self { addr, state, stop, accept, actors })
    }

    /// The address that the host listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The server's URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A kubeconfig with this server as its only cluster.
    pub fn kubeconfig_yaml(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: lockstep\n  cluster:\n    server: {}\nusers:\n- name: lockstep\n  user: {{}}\ncontexts:\n- name: lockstep\n  context:\n    cluster: lockstep\n    user: lockstep\ncurrent-context: lockstep\n",
            self.url()
        )
    }

    /// Lets `run` look at the server or change it, beside the requests.
    pub fn with_server<T>(&self, run: impl FnOnce(&mut ApiServer) -> T) -> T {
        self.state.with_server(run)
    }

    /// Stops: open watches end at once, other requests are finished, then the connections close.
    pub async fn shutdown(mut self) {
        self.stop.pull();
        // Both tasks end by the signal; a panic in one has nothing left to break.
        let _ended = (&mut self.accept).await;
        let _ended = (&mut self.actors).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.pull();
        self.accept.abort();
        self.actors.abort();
    }
}

/// All connections belong to this one task, so that they end in the order in which they began when it is dropped. (A runtime
/// that is dropped ends its tasks in an order of its own, and a simulated crash would differ from run to run.)
async fn accept(mut listener: impl Listener, state: State, stop: Arc<Stop>) {
    use futures::StreamExt as _;

    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = stop.pulled() => break,
            accepted = listener.accept() => {
                // A failed accept is a client that went away or a lack of descriptors; both pass.
                match accepted {
                    Ok(stream) => {
                        // A panic ends its connection and no other.
                        let connection = serve(stream, state.clone(), Arc::clone(&stop));
                        connections.push(AssertUnwindSafe(connection).catch_unwind());
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            Some(_) = connections.next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drain = async { while connections.next().await.is_some() {} };
    // What has not finished by then is dropped.
    let _in_time = tokio::time::timeout(SHUTDOWN_GRACE, drain).await;
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: State, stop: Arc<Stop>) {
    let service = service_fn(|request| respond(request, state.clone(), Arc::clone(&stop)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A request that arrived whole is carried out, whatever became of its sender.
        .half_close(true)
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error ends the connection, of which the client learns by itself.
    tokio::select! {
        biased;
        _ended = connection.as_mut() => return,
        () = stop.pulled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _closed = connection.await;
}

type Body = BoxBody<Bytes, std::convert::Infallible>;

async fn respond(
    request: http::Request<Incoming>,
    state: State,
    stop: Arc<Stop>,
) -> Result<http::Response<Body>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => match error.downcast::<hyper::Error>() {
            Ok(error) => return Err(*error),
            // Longer than the server reads: hand it on as too long without holding it in memory.
            Err(_) => Bytes::from(vec![0; BODY_MAX_BYTES + 1]),
        },
    };
    let request = http::Request::from_parts(head, body);
    Ok(match state.handle(&request) {
        Response::Complete(response) => response.map(|body| Full::new(body).boxed()),
        Response::Watch(head, id) => {
            let events = stream::events(state, id, stop);
            head.map(|()| http_body_util::StreamBody::new(events).boxed())
        }
    })
}

async fn run_actors(actors: Option<Actors>, state: State, stop: Arc<Stop>) {
    let Some(mut actors) = actors else { return };
    loop {
        let changed = state.changed();
        let pending = state.with_server(|server| actors.tick(server, state.now()));
        let wait = if pending { Duration::ZERO } else { ACTOR_TICK };
        tokio::select! {
            biased;
            () = stop.pulled() => return,
            () = changed => {}
            () = tokio::time::sleep(wait) => {}
        }
        tokio::task::yield_now().await;
    }
}
