//! The result of an exploration.

use std::collections::BTreeSet;

use crate::plan::Plan;
use crate::run::Run;

/// What an exploration covered, and the violation that it found.
#[derive(Debug, Clone, Default)]
pub struct Explored {
    /// Number of distinct states.
    pub states: u64,
    /// Number of transitions that were executed.
    pub transitions: u64,
    /// Length of the longest run.
    pub depth: usize,
    /// The fingerprints of the states in which all users are done and nothing happens any more.
    pub finals: BTreeSet<u64>,
    /// Whether all runs of the scope were explored.
    pub is_complete: bool,
    /// The shortest run with a violation that was found, if any.
    pub failure: Option<Counterexample>,
}

/// A run with a violation.
#[derive(Debug, Clone)]
pub struct Counterexample {
    /// The number of transitions.
    pub transitions: usize,
    /// The operations and faults of the run. A plan does not determine the order of messages, so it only describes the run.
    pub plan: Plan,
    /// The run, with its violation and its journal.
    pub run: Run,
}
