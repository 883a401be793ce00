//! Whether another client keeps changing the HostedCluster or the NodePool.
//!
//! Source: not in the specification (decision 12).

use std::time::Duration;

use lockstep_engine::repair_backoff;

use crate::model::managed_object::ManagedObject;
use crate::snapshot::BridgeSnapshot;

/// Returns what is reported of the one that another client keeps changing.
pub fn message(snapshot: &BridgeSnapshot<'_>) -> Option<String> {
    let (object, _) = contested(snapshot).next()?;
    Some(repair_backoff::contested(object.title()))
}

/// Returns for how much longer that is reported.
pub fn reported_for(snapshot: &BridgeSnapshot<'_>) -> Option<Duration> {
    contested(snapshot).map(|(_, rest)| rest).min()
}

fn contested(snapshot: &BridgeSnapshot<'_>) -> impl Iterator<Item = (ManagedObject, Duration)> {
    let contested = snapshot.memory.repairs.contested(snapshot.now.monotonic);
    let contested = contested.map(|(written, rest)| (written.object, rest));
    contested.filter(|(object, _)| matches!(object, ManagedObject::HostedCluster | ManagedObject::NodePool))
}
