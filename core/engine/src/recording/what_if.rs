//! Counterfactuals: a recorded run with one edited event.
//!
//! Two machines take the recorded steps at the recorded times. The first one gets the events as they were recorded, the second
//! one gets the edit. From there on the second one may request other actions. No answer is invented:
//!
//! | the second machine requests | it gets |
//! | --- | --- |
//! | what the first one requests too; of equal requests, the first two belong together, and so on | the recorded answer at its time, or directly after the request if that time has passed |
//! | anything else | no answer |
//! | no watch of a kind that the first one watches | no events of that watch |
//!
//! All other events are those of the recording. Watches do not show what the second machine writes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{Header, Line, Origin, Recordable, RecordedStep, is_as_recorded};
use crate::action::{Action, ActionId, Outcome, Request, WatchCommand};
use crate::machine::{Deadline, Event, Step};
use crate::object::Kind;
use crate::time::Now;

/// Runs a recording and its counterfactual, line by line.
pub struct WhatIf<M> {
    make: M,
    /// The number of the edited step.
    step: u64,
    /// The edited event, if it happens.
    edited: Option<Event>,
    recorded: Run,
    counterfactual: Run,
    requests: Requests,
    left_out: u64,
    unrestored: Vec<u64>,
    last: u64,
}

/// A step in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedStep {
    /// The recorded step, with the output of this replay.
    pub recorded: RecordedStep,
    /// Whether that output is as recorded.
    pub is_as_recorded: bool,
    /// The steps of the counterfactual: none if the event does not happen in it, several if answers follow at once.
    pub what_if: Vec<RecordedStep>,
}

impl ComparedStep {
    /// Returns whether both runs have the same output, except for the ids of requests.
    pub fn is_same(&self) -> bool {
        let outputs = || self.what_if.iter().map(|step| &step.gave);
        let actions = outputs().flat_map(|step| &step.requests).map(|request| &request.action);
        let notes = outputs().flat_map(|step| &step.notes);
        let Step { requests, notes: recorded } = &self.recorded.gave;
        requests.iter().map(|request| &request.action).eq(actions) && recorded.iter().eq(notes)
    }
}

/// The differences at the end.
#[derive(Debug, Clone)]
pub struct Remainder {
    /// The requests of the recording that the counterfactual does not make.
    pub only_recorded: Vec<Requested>,
    /// The requests of the counterfactual that the recording does not have, and therefore no answers to them.
    pub only_what_if: Vec<Requested>,
    /// The request that waits because the edit drops its answer.
    pub dropped: Option<Requested>,
    /// The number of events of watches that the counterfactual does not have.
    pub left_out: u64,
    /// The steps after which the recording has another state of the machine than its steps lead to. The counterfactual
    /// continued with its own.
    pub unrestored: Vec<u64>,
    /// When the counterfactual needs the next timer.
    pub deadline: Option<Deadline>,
}

/// A request with the step that made it.
#[derive(Debug, Clone, PartialEq)]
pub struct Requested {
    /// The number of the step.
    pub number: u64,
    /// Its time.
    pub now: Now,
    /// The request.
    pub request: Request,
}

impl<E, M: FnMut(Origin<'_>) -> Result<Box<dyn Recordable>, E>> WhatIf<M> {
    /// Returns the runs of machines that `make` creates. In the second one the event of the step is the edited one, or none.
    pub fn new(header: &Header, step: u64, edited: Option<Event>, mut make: M) -> Result<Self, E> {
        let config = Origin::Config(&header.config);
        let (recorded, counterfactual) = (Run::new(make(config)?), Run::new(make(config)?));
        let requests = Requests::default();
        Ok(Self {
            make,
            step,
            edited,
            recorded,
            counterfactual,
            requests,
            left_out: 0,
            unrestored: Vec::new(),
            last: 0,
        })
    }

    /// Processes the next line. A checkpoint gives no step.
    pub fn take(&mut self, line: Line) -> Result<Option<ComparedStep>, E> {
        let taken = match line {
            Line::Checkpoint(state) => return self.restore(&state).map(|()| None),
            Line::Step(taken) => taken,
        };
        let RecordedStep { number, now, event, gave } = taken;
        self.last = number;
        let given = self.recorded.step(event.clone(), now);
        for request in &given.requests {
            self.requests.recorded(Requested { number, now, request: request.clone() });
        }
        let is_as_recorded = is_as_recorded(&given, &gave);
        let recorded = RecordedStep { number, now, event: event.clone(), gave: given };
        let event = if number == self.step { self.edit(&event) } else { Some(event) };
        let mut due: VecDeque<Event> = event.and_then(|event| self.counterpart(event)).into_iter().collect();
        let mut what_if = Vec::new();
        while let Some(event) = due.pop_front() {
            let gave = self.counterfactual.step(event.clone(), now);
            for request in &gave.requests {
                let answer = self.requests.what_if(Requested { number, now, request: request.clone() });
                due.extend(answer.map(|outcome| Event::Finished { id: request.id, outcome }));
            }
            what_if.push(RecordedStep { number, now, event, gave });
        }
        Ok(Some(ComparedStep { recorded, is_as_recorded, what_if }))
    }

    /// Returns the differences at the end of the recording.
    pub fn finish(self) -> Remainder {
        let only_recorded = self.requests.recorded.into_iter().map(|unmatched| unmatched.requested);
        Remainder {
            only_recorded: only_recorded.collect(),
            only_what_if: self.requests.what_if,
            dropped: self.requests.dropped,
            left_out: self.left_out,
            unrestored: self.unrestored,
            deadline: self.counterfactual.machine.deadline(),
        }
    }

    /// A checkpoint replaces both machines while they have the same state. Later it can't replace the second one.
    fn restore(&mut self, state: &Value) -> Result<(), E> {
        let [recorded, what_if] = [&self.recorded, &self.counterfactual].map(Run::state);
        self.recorded.machine = (self.make)(Origin::Checkpoint(state))?;
        if recorded == what_if {
            self.counterfactual.machine = (self.make)(Origin::Checkpoint(state))?;
        } else if recorded.as_ref() != Some(state) {
            self.unrestored.push(self.last);
        }
        Ok(())
    }

    fn edit(&mut self, event: &Event) -> Option<Event> {
        let edited = self.edited.take();
        if let (Event::Finished { id, .. }, None) = (event, &edited) {
            self.requests.drop_answer(*id);
        }
        edited
    }

    /// Returns what the second machine gets when the first one gets an event.
    fn counterpart(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Finished { id, outcome } => self.requests.answered(id, outcome),
            event if event.kind().is_some_and(|kind| !self.has_watch(kind)) => {
                self.left_out += 1;
                None
            }
            event => Some(event),
        }
    }

    fn has_watch(&self, kind: &Arc<Kind>) -> bool {
        let is_older = || !self.recorded.watches.contains_key(kind);
        self.counterfactual.watches.get(kind).copied().unwrap_or_else(is_older)
    }
}

