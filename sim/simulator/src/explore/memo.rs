//! Results of machine steps and of requests, so that the same one is computed once.
//!
//! A step is a function of the machine, the event and the time; an answer is a function of the server, the request and the time.
//! Two orders of a step and a request contain the same step and the same request, so most results occur several times. They are
//! found by hashes of 64 bits of their exact input. The invariants are checked for every occurrence.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use lockstep_engine::action::ActionId;
use lockstep_engine::machine::Step;
use lockstep_engine::object::Kind;

use super::act::Act;
use super::print::Print;
use super::process::{Answer, Message, SharedMachine, WatchEvent};
use super::server::Server;
use crate::cluster::Change;

/// Number of results per generation. A server is several times as large as a machine.
const STEPS_MAX: usize = 20_000;
const ANSWERS_MAX: usize = 2_000;
const STATES_MAX: usize = 200_000;
const ACTS_MAX: usize = 20_000;

/// The results of the search so far, without the oldest.
pub(super) struct Memo {
    pub(super) steps: Generations<Stepped>,
    pub(super) answers: Generations<Answered>,
    /// The fingerprints of machines.
    pub(super) states: Generations<Print>,
    /// What the systems around do next.
    pub(super) acts: Generations<Option<Arc<Act>>>,
}

impl Default for Memo {
    fn default() -> Self {
        Self {
            steps: Generations::new(STEPS_MAX),
            answers: Generations::new(ANSWERS_MAX),
            states: Generations::new(STATES_MAX),
            acts: Generations::new(ACTS_MAX),
        }
    }
}

/// The result of a step.
#[derive(Clone)]
pub(super) struct Stepped {
    pub(super) machine: SharedMachine,
    pub(super) step: Step,
    /// Its requests, except for those about watches.
    pub(super) messages: Vec<(ActionId, Message)>,
}

/// The result of a request.
#[derive(Clone)]
pub(super) struct Answered {
    pub(super) server: Rc<Server>,
    pub(super) answer: Answer,
    pub(super) changes: Vec<Change>,
    /// The new events, each with its process and its kind.
    pub(super) events: Vec<(usize, Arc<Kind>, WatchEvent)>,
}

/// Results by the hash of their input. If a generation is full, the one before it is dropped.
pub(super) struct Generations<V> {
    limit: usize,
    young: BTreeMap<u64, V>,
    old: BTreeMap<u64, V>,
}

impl<V: Clone> Generations<V> {
    fn new(limit: usize) -> Self {
        Self { limit, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// Returns the result for an input. It becomes one of the youngest.
    pub(super) fn get(&mut self, input: u64) -> Option<V> {
        if let Some(found) = self.young.get(&input) {
            return Some(found.clone());
        }
        let found = self.old.remove(&input)?;
        self.insert(input, found.clone());
        Some(found)
    }

    /// Adds a result.
    pub(super) fn insert(&mut self, input: u64, result: V) {
        if self.young.len() == self.limit {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(input, result);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_are_not_used_are_dropped_first() {
        let mut results = Generations::new(2);
        for input in 0..2 {
            results.insert(input, input);
        }
        results.insert(2, 2);
        assert_eq!(results.get(0), Some(0));
        results.insert(3, 3);
        assert_eq!([0, 1, 2, 3].map(|input| results.get(input).is_some()), [true, false, true, true]);
    }
}
