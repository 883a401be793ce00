//! Bugs of a shell, planted between it and its machines: the search must find each of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_engine::action::Action;
use lockstep_engine::machine::{Deadline, Event, Machine, Note, Step, Wrapper};
use lockstep_engine::object::Kind;
use lockstep_engine::time::Now;

/// One way in which a shell can break its contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Controllers act without waiting for the lease.
    NoElection,
    /// A leader that could not renew its lease continues to lead.
    NeverStepsDown,
    /// A watch that was disconnected is not resumed.
    DeadWatch,
    /// Events of a new list are delivered, but not its start and end: objects deleted in the meantime stay in the cache.
    NoRelist,
    /// Deadlines are ignored: nothing is retried by itself.
    NoDeadlines,
    /// Some requests are lost: neither executed nor answered.
    ForgetsRequests,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 6] = [
        Self::NoElection,
        Self::NeverStepsDown,
        Self::DeadWatch,
        Self::NoRelist,
        Self::NoDeadlines,
        Self::ForgetsRequests,
    ];
}

/// [`Bug::ForgetsRequests`] loses one in this many requests.
const FORGOTTEN: u64 = 40;

/// A machine that is driven by a shell with a bug.
pub struct Faulty {
    bug: Bug,
    machine: Box<dyn Machine + Send>,
    listed: BTreeSet<Arc<Kind>>,
    dead: BTreeSet<Arc<Kind>>,
    requests: u64,
}

impl Faulty {
    /// Plants the bug.
    pub fn new(bug: Bug, machine: Box<dyn Machine + Send>) -> Self {
        let (listed, dead) = (BTreeSet::new(), BTreeSet::new());
        Self { bug, machine, listed, dead, requests: 0 }
    }

    fn is_election(&self) -> bool {
        self.machine.name() == "election"
    }

    /// Returns the event that reaches the machine, if any.
    fn distort(&mut self, event: Event) -> Option<Event> {
        match (self.bug, event) {
            (Bug::DeadWatch, Event::WatchFailed { kind, failure }) => {
                self.dead.insert(Arc::clone(&kind));
                Some(Event::WatchFailed { kind, failure })
            }
            (
                Bug::DeadWatch,
                Event::Applied { ref kind, .. }
                | Event::Deleted { ref kind, .. }
                | Event::ListStarted { ref kind }
                | Event::ListCompleted { ref kind },
            ) if self.dead.contains(kind) => None,
            (Bug::NoRelist, Event::ListStarted { kind }) => {
                (!self.listed.contains(&kind)).then_some(Event::ListStarted { kind })
            }
            (Bug::NoRelist, Event::ListCompleted { kind }) => {
                self.listed.insert(Arc::clone(&kind)).then_some(Event::ListCompleted { kind })
            }
            (_, event) => Some(event),
        }
    }
}

impl Wrapper for Faulty {
    fn inner(&self) -> &dyn Machine {
        &*self.machine
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let Some(event) = self.distort(event) else { return Step::default() };
        let mut step = self.machine.step(event, now);
        match self.bug {
            Bug::NeverStepsDown => {
                step.notes.retain(|note| !matches!(note, Note::LeadershipChanged { leading: false }));
            }
            Bug::ForgetsRequests if !self.is_election() => step.requests.retain(|request| {
                let asks = !matches!(request.action, Action::Watch(_));
                self.requests += u64::from(asks);
                !asks || !self.requests.is_multiple_of(FORGOTTEN)
            }),
            _ => {}
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        let kept = self.bug != Bug::NoDeadlines || self.is_election();
        if kept { self.machine.deadline() } else { None }
    }
}
