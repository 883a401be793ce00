//! One watch of a process: a list, then the changes after it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use jiff::Timestamp;
use lockstep_apiserver::server::{ApiServer, Response, SharedList, TakesShared, WatchId};
use lockstep_engine::action::{ErrorKind, Failure, Scope};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::wire;
use serde_json::{Value, json};

/// Delay before a refused watch is retried.
pub(super) const RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Stream {
    pub(super) kind: Arc<Kind>,
    scope: Scope,
    /// Distinguishes this watch from earlier ones of the same kind, so that their events in transit are not delivered to it.
    pub(super) id: u64,
    open: Option<WatchId>,
    /// Whether the list succeeded, but the watch after it was refused.
    unwatchable: bool,
    /// When the last of its events arrives: no event overtakes another within one watch.
    pub(super) last_arrival: Duration,
}

/// New watch events, and whether the watch has ended.
#[derive(Debug, Default)]
pub(crate) struct WatchBatch {
    pub(crate) events: Vec<Event>,
    pub(crate) over: bool,
}

impl Stream {
    pub(crate) fn new(kind: Arc<Kind>, scope: Scope, id: u64) -> Self {
        Self { kind, scope, id, open: None, unwatchable: false, last_arrival: Duration::ZERO }
    }

    pub(crate) fn close(&mut self, server: &mut ApiServer) {
        if let Some(id) = self.open.take() {
            server.cancel_watch(id);
        }
    }

    /// Lists, and starts the watch if it is not refused. A list is not complete if the watch was refused before and is refused
    /// again.
    pub(crate) fn begin(
        &mut self,
        server: &mut ApiServer,
        now: Timestamp,
        lag: u64,
        refused: Option<Failure>,
    ) -> WatchBatch {
        let mut batch = self.list(server, now, lag);
        // A failed list shows nothing about the watch.
        if batch.over {
            return batch;
        }
        if self.unwatchable && refused.is_some() {
            batch.events.pop();
        }
        self.unwatchable = refused.is_some();
        if let Some(failure) = refused {
            self.close(server);
            batch.events.extend(self.refused(failure).events);
            batch.over = true;
        }
        batch
    }

    /// Lists from a state that is `lag` changes old, and watches from there.
    fn list(&mut self, server: &mut ApiServer, now: Timestamp, lag: u64) -> WatchBatch {
        self.close(server);
        let selector = self.scope.selector.replace('/', "%2F");
        let collection = wire::path::collection(&self.kind, self.scope.namespace.as_deref());
        let name = self.scope.name.as_ref().map(|name| format!("&fieldSelector=metadata.name%3D{name}"));
        let path = format!("{collection}?labelSelector={selector}{}", name.unwrap_or_default());
        let list = match Self::list_of(server, &path, now, lag) {
            // The history does not go back that far.
            Err(_) if lag > 0 => Self::list_of(server, &path, now, 0),
            list => list,
        };
        let SharedList { items, revision } = match list {
            Ok(list) => list,
            Err(class) => {
                return self.refused(Failure::new(class, format!("{} can't be listed", self.kind)));
            }
        };
        let mut events = vec![Event::ListStarted { kind: Arc::clone(&self.kind) }];
        events.extend(items.into_iter().map(|object| self.observed(object)));
        events.push(Event::ListCompleted { kind: Arc::clone(&self.kind) });
        let path = format!("{path}&watch=true&resourceVersion={revision}");
        match ask(server, &path, now) {
            // A state from before the kind was served can be listed, but not watched. Clients list again, without a version.
            Some(Response::Watch(_, id)) if lag > 0 && server.is_watch_refused(id) => {
                server.cancel_watch(id);
                return self.list(server, now, 0);
            }
            Some(Response::Watch(_, id)) => self.open = Some(id),
            Some(Response::Complete(_)) | None => return WatchBatch { events, over: true },
        }
        WatchBatch { events, over: false }
    }

    /// Returns a batch that ends with this failure of the list or the watch.
    pub(super) fn refused(&self, failure: Failure) -> WatchBatch {
        let failed = Event::WatchFailed { kind: Arc::clone(&self.kind), failure };
        WatchBatch { events: vec![failed], over: true }
    }

    /// Returns the list, or the class of the failure.
    fn list_of(
        server: &mut ApiServer,
        path: &str,
        now: Timestamp,
        lag: u64,
    ) -> Result<SharedList, ErrorKind> {
        let path = match lag {
            0 => path.to_owned(),
            lag => {
                let version = server.revision().saturating_sub(lag).max(1);
                format!("{path}&resourceVersion={version}&resourceVersionMatch=Exact")
            }
        };
        match ask(server, &path, now) {
            Some(Response::Complete(response)) => {
                let (mut parts, body) = response.into_parts();
                let status = || serde_json::from_slice(&body).unwrap_or_default();
                parts.extensions.remove().ok_or_else(|| wire::class(parts.status.as_u16(), &status()))
            }
            Some(Response::Watch(..)) | None => Err(ErrorKind::Invalid),
        }
    }

    /// Returns the changes since the last call. The end of the watch is returned once.
    pub(crate) fn look(&mut self, server: &mut ApiServer, now: Timestamp) -> WatchBatch {
        let batch = self.poll(server, now);
        if batch.over {
            self.close(server);
        }
        batch
    }

    fn poll(&self, server: &mut ApiServer, now: Timestamp) -> WatchBatch {
        let mut batch = WatchBatch::default();
        let Some(id) = self.open else { return batch };
        loop {
            let poll = server.poll_watch(id, now);
            batch.over |= poll.closed;
            for event in poll.events {
                match event.kind {
                    "ADDED" | "MODIFIED" => batch.events.push(self.observed(event.object)),
                    "DELETED" => {
                        let object = self.trim(event.object);
                        batch.events.push(Event::Deleted { kind: Arc::clone(&self.kind), object });
                    }
                    "ERROR" => batch.over = true,
                    _ => {}
                }
            }
            if batch.over || !poll.more {
                return batch;
            }
        }
    }

    fn observed(&self, object: Arc<Value>) -> Event {
        Event::Applied { kind: Arc::clone(&self.kind), object: self.trim(object) }
    }

    /// Returns the object as the shell's watches deliver it: metadata only if requested, and list items with their kind added.
    fn trim(&self, mut object: Arc<Value>) -> Arc<Value> {
        if self.scope.metadata_only {
            return Arc::new(json!({ "metadata": object["metadata"] }));
        }
        let api_version = self.kind.api_version();
        if object["apiVersion"] != *api_version || object["kind"] != *self.kind.kind {
            let object = Arc::make_mut(&mut object);
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(self.kind.kind);
        }
        object
    }
}

fn ask(server: &mut ApiServer, path: &str, now: Timestamp) -> Option<Response> {
    let request = http::Request::get(path).header(ACCEPT, wire::JSON).extension(TakesShared);
    let request = request.body(Bytes::new()).ok()?;
    Some(server.handle(&request, now))
}
