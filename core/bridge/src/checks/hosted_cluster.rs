//! Whether the HostedCluster exists.

use lockstep_engine::conditions::{Finding, Status};

use super::unwatched::unwatched;
use crate::model::bridge::Bridge;
use crate::model::source::Source;
use crate::names::{condition, reason};
use crate::snapshot::{BridgeSnapshot, OwnedObject};

/// Returns the finding about `HostedClusterCreated`, unless a write of this pass overrides it.
pub fn created(snapshot: &BridgeSnapshot<'_>) -> Finding {
    let key = snapshot.key;
    let before = snapshot.bridge.condition(condition::HOSTED_CLUSTER_CREATED);
    let existed = existed(snapshot.bridge) || before.is_some_and(|before| before.reason == reason::DELETED);
    let (status, reason, message) = match snapshot.hosted_cluster() {
        OwnedObject::Ours(_) => {
            (Status::True, reason::CREATED, format!("HostedCluster '{key}' created successfully"))
        }
        OwnedObject::Going => {
            (Status::False, reason::DELETED, format!("HostedCluster '{key}' is being deleted"))
        }
        OwnedObject::Foreign => (
            Status::False,
            reason::CREATION_FAILED,
            format!(
                "HostedCluster '{key}' exists and does not belong to this DPFHCPBridge; create the DPFHCPBridge under another name"
            ),
        ),
        OwnedObject::Unknown(failure) => unwatched(Source::HostedClusters, failure),
        OwnedObject::Absent if existed => {
            (Status::False, reason::DELETED, format!("HostedCluster '{key}' was deleted"))
        }
        OwnedObject::Absent => {
            (Status::Unknown, reason::NOT_CREATED, "the HostedCluster is not created yet".to_owned())
        }
    };
    Finding { condition: condition::HOSTED_CLUSTER_CREATED, status, reason, message }
}

/// Returns whether the status reports that the HostedCluster exists, or that it did when it could last be watched.
pub fn existed(bridge: &Bridge) -> bool {
    bridge.condition(condition::HOSTED_CLUSTER_CREATED).is_some_and(|before| {
        before.status == "True"
            || (before.reason == reason::WATCH_FAILED && bridge.status.hosted_cluster_ref.is_some())
    })
}
