//! The simulation of a controller: the initial state of its runs.

use std::time::Duration;

use jiff::Timestamp;
use lockstep_apiserver::server::{ApiServer, Options};

use crate::bugs::Bug;
use crate::cluster::{Cluster, NoFaults};
use crate::subject::{ClusterClient, SystemUnderTest};

/// A controller in a prepared cluster, ready to run any number of plans.
#[derive(Clone)]
pub struct Simulation {
    pub(super) subject: &'static dyn SystemUnderTest,
    pub(super) server: ApiServer,
    pub(super) start: Timestamp,
    pub(super) bug: Option<&'static Bug>,
    pub(super) covers: bool,
}

impl Simulation {
    /// Prepares the cluster.
    pub fn new(subject: &'static dyn SystemUnderTest) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        let server = ApiServer::new(&Options { start, ..Options::default() });
        let mut cluster = Cluster::around(server, start, NoFaults);
        subject.prepare(&mut ClusterClient { cluster: &mut cluster, actor: "user" });
        cluster.advance(Duration::from_secs(1));
        Self { subject, server: cluster.server, start, bug: None, covers: false }
    }

    /// Returns the same simulation with a planted bug.
    #[must_use]
    pub fn with_bug(&self, bug: &'static Bug) -> Self {
        Self { bug: Some(bug), ..self.clone() }
    }

    /// Returns the same simulation, the runs of which collect the combinations that they reach. That changes nothing else.
    #[must_use]
    pub fn covering(&self) -> Self {
        Self { covers: true, ..self.clone() }
    }

    /// Returns the controllers that run: the one under test, or its members.
    pub(super) fn members(&self) -> Vec<&'static dyn SystemUnderTest> {
        match self.subject.members() {
            [] => vec![self.subject],
            members => members.to_vec(),
        }
    }

    /// Returns the controller under test.
    pub fn subject(&self) -> &'static dyn SystemUnderTest {
        self.subject
    }
}