impl<M> fmt::Debug for WhatIf<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WhatIf").field("step", &self.step).field("last", &self.last).finish_non_exhaustive()
    }
}

/// One of the two runs.
struct Run {
    machine: Box<dyn Recordable>,
    /// Whether each kind is watched, for kinds with a watch that started or stopped in the recording.
    watches: BTreeMap<Arc<Kind>, bool>,
}

impl Run {
    fn new(machine: Box<dyn Recordable>) -> Self {
        Self { machine, watches: BTreeMap::new() }
    }

    fn state(&self) -> Option<Value> {
        self.machine.checkpoint()().ok()
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let step = self.machine.step(event, now);
        for request in &step.requests {
            match &request.action {
                Action::Watch(WatchCommand::Start { kind, .. }) => {
                    self.watches.insert(Arc::clone(kind), true);
                }
                Action::Watch(WatchCommand::Stop { kind }) => {
                    self.watches.insert(Arc::clone(kind), false);
                }
                Action::Kube(_) | Action::Http(_) | Action::Registry(_) | Action::Broker(_) => {}
            }
        }
        step
    }
}

/// Matches the requests of the counterfactual with those of the recording.
#[derive(Default)]
struct Requests {
    /// The ids of all requests of the recording.
    ids: BTreeSet<ActionId>,
    /// The requests of the recording that the counterfactual has not made, in order.
    recorded: Vec<Unmatched>,
    /// The requests of the counterfactual that the recording does not have up to now, in order.
    what_if: Vec<Requested>,
    /// The counterparts of requests of the recording that are not answered yet.
    pending: BTreeMap<ActionId, Requested>,
    dropped: Option<Requested>,
}

struct Unmatched {
    requested: Requested,
    answer: Option<Outcome>,
}

impl Requests {
    /// Adds a request of the recording.
    fn recorded(&mut self, requested: Requested) {
        let id = requested.request.id;
        self.ids.insert(id);
        let is_equal = |it: &Requested| it.request.action == requested.request.action;
        match self.what_if.iter().position(is_equal) {
            Some(place) => {
                let counterpart = self.what_if.remove(place);
                self.pending.insert(id, counterpart);
            }
            None => self.recorded.push(Unmatched { requested, answer: None }),
        }
    }

    /// Adds a request of the counterfactual. Returns the answer, if the recording has got it already.
    fn what_if(&mut self, requested: Requested) -> Option<Outcome> {
        let is_equal = |it: &Unmatched| it.requested.request.action == requested.request.action;
        let Some(place) = self.recorded.iter().position(is_equal) else {
            self.what_if.push(requested);
            return None;
        };
        let Unmatched { requested: recorded, answer } = self.recorded.remove(place);
        if answer.is_none() {
            self.pending.insert(recorded.request.id, requested);
        }
        answer
    }

    /// Returns what the counterfactual gets when a request of the recording is answered.
    fn answered(&mut self, id: ActionId, outcome: Outcome) -> Option<Event> {
        if let Some(counterpart) = self.pending.remove(&id) {
            return Some(Event::Finished { id: counterpart.request.id, outcome });
        }
        if let Some(unmatched) = self.recorded.iter_mut().find(|it| it.requested.request.id == id) {
            unmatched.answer = Some(outcome);
            return None;
        }
        // Both machines made the other requests before the recording began.
        (!self.ids.contains(&id)).then_some(Event::Finished { id, outcome })
    }

    /// The request never gets its answer.
    fn drop_answer(&mut self, id: ActionId) {
        self.dropped = self.pending.remove(&id);
    }
}

#[cfg(test)]
mod tests;
