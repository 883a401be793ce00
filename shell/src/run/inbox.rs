//! The one queue of events of a driver, and the watches that feed it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube::Client;
use lockstep_core::engine::action::Scope;
use lockstep_core::engine::machine::Event;
use lockstep_core::object::Kind;
use lockstep_core::random::Random;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;

use crate::watch::{self, EventSink, Pause};

/// How many events may wait; watches pause while the queue is full, so that lists don't pile up in memory.
const CAPACITY: usize = 256;

/// One event on its way, and which watch saw it, if one did.
pub(super) struct Incoming {
    watch: Option<WatchId>,
    event: Event,
}

impl Incoming {
    /// An event that no watch saw.
    pub(super) fn direct(event: Event) -> Self {
        Self { watch: None, event }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WatchId(u64);

/// Sends a machine events from outside.
#[derive(Clone)]
pub struct Handle(Sender<Incoming>);

impl Handle {
    /// Sends one event; does nothing once the driver has ended.
    pub async fn send(&self, event: Event) {
        // An error means that the driver has ended, and with it whoever the event was for.
        let _ = self.0.send(Incoming::direct(event)).await;
    }
}

/// Takes events in.
pub(super) struct Inbox {
    answers: VecDeque<Event>,
    sender: Sender<Incoming>,
    receiver: Receiver<Incoming>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        Self { answers: VecDeque::new(), sender, receiver }
    }

    pub(super) fn handle(&self) -> Handle {
        Handle(self.sender.clone())
    }

    pub(super) fn sender(&self) -> Sender<Incoming> {
        self.sender.clone()
    }

    /// Puts an event before all others.
    pub(super) fn answer(&mut self, event: Event) {
        self.answers.push_back(event);
    }

    /// The next event; those of watches that have been replaced or ended are skipped. Cancelling loses nothing.
    pub(super) async fn next(&mut self, watches: &mut Watches) -> Event {
        if let Some(event) = self.answers.pop_front() {
            return event;
        }
        loop {
            let incoming = self.receiver.recv().await.expect("the inbox itself holds a sender");
            if watches.are_current(&incoming) {
                return incoming.event;
            }
        }
    }
}

/// The watches of one machine, at most one of each kind.
pub(super) struct Watches {
    client: Client,
    sender: Sender<Incoming>,
    running: BTreeMap<Arc<Kind>, (WatchId, AbortHandle)>,
    last_id: u64,
    random: Random,
}

impl Watches {
    pub(super) fn new(client: Client, seed: u64, inbox: &Inbox) -> Self {
        let random = Random::from_seed(seed);
        Self { client, sender: inbox.sender(), running: BTreeMap::new(), last_id: 0, random }
    }

    /// Watches a kind, instead of the watch of it that may run.
    pub(super) fn start(&mut self, kind: Arc<Kind>, scope: Scope) {
        self.stop(&kind);
        self.last_id += 1;
        let id = WatchId(self.last_id);
        let outlet = EventSink {
            events: self.sender.clone(),
            wrap: Box::new(move |event| Incoming { watch: Some(id), event }),
        };
        let pause = Pause::new(self.random.bits());
        let task = tokio::spawn(watch::follow(self.client.clone(), Arc::clone(&kind), scope, outlet, pause));
        self.running.insert(kind, (id, task.abort_handle()));
    }

    /// Ends the watch of a kind; what it has already seen is no longer told.
    pub(super) fn stop(&mut self, kind: &Kind) {
        if let Some((_, task)) = self.running.remove(kind) {
            task.abort();
        }
    }

    /// Ends all watches.
    pub(super) fn stop_all(&mut self) {
        for (_, task) in std::mem::take(&mut self.running).into_values() {
            task.abort();
        }
    }

    fn are_current(&self, incoming: &Incoming) -> bool {
        incoming.watch.is_none_or(|id| self.running.values().any(|(running, _)| *running == id))
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.stop_all();
    }
}
