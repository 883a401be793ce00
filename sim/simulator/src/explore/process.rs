//! A process of a small world: a machine, the messages in transit, and the watches.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::action::{Action, ActionId, Outcome};
use lockstep_engine::machine::{DeadlineReason, Event};
use lockstep_engine::object::{Kind, ObjectRef};

use super::print::Print;
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
    pub(super) outcome: Option<Outcome>,
    pub(super) part: Option<&'static str>,
    pub(super) request: Print,
    pub(super) answer: Print,
}

/// A watch, and its events that are still to be delivered.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) stream: Stream,
    pub(super) events: VecDeque<(Event, Option<&'static str>, Print)>,
}

pub(super) struct Process {
    pub(super) machine: Box<dyn Explorable>,
    pub(super) state: Print,
    pub(super) is_alive: bool,
    pub(super) is_leading: bool,
    /// When its machine started.
    pub(super) began: Duration,
    pub(super) messages: BTreeMap<ActionId, Message>,
    pub(super) watches: BTreeMap<Arc<Kind>, Watch>,
}

impl Watch {
    /// Adds the new events of the server.
    pub(super) fn look(&mut self, server: &mut Server, now: Timestamp, part_of: PartOf) {
        for event in self.stream.look(&mut server.model, now).events {
            let print = server.print(&format!("{event:?}"), &BTreeMap::new());
            let part = part_of_event(&event, part_of);
            self.events.push_back((event, part, print));
        }
    }
}

impl Clone for Process {
    fn clone(&self) -> Self {
        Self {
            machine: self.machine.fork(),
            state: self.state.clone(),
            is_alive: self.is_alive,
            is_leading: self.is_leading,
            began: self.began,
            messages: self.messages.clone(),
            watches: self.watches.clone(),
        }
    }
}

impl Process {
    /// Returns a process that has not started.
    pub(super) fn new(machine: Box<dyn Explorable>, at: Duration) -> Self {
        Self {
            machine,
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
        messages.chain(self.watches.values().flat_map(|watch| watch.events.iter().map(|(_, part, _)| *part)))
    }

    /// Returns whether a message is in transit.
    pub(super) fn is_busy(&self) -> bool {
        !self.messages.is_empty() || self.watches.values().any(|watch| !watch.events.is_empty())
    }

    /// Returns the deadline of its machine, in the world's time, without resyncs.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let deadline = self
            .machine
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
