//! Planted bugs. The simulator must find each of them; otherwise a search without failures would prove nothing.
//!
//! A bug is a layer between a machine and its environment, so the machine itself is unchanged. It changes the input (events,
//! clocks), the output (requests, notes, the deadline), or the encoding of a request. Each is a mistake that real controllers
//! make.

use lockstep_engine::action::{KubeRequest, Outcome, Request};
use lockstep_engine::machine::{Deadline, Event, Machine, Step, Wrapper};
use lockstep_engine::time::Now;

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
pub type Garble = fn(&KubeRequest, http::Request<Vec<u8>>) -> http::Request<Vec<u8>>;

/// The changes that a bug makes. The default of each method changes nothing.
pub trait Flaw: Default {
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

/// Plants a flaw.
pub fn plant<F: Flaw + 'static>(machine: Box<dyn Machine>) -> Box<dyn Machine> {
    Box::new(Flawed { machine, flaw: F::default() })
}

impl<F: Flaw> Wrapper for Flawed<F> {
    fn inner(&self) -> &dyn Machine {
        &*self.machine
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
}
