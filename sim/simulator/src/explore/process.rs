//! A process of a small world: a machine, the messages in transit, and the watches.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::action::{Action, ActionId, Outcome};
use lockstep_engine::machine::{DeadlineReason, Event};
use lockstep_engine::object::{Kind, ObjectRef};

use super::print::{Print, hash};
use super::server::Server;
use crate::cluster::Stream;
use crate::explorable::Explorable;
use crate::history::reference;

/// Returns the part of the world that an object belongs to.
pub(super) type PartOf = fn(&ObjectRef) -> Option<&'static str>;

/// A request in transit, or its answer.
#[derive(Clone)]
pub(super) struct Message {
    pub(super) action: Arc<Action>,
    /// None until the request has reached the server.
    pub(super) answer: Option<Answer>,
    pub(super) part: Option<&'static str>,
    pub(super) request: Print,
    /// The hash of the exact request.
    pub(super) request_id: u64,
}

/// The answer to a request.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) print: Print,
    /// The hash of the exact answer.
    pub(super) id: u64,
}

/// A watch event that is to be delivered.
#[derive(Clone)]
pub(super) struct WatchEvent {
    pub(super) event: Event,
    pub(super) part: Option<&'static str>,
    pub(super) print: Print,
    /// The hash of the exact event.
    pub(super) id: u64,
}

/// A watch, and its events that are still to be delivered.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) stream: Stream,
    pub(super) events: VecDeque<WatchEvent>,
}

/// A machine that the copies of its process share: most transitions concern the server only.
#[derive(Clone)]
pub(super) struct SharedMachine {
    machine: Rc<dyn Explorable>,
    /// Identifies its exact state.
    pub(super) id: u64,
}

impl SharedMachine {
    pub(super) fn get(&self) -> &dyn Explorable {
        &*self.machine
    }

    /// Returns the machine, of which the id must be set again.
    pub(super) fn get_mut(&mut self) -> &mut dyn Explorable {
        if Rc::get_mut(&mut self.machine).is_none() {
            self.machine = Rc::from(self.machine.fork());
        }
        Rc::get_mut(&mut self.machine).expect("the copy is not shared")
    }
}

#[derive(Clone)]
pub(super) struct Process {
    pub(super) machine: SharedMachine,
    pub(super) state: Print,
    pub(super) is_alive: bool,
    pub(super) is_leading: bool,
    /// When its machine started.
    pub(super) began: Duration,
    pub(super) messages: BTreeMap<ActionId, Message>,
    pub(super) watches: BTreeMap<Arc<Kind>, Watch>,
}

impl Watch {
    /// Returns the new events of the server.
    pub(super) fn look(&mut self, server: &mut Server, now: Timestamp, part_of: PartOf) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        for event in self.stream.look(&mut server.model, now).events {
            let text = format!("{event:?}");
            let (print, id) = (server.print(&text, &BTreeMap::new()), hash(&text));
            events.push(WatchEvent { part: part_of_event(&event, part_of), event, print, id });
        }
        events
    }
}

impl Process {
    /// Returns a process that has not started.
    pub(super) fn new(machine: Box<dyn Explorable>, id: u64, at: Duration) -> Self {
        Self {
            machine: SharedMachine { machine: Rc::from(machine), id },
            state: Print::default(),
            is_alive: true,
            is_leading: false,
            began: at,
            messages: BTreeMap::new(),
            watches: BTreeMap::new(),
        }
    }

    /// Returns the parts that messages in transit concern; none for a message that concerns several parts.
    pub(super) fn parts_in_transit(&self) -> impl Iterator<Item = Option<&'static str>> {
        let messages = self.messages.values().map(|message| message.part);
        messages.chain(self.watches.values().flat_map(|watch| watch.events.iter().map(|it| it.part)))
    }

    /// Returns whether a message is in transit.
    pub(super) fn is_busy(&self) -> bool {
        !self.messages.is_empty() || self.watches.values().any(|watch| !watch.events.is_empty())
    }

    /// Returns the deadline of its machine, in the world's time, without resyncs.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let deadline = self
            .machine
            .get()
            .deadline()
            .filter(|deadline| self.is_alive && deadline.reason != DeadlineReason::Resync)?;
        Some(self.began + deadline.at.elapsed())
    }

    /// Returns the names of the actions in transit, for fingerprints.
    pub(super) fn action_names(&self) -> BTreeMap<u64, u64> {
        self.messages.iter().map(|(id, message)| (id.0, message.request.text)).collect()
    }
}

/// Returns the part that a watch event concerns.
fn part_of_event(event: &Event, part_of: PartOf) -> Option<&'static str> {
    match event {
        Event::Applied { kind, object } | Event::Deleted { kind, object } => {
            part_of(&reference(kind, object))
        }
        Event::Started
        | Event::LeadershipChanged { .. }
        | Event::ListStarted { .. }
        | Event::ListCompleted { .. }
        | Event::WatchFailed { .. }
        | Event::Finished { .. }
        | Event::TimerFired => None,
    }
}
