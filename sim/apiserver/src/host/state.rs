//! The state that hosts serve. It outlives them, as etcd outlives API servers.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::Notify;

use crate::server::{ApiServer, Response, WatchId, WatchPoll};

/// Receives each request with its time and its answer, in the order of execution.
pub type Witness = Box<dyn Fn(Timestamp, &http::Request<Bytes>, &Response) + Send + Sync>;

/// A server, its clock, and the tasks that wait for its changes. Clones share it.
#[derive(Clone)]
pub struct State(Arc<Shared>);

struct Shared {
    server: Mutex<ApiServer>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    witness: Option<Witness>,
    changed: Notify,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("server", &self.0.server).finish_non_exhaustive()
    }
}

impl State {
    /// Returns a state with a server and its clock.
    pub fn new(server: ApiServer, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::with_witness(server, clock, None)
    }

    /// Returns a state with a witness that receives all requests of the server.
    pub fn witnessed(
        server: ApiServer,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        witness: Witness,
    ) -> Self {
        Self::with_witness(server, clock, Some(witness))
    }

    fn with_witness(
        server: ApiServer,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        witness: Option<Witness>,
    ) -> Self {
        let (server, clock) = (Mutex::new(server), Box::new(clock));
        Self(Arc::new(Shared { server, clock, witness, changed: Notify::new() }))
    }

    /// Calls `run` with the server, and then wakes the tasks that wait for changes.
    pub fn with_server<T>(&self, run: impl FnOnce(&mut ApiServer) -> T) -> T {
        let mut server = self.lock();
        let before = server.revision();
        let result = run(&mut server);
        let after = server.revision();
        drop(server);
        if before != after {
            self.0.changed.notify_waiters();
        }
        result
    }

    pub(super) fn handle(&self, request: &http::Request<Bytes>) -> Response {
        self.with_server(|server| {
            let now = self.now();
            let response = server.handle(request, now);
            if let Some(witness) = &self.0.witness {
                witness(now, request, &response);
            }
            response
        })
    }

    pub(super) fn poll_watch(&self, id: WatchId) -> WatchPoll {
        self.lock().poll_watch(id, self.now())
    }

    pub(super) fn cancel_watch(&self, id: WatchId) {
        self.lock().cancel_watch(id);
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.0.clock)()
    }

    /// Completes with the next change after this call, even if it is polled later.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + '_ {
        self.0.changed.notified()
    }

    /// Locks the server, even after a panic: a request that panics leaves only complete objects.
    fn lock(&self) -> MutexGuard<'_, ApiServer> {
        self.0.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
