//! Whether the control plane of a HostedCluster serves, and whether the cluster was ready before.
//!
//! Source: "Condition: Ready".

use jiff::Timestamp;
use lockstep_engine::object::metadata;
use serde_json::Value;

use crate::model::hosted_cluster::{is_available, is_installed};
use crate::names::condition;
use crate::snapshot::BridgeSnapshot;

/// Returns whether the control plane of the bridge's HostedCluster serves. One that was ready has a version installed. Without
/// nodes, the histories of a HyperShift that was updated do not show it.
pub fn serves(snapshot: &BridgeSnapshot<'_>) -> bool {
    let cluster = snapshot.hosted_cluster().ours();
    cluster.is_some_and(|cluster| is_available(cluster) && (is_installed(cluster) || was_ready(snapshot)))
}

/// Returns whether `Provisioned` reports that this HostedCluster was ready. The condition may refer to an earlier one.
pub fn was_ready(snapshot: &BridgeSnapshot<'_>) -> bool {
    let created = snapshot.hosted_cluster().ours().and_then(created_at);
    snapshot.bridge.condition(condition::PROVISIONED).is_some_and(|before| {
        before.status == "True" && created.is_none_or(|created| before.last_transition_time.0 >= created)
    })
}

/// Returns when a HostedCluster was created, if its metadata says so.
pub fn created_at(cluster: &Value) -> Option<Timestamp> {
    metadata(cluster, "creationTimestamp").parse().ok()
}
