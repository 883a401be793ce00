//! Upgrades: the HostedCluster is upgraded first, and the NodePool when that version is complete.
//!
//! HyperShift refuses a NodePool whose version is above that of its HostedCluster, and raises the latter only once the new
//! version is complete. Until then it reports temporary objections, which do not affect the health of the cluster.
//!
//! Source: "Field: `ocpReleaseImage`", decision 51.

use lockstep_engine::conditions::Status;
use serde_json::Value;

use crate::desired::node_pool;
use crate::model::hypershift::{describe, is};
use crate::model::rollout::{deciding_history, is_blocked};
use crate::names::reason;
use crate::snapshot::BridgeSnapshot;

/// Returns what an upgrade in progress waits for; `None` if the HostedCluster and the NodePool have the release of the spec.
pub fn progress(snapshot: &BridgeSnapshot<'_>) -> Option<String> {
    let wanted = snapshot.spec.ocp_release_image.as_str();
    let current = node_pool::release(snapshot);
    let cluster = snapshot.hosted_cluster().ours().filter(|_| current != wanted)?;
    let newest = deciding_history(cluster).and_then(<[Value]>::first);
    let state = newest.map_or_else(
        || "no version is reported yet".to_owned(),
        |newest| {
            let field = |name: &str| newest[name].as_str().unwrap_or("unknown").to_owned();
            format!("version {} is {}", field("version"), field("state"))
        },
    );
    Some(format!(
        "the HostedCluster is upgraded to {wanted} ({state}); the NodePool keeps {current} until that is complete"
    ))
}

/// Returns the status, reason and message of `SpecApplied` during an upgrade.
pub fn state(cluster: &Value, progress: String) -> (Status, &'static str, String) {
    let blocked = || describe(cluster, "Progressing");
    if !is_blocked(cluster) {
        (Status::Unknown, reason::UPGRADE_IN_PROGRESS, progress)
    } else if is(cluster, "ReconciliationActive", "False") {
        (Status::Unknown, reason::UPDATE_PENDING, format!("{progress}; HyperShift is paused: {}", blocked()))
    } else {
        (
            Status::False,
            reason::UPDATE_REFUSED,
            format!("HyperShift can't upgrade the HostedCluster: {}", blocked()),
        )
    }
}
