//! Planted bugs. The simulator must find each of them; otherwise a search without failures would prove nothing.
//!
//! A bug is a layer between a machine and its environment, so the machine itself is unchanged. It changes the input (events,
//! clocks), the output (requests, notes, the deadline), or the encoding of a request. Each is a mistake that real controllers
//! make.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_core::engine::action::{Action, ActionId, Outcome, Request};
use lockstep_core::engine::machine::{Deadline, Event, Machine, Metric, Step};
use lockstep_core::time::Now;

mod answers;
mod bridge;
mod clocks;
mod common;
mod dpuservice;
mod events;
mod requests;
mod sentinel;

/// A bug that can be planted.
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// Describes the bug in one sentence.
    pub sentence: &'static str,
    /// The controller in which it is planted.
    pub controller: &'static str,
    /// Wraps a machine in the bug.
    pub plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
    /// Corrupts requests on their way to the server.
    pub garble: Option<Garble>,
}

/// Changes the encoded request of an action.
pub type Garble = fn(&Action, http::Request<Vec<u8>>) -> http::Request<Vec<u8>>;

/// Returns all bugs.
pub fn all() -> Vec<&'static Bug> {
    [
        answers::BUGS,
        bridge::BUGS,
        clocks::BUGS,
        dpuservice::BUGS,
        events::BUGS,
        requests::BUGS,
        sentinel::BUGS,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The controller in which the bugs of most files are planted.
const HOST: &str = lockstep_crds::namespaceclass::CONTROLLER;

/// The changes that a bug makes. The default of each method changes nothing.
trait Flaw: Default {
    /// Changes an input event; none drops it.
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(event)
    }

    /// Changes the clocks that the machine sees.
    fn now(&mut self, now: Now) -> Now {
        now
    }

    /// Changes an outgoing request. If it returns an outcome, that is the answer, and the request is never sent.
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let _ = request;
        None
    }

    /// Changes the whole output of a step.
    fn step(&mut self, step: &mut Step) {
        let _ = step;
    }

    /// Changes the deadline that the driver sees.
    fn deadline(&self, deadline: Option<Deadline>) -> Option<Deadline> {
        deadline
    }
}

/// A machine with a flaw.
struct Flawed<F> {
    machine: Box<dyn Machine>,
    flaw: F,
}

fn plant<F: Flaw + 'static>(machine: Box<dyn Machine>) -> Box<dyn Machine> {
    Box::new(Flawed { machine, flaw: F::default() })
}

fn sound(machine: Box<dyn Machine>) -> Box<dyn Machine> {
    machine
}

impl<F: Flaw> Machine for Flawed<F> {
    fn name(&self) -> &'static str {
        self.machine.name()
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let now = self.flaw.now(now);
        let mut whole = Step::default();
        let mut events: Vec<Event> = self.flaw.event(event).into_iter().collect();
        while let Some(event) = events.pop() {
            let step = self.machine.step(event, now);
            for mut request in step.requests {
                match self.flaw.request(&mut request) {
                    Some(outcome) => events.push(Event::Finished { id: request.id, outcome }),
                    None => whole.requests.push(request),
                }
            }
            whole.notes.extend(step.notes);
        }
        self.flaw.step(&mut whole);
        whole
    }

    fn deadline(&self) -> Option<Deadline> {
        self.flaw.deadline(self.machine.deadline())
    }

    fn queue_depths(&self) -> Vec<(&'static str, usize)> {
        self.machine.queue_depths()
    }

    fn is_synced(&self) -> bool {
        self.machine.is_synced()
    }

    fn metrics(&self) -> &'static [Metric] {
        self.machine.metrics()
    }

    fn patience(&self) -> Option<Duration> {
        self.machine.patience()
    }
}

/// The requested actions without an answer.
#[derive(Default)]
struct Asked(BTreeMap<ActionId, Action>);

impl Asked {
    fn note(&mut self, request: &Request) {
        self.0.insert(request.id, request.action.clone());
    }

    fn answered(&mut self, event: &Event) -> Option<Action> {
        match event {
            Event::Finished { id, .. } => self.0.remove(id),
            _ => None,
        }
    }
}
