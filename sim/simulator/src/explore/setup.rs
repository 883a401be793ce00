//! The initial state of a small world.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_apiserver::server::{ApiServer, Options};

use crate::bugs::Bug;
use crate::cluster::{Cluster, NoFaults};
use crate::subject::{ClusterClient, SmallWorld, SystemUnderTest};

pub(super) struct Setup {
    pub(super) subject: &'static dyn SystemUnderTest,
    pub(super) small: SmallWorld,
    pub(super) bug: Option<&'static Bug>,
    pub(super) server: ApiServer,
    pub(super) start: Timestamp,
}

impl Setup {
    /// The delay of the control plane.
    pub(super) const PACE: SignedDuration = SignedDuration::from_millis(50);

    /// Prepares the cluster.
    pub(super) fn new(
        subject: &'static dyn SystemUnderTest,
        small: &SmallWorld,
        bug: Option<&'static Bug>,
    ) -> Self {
        let start = Timestamp::from_second(1_700_000_000).unwrap_or(Timestamp::UNIX_EPOCH);
        let server = ApiServer::new(&Options { start, ..Options::default() });
        let mut cluster = Cluster::around(server, start, NoFaults);
        (small.prepare)(&mut ClusterClient { cluster: &mut cluster, actor: "user" });
        cluster.advance(Duration::from_secs(1));
        Self { subject, small: *small, bug, server: cluster.server, start }
    }
}
