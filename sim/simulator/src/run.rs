//! One run: fault injection by plan, then recovery, then a quiet period.

use std::time::Duration;

use jiff::Timestamp;
use lockstep_apiserver::server::{ApiServer, Options};
use serde::Serialize;

use super::bugs::Bug;
use super::plan::Plan;
use super::planned_faults::{Injection, Struck};
use super::subject::{ClusterHand, SystemUnderTest};
use crate::cluster::{Cluster, Entry, NoFaults};

mod program;
mod running;

pub(super) use self::program::seed_of;
use self::running::Running;

/// A controller in a prepared cluster, ready to run any number of plans.
#[derive(Clone)]
pub struct Simulation {
    subject: &'static dyn SystemUnderTest,
    server: ApiServer,
    start: Timestamp,
    bug: Option<&'static Bug>,
}

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
    /// The hash of the whole run.
    pub hash: String,
    /// The journal of the run, if it was kept.
    pub journal: Vec<Entry>,
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

/// Checked after fault injection has ended.
pub const LIVENESS: [(&str, &str); 4] = [
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
];

impl Simulation {
    /// Prepares the cluster.
    pub fn new(subject: &'static dyn SystemUnderTest) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        let server = ApiServer::new(&Options { start, ..Options::default() });
        let mut cluster = Cluster::around(server, start, NoFaults);
        subject.prepare(&mut ClusterHand { cluster: &mut cluster, actor: "user" });
        cluster.advance(Duration::from_secs(1));
        Self { subject, server: cluster.server, start, bug: None }
    }

    /// Returns the same simulation with a planted bug.
    #[must_use]
    pub fn with_bug(&self, bug: &'static Bug) -> Self {
        Self { bug: Some(bug), ..self.clone() }
    }

    /// Returns the controller under test.
    pub fn subject(&self) -> &'static dyn SystemUnderTest {
        self.subject
    }

    /// Runs a plan. The journal is kept only if `keep` is set.
    pub fn run(&self, plan: &Plan, keep: bool) -> Run {
        Running::begin(self, plan, keep).go()
    }
}
