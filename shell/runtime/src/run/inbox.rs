//! The event queue of a driver, and the watches that fill it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kube::Client;
use lockstep_engine::action::Scope;
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::AbortHandle;

use crate::watch::{self, EventSink, Pause};

/// The capacity of the queue. Watches pause while it is full, so that lists don't accumulate in memory.
const CAPACITY: usize = 256;

/// A queued event, with the watch that received it, if any.
pub(super) struct Incoming {
    watch: Option<WatchId>,
    event: Event,
}

impl Incoming {
    /// Wraps an event that no watch received.
    pub(super) fn direct(event: Event) -> Self {
        Self { watch: None, event }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WatchId(u64);

/// Sends events of other components to a machine.
#[derive(Clone)]
pub struct Handle(Sender<Incoming>);

impl Handle {
    /// Sends one event; does nothing once the driver has ended.
    pub async fn send(&self, event: Event) {
        // An error means that the driver has ended, so no machine needs the event.
        let _ = self.0.send(Incoming::direct(event)).await;
    }
}

/// Receives the events.
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

    /// Queues an answer. Answers are delivered before all other events.
    pub(super) fn answer(&mut self, event: Event) {
        self.answers.push_back(event);
    }

    /// Returns the next event. Events of watches that have been replaced or ended are skipped. Cancelling loses nothing.
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

    /// Starts a watch of a kind, and replaces the previous one if it is running.
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

    /// Ends the watch of a kind. Its queued events are no longer delivered.
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
