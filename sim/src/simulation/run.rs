//! One run: a storm by plan, then calm, then quiet.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::bugs::Bug;
use super::plan::Plan;
use super::planned_faults::{Injection, Struck};
use super::subject::{ClusterHand, SystemUnderTest};
use crate::apiserver::{ApiServer, Options};
use crate::cluster::{Cluster, Entry, NoFaults};

mod program;
mod running;

pub(super) use self::program::seed_of;
use self::running::Running;

/// A controller on its stage, ready to be run by any number of plans.
#[derive(Clone)]
pub struct Simulation {
    subject: &'static dyn SystemUnderTest,
    server: ApiServer,
    start: Timestamp,
    bug: Option<&'static Bug>,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// What did not hold, if something did not.
    pub violation: Option<Violation>,
    /// Steps of machines.
    pub steps: u64,
    /// Requests that reached the server, or were kept from it.
    pub requests: u64,
    /// Virtual time.
    pub simulated: Duration,
    /// How often each fault struck while which action was under way.
    pub struck: Struck,
    /// Each strike, in order.
    pub strikes: Vec<Injection>,
    /// The hash of all that happened.
    pub hash: String,
    /// All that happened, if it was to be kept.
    pub journal: Vec<Entry>,
}

/// Something that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What it says.
    pub sentence: &'static str,
    /// What was seen instead.
    pub seen: String,
    /// When, in simulated time.
    pub at: Duration,
}

/// Checked once nothing goes wrong any more.
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
    /// Prepares the stage.
    pub fn new(subject: &'static dyn SystemUnderTest) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        let server = ApiServer::new(&Options { start, ..Options::default() });
        let mut cluster = Cluster::around(server, start, NoFaults);
        subject.prepare(&mut ClusterHand { cluster: &mut cluster, actor: "user" });
        cluster.advance(Duration::from_secs(1));
        Self { subject, server: cluster.server, start, bug: None }
    }

    /// The same with a planted bug.
    #[must_use]
    pub fn with_bug(&self, bug: &'static Bug) -> Self {
        Self { bug: Some(bug), ..self.clone() }
    }

    /// The controller.
    pub fn subject(&self) -> &'static dyn SystemUnderTest {
        self.subject
    }

    /// Runs a plan; the journal is kept only if it is asked for.
    pub fn run(&self, plan: &Plan, keep: bool) -> Run {
        Running::begin(self, plan, keep).go()
    }
}
