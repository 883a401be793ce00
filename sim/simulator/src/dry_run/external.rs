//! The systems outside Kubernetes, as the snapshot shows them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lockstep_engine::action::{Action, ErrorKind, Failure, Outcome};

use super::snapshot::{self, Snapshot};
use crate::cluster::ExternalSystems;

/// Container registries that give the answers of the snapshot. There is nothing else outside Kubernetes.
pub(super) struct RecordedImages(BTreeMap<String, Outcome>);

impl RecordedImages {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self(snapshot.images())
    }
}

impl ExternalSystems for RecordedImages {
    fn carry_out(&mut self, _: usize, action: &Action, _: Timestamp) -> Outcome {
        let unknown = || Err(Failure::new(ErrorKind::Unavailable, "a dry run does not reach this system"));
        self.0.get(&snapshot::key(action)).cloned().unwrap_or_else(unknown)
    }

    fn died(&mut self, _: usize) {}
}
