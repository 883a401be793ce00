//! Serves the API server model over HTTP on loopback.
//!
//! The only place of this crate with a clock and with I/O. One mutex guards the server; a counter of revisions wakes
//! the watches and the actors after each change.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::apiserver::{Actors, ApiServer, BODY_MAX_BYTES, Options as ServerOptions, Response};

mod stream;

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
        let server = ServerOptions { start: now(), ..ServerOptions::default() };
        Self { server, actors: Some(Actors::default()) }
    }
}

/// A running host; stopped by [`Host::shutdown`] or, abruptly, when dropped.
#[derive(Debug)]
pub struct Host {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    accept: JoinHandle<()>,
    actors: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: Mutex<ApiServer>,
    revision: watch::Sender<u64>,
}

impl Shared {
    /// Lets `run` work on the server, then wakes whoever waits for changes.
    fn with<T>(&self, run: impl FnOnce(&mut ApiServer) -> T) -> T {
        let mut server = self.lock();
        let result = run(&mut server);
        let revision = server.revision();
        drop(server);
        self.revision.send_if_modified(|seen| std::mem::replace(seen, revision) != revision);
        result
    }

    /// A panic in one request leaves whole objects behind, so that the server stays usable.
    fn lock(&self) -> MutexGuard<'_, ApiServer> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> Timestamp {
    Timestamp::now()
}

impl Host {
    /// Listens and serves on the current tokio runtime; port 0 takes a free port.
    ///
    /// # Errors
    ///
    /// If the address can't be bound.
    pub async fn bind(addr: SocketAddr, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let server = ApiServer::new(&options.server);
        let revision = watch::Sender::new(server.revision());
        let shared = Arc::new(Shared { server: Mutex::new(server), revision });
        let stop = watch::Sender::new(false);
        let accept = tokio::spawn(accept(listener, Arc::clone(&shared), stop.subscribe()));
        let actors = tokio::spawn(run_actors(options.actors, Arc::clone(&shared), stop.subscribe()));
        Ok(Self { addr, shared, stop, accept, actors })
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
        self.shared.with(run)
    }

    /// Stops: open watches end at once, other requests are finished, then the connections close.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        // Both tasks end by the signal; a panic in one has nothing left to break.
        let _ended = (&mut self.accept).await;
        let _ended = (&mut self.actors).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        self.accept.abort();
        self.actors.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stop) => break,
            accepted = listener.accept() => {
                // A failed accept is a client that went away or a lack of descriptors; both pass.
                match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, Arc::clone(&shared), stop.clone()));
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(SHUTDOWN_GRACE, drain).await.is_err() {
        connections.shutdown().await;
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, stop: watch::Receiver<bool>) {
    // Without it, small responses wait for acknowledgements; failing to set it only costs time.
    let _set = stream.set_nodelay(true);
    let mut stopping = stop.clone();
    let service = service_fn(move |request| respond(request, Arc::clone(&shared), stop.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error ends the connection, of which the client learns by itself.
    tokio::select! {
        biased;
        _ended = connection.as_mut() => return,
        () = stopped(&mut stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _closed = connection.await;
}

/// Waits for the signal to stop, which is also given by dropping the sender.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _closed = stop.wait_for(|stop| *stop).await;
}

type Body = BoxBody<Bytes, std::convert::Infallible>;

async fn respond(
    request: http::Request<Incoming>,
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
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
    Ok(match shared.with(|server| server.handle(&request, now())) {
        Response::Complete(response) => response.map(|body| Full::new(body).boxed()),
        Response::Watch(head, id) => {
            let events = stream::events(shared, id, stop);
            head.map(|()| http_body_util::StreamBody::new(events).boxed())
        }
    })
}

async fn run_actors(actors: Option<Actors>, shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let Some(mut actors) = actors else { return };
    let mut revision = shared.revision.subscribe();
    loop {
        revision.mark_unchanged();
        let pending = shared.with(|server| actors.tick(server, now()));
        let wait = if pending { Duration::ZERO } else { ACTOR_TICK };
        tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            _ = revision.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
        tokio::task::yield_now().await;
    }
}
