//! Bugs to be planted: what the simulator must find, so that its silence means something.
//!
//! A bug sits between a machine and its world, so that the machine itself stays free of it: it changes what goes in
//! (events, clocks), what comes out (requests, notes, the deadline), or how a request is written. Each is a mistake
//! that controllers make in earnest.

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
    /// What is wrong, in one sentence.
    pub sentence: &'static str,
    /// The controller that it is planted in.
    pub controller: &'static str,
    /// Puts it around a machine.
    pub plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
    /// Garbles requests on their way to the server.
    pub garble: Option<Garble>,
}

/// What becomes of the request by which an action is carried out.
pub type Garble = fn(&Action, http::Request<Vec<u8>>) -> http::Request<Vec<u8>>;

/// All bugs.
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

/// The controller that the bugs of most files are planted in.
const HOST: &str = lockstep_crds::namespaceclass::CONTROLLER;

/// What a bug does to what passes by it. What is left out passes unchanged.
trait Flaw: Default {
    /// An event on its way in; none if it gets lost.
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(event)
    }

    /// The clocks, as the machine is told them.
    fn now(&mut self, now: Now) -> Now {
        now
    }

    /// A request on its way out, which may be changed; an outcome if it is answered here and never sent.
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let _ = request;
        None
    }

    /// All that a step gave out.
    fn step(&mut self, step: &mut Step) {
        let _ = step;
    }

    /// The deadline, as the driver is told it.
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

/// The actions that were asked for and not answered yet.
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
