//! The external systems. They answer without the simulated network, which connects only Kubernetes clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lockstep_engine::action::{Action, Request};
use lockstep_engine::machine::{Deadline, DeadlineReason, Event, Machine, Step, Wrapper};
use lockstep_engine::time::{Monotonic, Now};
use lockstep_sim::cluster::ExternalSystems;

/// The latency of an answer.
const LATENCY: Duration = Duration::from_millis(300);

/// The external systems, if there are any. All hosts share them.
#[derive(Clone, Default)]
pub struct Beyond(Option<Arc<Mutex<Box<dyn ExternalSystems>>>>);

impl Beyond {
    /// Wraps external systems so that they can be shared.
    pub fn new(outside: Option<Box<dyn ExternalSystems>>) -> Self {
        Self(outside.map(|outside| Arc::new(Mutex::new(outside))))
    }

    /// Locks them; returns `None` if there are none.
    pub fn lock(&self) -> Option<MutexGuard<'_, Box<dyn ExternalSystems>>> {
        self.0.as_ref().map(|outside| outside.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A machine whose queries to a container registry are answered.
pub struct Answered {
    machine: Box<dyn Machine + Send>,
    beyond: Beyond,
    host: usize,
    /// The queries, each with the time of its answer.
    asked: VecDeque<(Monotonic, Request)>,
}

impl Answered {
    /// Wraps the machine of a host.
    pub fn new(machine: Box<dyn Machine + Send>, beyond: Beyond, host: usize) -> Self {
        Self { machine, beyond, host, asked: VecDeque::new() }
    }

    /// Passes an event to the machine, and keeps the requests that are not for the shell.
    fn pass_on(&mut self, event: Event, now: Now, into: &mut Step) {
        let Step { requests, notes } = self.machine.step(event, now);
        let (asked, requests): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| matches!(request.action, Action::Registry(_)));
        self.asked.extend(asked.into_iter().map(|request| (now.monotonic + LATENCY, request)));
        into.requests.extend(requests);
        into.notes.extend(notes);
    }
}

impl Wrapper for Answered {
    fn inner(&self) -> &dyn Machine {
        &*self.machine
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        self.pass_on(event, now, &mut step);
        while self.asked.front().is_some_and(|(at, _)| *at <= now.monotonic) {
            let Some((_, request)) = self.asked.pop_front() else { break };
            let mut outside = self.beyond.lock().expect("it is asked where it is");
            let outcome = outside.carry_out(self.host, &request.action, now.wall.timestamp());
            drop(outside);
            self.pass_on(Event::Finished { id: request.id, outcome }, now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        let answer = self
            .asked
            .front()
            .map(|(at, _)| Deadline { at: *at, reason: DeadlineReason::Work("an answer comes") });
        [self.machine.deadline(), answer].into_iter().flatten().min_by_key(|deadline| deadline.at)
    }
}
