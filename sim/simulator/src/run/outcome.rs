//! The result of a run, and the invariants that are checked after fault injection.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::cluster::Entry;
use crate::coverage::Reached;
use crate::planned_faults::{Injection, Struck};
use crate::subject::Testimony;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The violated invariant, if any.
    pub violation: Option<Violation>,
    /// Number of machine steps.
    pub steps: u64,
    /// Number of requests that reached the server or were prevented by a fault.
    pub requests: u64,
    /// Simulated time.
    pub simulated: Duration,
    /// How often each fault was injected, by the action in flight.
    pub struck: Struck,
    /// The injections, in order.
    pub strikes: Vec<Injection>,
    /// The controller of each process.
    pub controllers: BTreeMap<usize, &'static str>,
    /// The hash of the whole run.
    pub hash: String,
    /// The journal of the run, if it was kept.
    pub journal: Vec<Entry>,
    /// How often each combination was reached, if [`Simulation::covering`](super::Simulation::covering) asked for that.
    pub reached: Reached,
}

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What the invariant requires.
    pub sentence: &'static str,
    /// What was observed instead.
    pub seen: String,
    /// Simulated time of the violation.
    pub at: Duration,
}

impl Violation {
    /// Returns what a checker found.
    pub(crate) fn of(testimony: Testimony, at: Duration) -> Self {
        let Testimony { invariant, sentence, seen } = testimony;
        Self { invariant, sentence, seen, at }
    }
}

/// Checked after fault injection has ended.
pub const LIVENESS: [(&str, &str); 8] = [
    (
        "desired_state_is_reached",
        "Once nothing goes wrong any more, the world is as it should be within the controller's bound.",
    ),
    (
        "quiet_once_converged",
        "In a world that is as it should be nothing is written, not even over a resync.",
    ),
    ("does_not_spin", "No run takes steps without end."),
    (
        "every_event_is_counted",
        "At rest, the Events on the API server count how often the process that leads announced each, unless the server refused it.",
    ),
    (
        "a_new_leader_writes_nothing",
        "In a world that is as it should be a process that takes over writes nothing.",
    ),
    (
        "every_condition_is_logged",
        "At rest, the process that leads has logged each change of a condition once that it wrote, even without an answer, unless another client changed the condition before.",
    ),
    (
        "no_resync_is_needed",
        "Once nothing goes wrong any more, and nothing is left to do until the next resync, the world is as it should be.",
    ),
    (
        "a_status_is_rebuilt",
        "In a world that is as it should be a status that another client removes is written again as it was, and nothing else is.",
    ),
];
