//! Serves the API server model over HTTP: on loopback, or on any other [`Listener`].
//!
//! This is the only module of this crate with a clock and with I/O. One mutex guards the server. Each change wakes the watches
//! and the actors, in the order in which they started to wait. ([`tokio::sync::watch`] would wake them in a random order, and a
//! simulated network would differ from run to run.)

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::connections::Body;
use self::serving::Serving;
use crate::server::{Actors, ApiServer, Options as ServerOptions, Response};

pub mod connections;
mod listener;
pub mod serving;
mod state;
mod stop;
mod stream;

pub use listener::Listener;
pub use state::{State, Witness};
pub use stop::Stop;

/// How often the actors check the clock when nothing changes.
const ACTOR_TICK: Duration = Duration::from_millis(100);

/// The options of a host.
#[derive(Debug, Clone)]
pub struct Options {
    /// The options of its server.
    pub server: ServerOptions,
    /// The actors that run beside it; none for a server without actors.
    pub actors: Option<Actors>,
}

impl Default for Options {
    fn default() -> Self {
        let server = ServerOptions { start: Timestamp::now(), ..ServerOptions::default() };
        Self { server, actors: Some(Actors::default()) }
    }
}

/// A running host; stopped by [`Host::shutdown`] or, abruptly, on drop.
#[derive(Debug)]
pub struct Host {
    state: State,
    serving: Serving,
    actors: JoinHandle<()>,
}

impl Host {
    /// Listens and serves a new server on the current tokio runtime; port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// If the address can't be bound.
    pub async fn bind(addr: SocketAddr, options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let state = State::new(ApiServer::new(&options.server), Timestamp::now);
        Self::start(listener, state, options.actors)
    }

    /// Serves the state on the connections of the listener, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// If the listener does not know its address.
    pub fn start(listener: impl Listener, state: State, actors: Option<Actors>) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let (shared, stopped) = (state.clone(), Arc::clone(&stop));
        let answer = move |request: http::Request<Bytes>| {
            std::future::ready(answer(&request, shared.clone(), Arc::clone(&stopped)))
        };
        let serving = Serving::start(listener, Arc::clone(&stop), answer)?;
        let actors = tokio::spawn(run_actors(actors, state.clone(), stop));
        Ok(Self { state, serving, actors })
    }

    /// Returns the address on which the host listens.
    pub fn addr(&self) -> SocketAddr {
        self.serving.addr()
    }

    /// Returns the server's URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Returns a kubeconfig with this server as its only cluster.
    pub fn kubeconfig_yaml(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: lockstep\n  cluster:\n    server: {}\nusers:\n- name: lockstep\n  user: {{}}\ncontexts:\n- name: lockstep\n  context:\n    cluster: lockstep\n    user: lockstep\ncurrent-context: lockstep\n",
            self.url()
        )
    }

    /// Calls `run` with the server, to read or change it outside of requests.
    pub fn with_server<T>(&self, run: impl FnOnce(&mut ApiServer) -> T) -> T {
        self.state.with_server(run)
    }

    /// Stops: open watches end immediately, other requests are finished, then the connections close.
    pub async fn shutdown(self) {
        self.serving.shutdown().await;
        // The actors end by the same signal; a panic in them has no effect any more.
        let _ended = self.actors.await;
    }
}

fn answer(request: &http::Request<Bytes>, state: State, stop: Arc<Stop>) -> http::Response<Body> {
    match state.handle(request) {
        Response::Complete(response) => response.map(|body| Full::new(body).boxed()),
        Response::Watch(head, id) => {
            let events = stream::events(state, id, stop);
            head.map(|()| http_body_util::StreamBody::new(events).boxed())
        }
    }
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
