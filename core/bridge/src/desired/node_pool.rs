//! The desired state of the NodePool.
//!
//! HyperShift refuses a NodePool whose version is above that of its HostedCluster, and raises the latter only once the new
//! version is complete. So the HostedCluster is upgraded first.
//!
//! Source: "Relationships", "Field: `ocpReleaseImage`", decision 51.

use lockstep_engine::action::Action;
use lockstep_engine::object::text;
use serde_json::json;

use super::manifest;
use crate::model::rollout::is_complete;
use crate::names;
use crate::snapshot::BridgeSnapshot;

/// Returns the write that brings the NodePool to its desired state; `None` if it has reached it.
pub fn write(snapshot: &BridgeSnapshot<'_>) -> Option<Action> {
    let spec = json!({
        "clusterName": snapshot.key.name,
        // There are no machines to manage: nodes join by themselves.
        "replicas": 0,
        "release": { "image": release(snapshot) },
        "platform": { "type": "None" },
        "management": { "upgradeType": "Replace" },
    });
    manifest::bring(snapshot, &names::node_pool(), snapshot.node_pool().ours(), &spec)
}

/// Returns the release that the NodePool should have now: that of the spec, once the HostedCluster runs it.
pub fn release<'a>(snapshot: &BridgeSnapshot<'a>) -> &'a str {
    let wanted = snapshot.spec.ocp_release_image.as_str();
    let current = snapshot.node_pool().ours().and_then(|pool| text(pool, "/spec/release/image"));
    match (current, snapshot.hosted_cluster().ours()) {
        (Some(current), Some(cluster)) if !is_complete(cluster, wanted) => current,
        _ => wanted,
    }
}
