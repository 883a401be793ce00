//! One process: a machine, its open requests and its watches. It keeps nothing that a crash would not take.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use jiff::Timestamp;
use lockstep_core::engine::action::{Class, Failure, Request, Scope};
use lockstep_core::engine::machine::{Event, Machine};
use lockstep_core::engine::wire;
use lockstep_core::object::Kind;
use serde_json::{Value, json};

use super::Recording;
use crate::apiserver::{ApiServer, Response, WatchId};

/// How long a watch that was refused waits before it tries again.
const WATCH_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Process {
    pub(super) machine: Box<dyn Machine>,
    pub(super) began: Duration,
    pub(super) open: VecDeque<Request>,
    pub(super) recording: Recording,
    make: Box<dyn Fn() -> Box<dyn Machine>>,
    watches: BTreeMap<Arc<Kind>, Watch>,
}

#[derive(Debug)]
struct Watch {
    scope: Scope,
    state: State,
    seen: VecDeque<Event>,
}

#[derive(Debug)]
enum State {
    /// To be listed, not before this time.
    Listing(Duration),
    Open(WatchId),
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("began", &self.began)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}

impl Process {
    pub(super) fn new(make: Box<dyn Fn() -> Box<dyn Machine>>, began: Duration) -> Self {
        Self {
            machine: make(),
            began,
            open: VecDeque::new(),
            recording: Recording::default(),
            make,
            watches: BTreeMap::new(),
        }
    }

    pub(super) fn restart(&mut self, server: &mut ApiServer, at: Duration) {
        for watch in std::mem::take(&mut self.watches).into_values() {
            watch.close(server);
        }
        self.machine = (self.make)();
        self.began = at;
        self.open.clear();
        self.recording = Recording::default();
    }

    pub(super) fn watch(&mut self, kind: &Arc<Kind>, scope: Scope) {
        let state = State::Listing(Duration::ZERO);
        let watch = Watch { scope, state, seen: VecDeque::new() };
        self.watches.insert(Arc::clone(kind), watch);
    }

    pub(super) fn unwatch(&mut self, kind: &Arc<Kind>, server: &mut ApiServer) {
        if let Some(watch) = self.watches.remove(kind) {
            watch.close(server);
        }
    }

    /// The next event that a watch has seen, if there is one.
    pub(super) fn next_event(
        &mut self,
        server: &mut ApiServer,
        timestamp: Timestamp,
        clock: Duration,
    ) -> Option<Event> {
        self.watches.iter_mut().find_map(|(kind, watch)| {
            if watch.seen.is_empty() {
                watch.look(kind, server, timestamp, clock);
            }
            watch.seen.pop_front()
        })
    }
}

impl Watch {
    fn close(self, server: &mut ApiServer) {
        if let State::Open(id) = self.state {
            server.cancel_watch(id);
        }
    }

    fn look(&mut self, kind: &Arc<Kind>, server: &mut ApiServer, timestamp: Timestamp, clock: Duration) {
        match self.state {
            State::Listing(not_before) if clock < not_before => {}
            State::Listing(_) => self.list(kind, server, timestamp, clock),
            State::Open(id) => {
                let poll = server.poll_watch(id, timestamp);
                let mut over = poll.closed;
                for event in poll.events {
                    let object = Arc::new(self.trim(&event.object, kind));
                    let kind = Arc::clone(kind);
                    match event.kind {
                        "ADDED" | "MODIFIED" => self.seen.push_back(Event::Observed { kind, object }),
                        "DELETED" => self.seen.push_back(Event::Vanished { kind, object }),
                        "ERROR" => over = true,
                        _ => {}
                    }
                }
                if over {
                    server.cancel_watch(id);
                    self.state = State::Listing(clock);
                }
            }
        }
    }

    fn list(&mut self, kind: &Arc<Kind>, server: &mut ApiServer, timestamp: Timestamp, clock: Duration) {
        let selector = self.scope.selector.replace('/', "%2F");
        let path = format!("{}?labelSelector={selector}", wire::path::collection(kind, None));
        let answer = ask(server, &path, timestamp);
        let Some((200, Some(list), _)) = answer else {
            let class = answer.map_or(Class::Invalid, |(code, _, _)| wire::class(code, ""));
            let failure = Failure::new(class, format!("{kind} can't be listed"));
            self.seen.push_back(Event::WatchFailed { kind: Arc::clone(kind), failure });
            self.state = State::Listing(clock + WATCH_RETRY);
            return;
        };
        self.seen.push_back(Event::ListStarted { kind: Arc::clone(kind) });
        for object in list["items"].as_array().into_iter().flatten() {
            let object = Arc::new(self.trim(object, kind));
            self.seen.push_back(Event::Observed { kind: Arc::clone(kind), object });
        }
        self.seen.push_back(Event::ListCompleted { kind: Arc::clone(kind) });
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
        let path = format!("{path}&watch=true&resourceVersion={version}");
        self.state = match ask(server, &path, timestamp) {
            Some((200, _, Some(id))) => State::Open(id),
            _ => State::Listing(clock + WATCH_RETRY),
        };
    }

    /// What the shell's watches hand on: metadata alone where that was asked for; list items with their kind filled in.
    fn trim(&self, object: &Value, kind: &Kind) -> Value {
        if self.scope.metadata_only {
            return json!({ "metadata": object["metadata"] });
        }
        let mut object = object.clone();
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        object
    }
}

fn ask(
    server: &mut ApiServer,
    path: &str,
    timestamp: Timestamp,
) -> Option<(u16, Option<Value>, Option<WatchId>)> {
    let request = http::Request::get(path).header(ACCEPT, wire::JSON).body(Bytes::new()).ok()?;
    Some(match server.handle(&request, timestamp) {
        Response::Complete(response) => {
            (response.status().as_u16(), serde_json::from_slice(response.body()).ok(), None)
        }
        Response::Watch(head, id) => (head.status().as_u16(), None, Some(id)),
    })
}
