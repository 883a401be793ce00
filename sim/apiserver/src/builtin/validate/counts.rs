//! The counts in the status of workloads.

use serde_json::Value;

use super::common::not_negative;
use crate::builtin::field::Path;
use crate::builtin::view::{integer, part};
use crate::cause::Cause;

/// Validates the status of a workload. Of `old`, only the collision count matters, which never decreases.
pub(super) fn status(kind: &str, object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let path = Path::root("status");
    let status = part(object, "status");
    let (counts, parts): (&[&str], &[&str]) = match kind {
        "Deployment" => (
            &["updatedReplicas", "unavailableReplicas", "terminatingReplicas", "collisionCount"],
            &["updatedReplicas"],
        ),
        "ReplicaSet" => (&["fullyLabeledReplicas", "terminatingReplicas"], &["fullyLabeledReplicas"]),
        "ReplicationController" => (&["fullyLabeledReplicas"], &["fullyLabeledReplicas"]),
        "StatefulSet" => (
            &["currentReplicas", "updatedReplicas", "collisionCount"],
            &["currentReplicas", "updatedReplicas"],
        ),
        _ => (&DAEMONS, &[]),
    };
    not_negative(status, "observedGeneration", &path, causes);
    for field in counts {
        not_negative(status, field, &path, causes);
    }
    if kind != "DaemonSet" {
        for field in ["replicas", "readyReplicas", "availableReplicas"] {
            not_negative(status, field, &path, causes);
        }
        for field in parts.iter().chain(&["readyReplicas", "availableReplicas"]) {
            not_more(status, field, "replicas", "status.replicas", &path, causes);
        }
        let reported = if kind == "StatefulSet" { "status.readyReplicas" } else { "readyReplicas" };
        not_more(status, "availableReplicas", "readyReplicas", reported, &path, causes);
    }
    let collisions = |object: &Value| integer(part(object, "status"), "collisionCount");
    if let Some(before) = old.and_then(collisions)
        && collisions(object).is_none_or(|now| now < before)
    {
        let now = collisions(object).unwrap_or(0);
        causes.push(path.child("collisionCount").invalid(now, "cannot be decremented"));
    }
}

const DAEMONS: [&str; 8] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

fn not_more(status: &Value, field: &str, than: &str, reported: &str, path: &Path, causes: &mut Vec<Cause>) {
    let count = |field| integer(status, field).unwrap_or(0);
    if count(field) > count(than) {
        causes.push(path.child(field).invalid(count(field), &format!("cannot be greater than {reported}")));
    }
}
