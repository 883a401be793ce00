//! Whether the NodePool has the nodes that it should have.
//!
//! Without machines to manage, HyperShift never reports a NodePool as ready. With zero replicas, it counts as ready as soon
//! as nothing about it is invalid.
//!
//! Source: "Condition: NodePoolReady".

use lockstep_engine::conditions::{Finding, Status};
use serde_json::Value;

use super::unwatched::unwatched;
use crate::model::hypershift::{condition as find, describe, is};
use crate::model::source::Source;
use crate::names::{condition, reason};
use crate::snapshot::{BridgeSnapshot, OwnedObject};

/// The conditions of a NodePool that report that it can't work in its current state.
const VALIDITY: [&str; 7] = [
    "ValidReleaseImage",
    "ValidPlatformImage",
    "ValidMachineConfig",
    "ValidGeneratedPayload",
    "ValidArchPlatform",
    "ValidTuningConfig",
    "SupportedVersionSkew",
];

/// Returns the finding about `NodePoolReady`, unless a write of this pass overrides it.
pub fn judge(snapshot: &BridgeSnapshot<'_>) -> Finding {
    let key = snapshot.key;
    let (status, reason, message) = match snapshot.node_pool() {
        OwnedObject::Ours(pool) => nodes(pool),
        OwnedObject::Foreign => (
            Status::False,
            reason::NODE_POOL_CREATION_FAILED,
            format!(
                "NodePool '{key}' exists and does not belong to this DPFHCPBridge; create the DPFHCPBridge under another name"
            ),
        ),
        OwnedObject::Going => {
            (Status::False, reason::WAITING_FOR_NODES, format!("NodePool '{key}' is being deleted"))
        }
        OwnedObject::Unknown(failure) => unwatched(Source::NodePools, failure),
        OwnedObject::Absent => {
            (Status::Unknown, reason::WAITING_FOR_NODES, "the NodePool is not created yet".to_owned())
        }
    };
    Finding { condition: condition::NODE_POOL_READY, status, reason, message }
}

/// Returns what a NodePool waits for while its cluster is installed: ignition is not served, or not configured yet.
/// HyperShift does not continue until then, and has not checked a payload.
fn installing(pool: &Value) -> Option<&'static str> {
    let has_payload = find(pool, "ValidGeneratedPayload").is_some();
    let waits = ["IgnitionEndpointAvailable", "ValidMachineConfig"];
    waits.into_iter().find(|name| !has_payload && is(pool, name, "False"))
}

fn nodes(pool: &Value) -> (Status, &'static str, String) {
    if let Some(waits) = installing(pool) {
        return (Status::Unknown, reason::WAITING_FOR_NODES, describe(pool, waits));
    }
    let objections = VALIDITY.into_iter().filter(|name| is(pool, name, "False") && !is_brief(pool, name));
    let (of_release, invalid): (Vec<&str>, Vec<&str>) = objections.partition(|name| is_about_release(name));
    if let Some(invalid) = invalid.first() {
        return (Status::False, reason::NODES_UNHEALTHY, describe(pool, invalid));
    }
    if let Some(objection) = of_release.first() {
        let message =
            format!("HyperShift does not take the NodePool's release now: {}", describe(pool, objection));
        return (Status::Unknown, reason::RELEASE_PENDING, message);
    }
    let replicas = pool["spec"]["replicas"].as_i64().unwrap_or(0);
    match find(pool, "Ready") {
        Some(_) if is(pool, "Ready", "True") => {
            let count = pool["status"]["replicas"].as_i64().unwrap_or(0);
            (Status::True, reason::NODES_READY, format!("{count}/{replicas} worker nodes are ready"))
        }
        Some(_) if is(pool, "AllNodesHealthy", "False") => {
            (Status::False, reason::NODES_UNHEALTHY, describe(pool, "AllNodesHealthy"))
        }
        Some(_) => (Status::False, reason::WAITING_FOR_NODES, describe(pool, "Ready")),
        None if pool["status"]["conditions"].as_array().is_none_or(Vec::is_empty) => {
            (Status::Unknown, reason::WAITING_FOR_NODES, "the NodePool reports nothing yet".to_owned())
        }
        None if replicas == 0 => (Status::True, reason::NODES_READY, "0 replicas requested".to_owned()),
        None => {
            (Status::False, reason::WAITING_FOR_NODES, "the NodePool does not report its nodes".to_owned())
        }
    }
}

/// Returns whether an objection of a NodePool is temporary, and does not affect its health: each new token is not found for a
/// moment.
fn is_brief(pool: &Value, objection: &str) -> bool {
    objection == "ValidGeneratedPayload"
        && find(pool, objection).is_some_and(|found| found["reason"] == "NotFound")
}

/// Returns whether an objection of a NodePool is about its release, and so does not affect its health. Either the upgrade
/// resolves it, or the image is that of the HostedCluster too, whose conditions report it.
fn is_about_release(objection: &str) -> bool {
    matches!(objection, "SupportedVersionSkew" | "ValidReleaseImage")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_conditions_of_a_pool_decide_whether_nodes_are_ready() {
        let found = |replicas: i64, conditions: &[(&str, &str)]| {
            let conditions: Vec<Value> =
                conditions.iter().map(|(name, status)| json!({ "type": name, "status": status })).collect();
            nodes(
                &json!({ "spec": { "replicas": replicas }, "status": { "replicas": 2, "conditions": conditions } }),
            )
        };
        let decided = |replicas: i64, conditions: &[(&str, &str)]| {
            let (status, reason, _) = found(replicas, conditions);
            (status, reason)
        };
        assert_eq!(decided(3, &[("Ready", "True")]), (Status::True, reason::NODES_READY));
        assert_eq!(found(3, &[("Ready", "True")]).2, "2/3 worker nodes are ready");
        assert_eq!(decided(3, &[("Ready", "False")]), (Status::False, reason::WAITING_FOR_NODES));
        assert_eq!(
            decided(3, &[("Ready", "False"), ("AllNodesHealthy", "True")]),
            (Status::False, reason::WAITING_FOR_NODES)
        );
        assert_eq!(
            decided(3, &[("Ready", "False"), ("AllNodesHealthy", "False")]),
            (Status::False, reason::NODES_UNHEALTHY)
        );
        assert_eq!(decided(3, &[]), (Status::Unknown, reason::WAITING_FOR_NODES));
        assert_eq!(decided(3, &[("Other", "True")]), (Status::False, reason::WAITING_FOR_NODES));
        assert_eq!(decided(0, &[("Other", "True")]), (Status::True, reason::NODES_READY));
        assert_eq!(
            decided(0, &[("Ready", "True"), ("ValidMachineConfig", "False")]),
            (Status::Unknown, reason::WAITING_FOR_NODES),
            "the cluster is being installed"
        );
    }

    #[test]
    fn a_token_that_is_not_found_yet_is_no_objection() {
        let pool = |reason: &str| {
            let payload = json!({ "type": "ValidGeneratedPayload", "status": "False", "reason": reason });
            json!({ "status": { "conditions": [payload] } })
        };
        assert!(is_brief(&pool("NotFound"), "ValidGeneratedPayload"));
        assert!(!is_brief(&pool("InvalidConfig"), "ValidGeneratedPayload"));
    }
}
