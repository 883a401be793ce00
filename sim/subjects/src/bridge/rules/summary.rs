//! The phase and `Ready` summarize the other conditions, as the documentation of the Bridge defines it.

use lockstep_bridge::names::{self, condition, reason};
use lockstep_engine::machine::{Note, ReconcileResult};
use lockstep_engine::object::is_deleting;
use lockstep_sim::cluster::{Author, What};
use lockstep_sim::conditions;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use crate::passes::{first, successful};

pub(super) fn the_phase_follows_the_conditions(moment: &Moment<'_>) -> Result<(), String> {
    first(successful(moment).filter(|pass| pass.object.kind == names::bridge()).filter_map(|pass| {
        let phase = pass.stored["status"]["phase"].as_str().unwrap_or_default();
        let permitted = phases(pass.stored);
        (!permitted.contains(&phase))
            .then(|| format!("{} is {phase}, and its conditions say {permitted:?}", pass.object))
    }))
}

/// Returns the phases that a bridge may have with its conditions at the end of a pass.
fn phases(bridge: &Value) -> &'static [&'static str] {
    let is = |name: &str, status: &str| conditions::is(bridge, name, status);
    let because = |name: &str, reason: &str| conditions::is_because(bridge, name, reason);
    let exists = is(condition::HOSTED_CLUSTER_CREATED, "True");
    let was_ready = is(condition::PROVISIONED, "True");
    // A cluster that serves, but is degraded, is not Ready and keeps its phase.
    let serves_degraded = because(condition::READY, reason::WAITING_FOR_CONTROL_PLANE)
        && is(condition::HOSTED_CLUSTER_AVAILABLE, "True")
        && is(condition::HOSTED_CLUSTER_DEGRADED, "True");
    let keeps_ready = was_ready && serves_degraded;
    let users_have_to_act = because(condition::DPU_CLUSTER_VALID, reason::DPU_CLUSTER_NOT_SPECIFIED)
        || because(condition::PREREQUISITES_MET, reason::INVALID)
        || because(condition::HOSTED_CLUSTER_CREATED, reason::CREATION_FAILED)
        || because(condition::NODE_POOL_READY, reason::NODE_POOL_CREATION_FAILED)
        || (because(condition::HOSTED_CLUSTER_PROGRESSING, reason::BLOCKED)
            && !is(condition::READY, "True")
            && !keeps_ready)
        || (because(condition::READY, reason::VALIDATION_FAILED) && exists)
        || because(condition::PROVISIONED, reason::TIMED_OUT);
    if users_have_to_act {
        return &["Failed"];
    }
    if is(condition::READY, "True") {
        return &["Ready"];
    }
    if because(condition::READY, reason::WATCH_FAILED) {
        return &["Pending", "Provisioning", "Ready", "Failed"];
    }
    if was_ready {
        return if keeps_ready { &["Ready"] } else { &["Failed"] };
    }
    let is_valid = is(condition::DPU_CLUSTER_VALID, "True");
    match (is_valid && is(condition::PREREQUISITES_MET, "True"), exists) {
        // The table has no way from another phase to Pending.
        (false, false) => &["Pending", "Provisioning", "Failed"],
        (false, true) if !is_valid => &["Failed"],
        _ => &["Provisioning"],
    }
}

pub(super) fn ready_names_its_obstacle(moment: &Moment<'_>) -> Result<(), String> {
    first(successful(moment).filter(|pass| pass.object.kind == names::bridge()).filter_map(|pass| {
        let ready = pass.condition(condition::READY)?;
        let text = ready["message"].as_str().unwrap_or_default();
        let obstacles: &[&str] = match ready["reason"].as_str()? {
            reason::WAITING_FOR_INFRASTRUCTURE => &[
                condition::SERVICE_EXPOSURE_READY,
                condition::KUBECONFIG_INJECTED,
                condition::NODE_POOL_READY,
            ],
            reason::CLUSTER_READY => {
                return unmet(pass.stored)
                    .map(|name| format!("{} is ready, and its {name} is not True", pass.object));
            }
            _ => return None,
        };
        let is_named = |name: &&str| {
            let found = pass.condition(name).filter(|found| found["status"] != "True");
            found.is_some_and(|found| found["message"] == text)
        };
        (!obstacles.iter().any(is_named))
            .then(|| format!("{} waits for {obstacles:?}, and none of them says {text:?}", pass.object))
    }))
}

/// The objects that the Bridge reads and writes, as the reason of a failed pass names them, with the conditions that can report it.
const REPORTED_BY: [(&str, &[&str]); 10] = [
    ("the HostedCluster: ", &[condition::HOSTED_CLUSTER_CREATED, condition::SPEC_APPLIED]),
    ("the NodePool: ", &[condition::NODE_POOL_READY, condition::SPEC_APPLIED]),
    ("the API server's Service: ", &[condition::SERVICE_EXPOSURE_READY]),
    ("the kubeconfig: ", &[condition::KUBECONFIG_INJECTED]),
    ("the DPUCluster: ", &[condition::KUBECONFIG_INJECTED]),
    ("the pull secret: ", &[condition::PREREQUISITES_MET]),
    ("the SSH keys: ", &[condition::PREREQUISITES_MET]),
    ("the key for etcd: ", &[condition::PREREQUISITES_MET]),
    ("the IPAddressPool: ", &[condition::PREREQUISITES_MET]),
    ("the L2Advertisement: ", &[condition::PREREQUISITES_MET]),
];

pub(super) fn failed_requests_are_named(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    first(step.notes.iter().filter_map(|note| {
        let Note::Reconciled { object, result: ReconcileResult::Failed { reason, .. }, .. } = note else {
            return None;
        };
        let found = REPORTED_BY.iter().find_map(|(title, by)| Some((reason.strip_prefix(title)?, by)));
        let ((_, cause), by) = found.and_then(|(failure, by)| Some((failure.split_once(": ")?, by)))?;
        let last = moment.history.versions(object).last()?;
        let bridge = last.object.as_deref().filter(|bridge| !is_deleting(bridge))?;
        // What another client has written since is corrected in the next pass.
        let is_own = object.kind == names::bridge() && last.by == Author::Process(*process);
        let is_named = |name: &&str| {
            let found = conditions::find(bridge, name);
            found.is_some_and(|it| it["message"].as_str().is_some_and(|message| message.contains(cause)))
        };
        // The request has taken effect although it failed.
        let has_worked = by.last().is_some_and(|name| conditions::is(bridge, name, "True"));
        (is_own && !has_worked && !by.iter().any(is_named))
            .then(|| format!("a pass over {object} failed ({reason}), and none of {by:?} says so"))
    }))
}

/// Returns a condition that is not True, although a bridge that is ready needs it.
fn unmet(bridge: &Value) -> Option<&'static str> {
    // Nodes that wait for a release, or a DPUCluster with another kubeconfig, do not prevent the cluster from working.
    let needed = [
        (condition::DPU_CLUSTER_VALID, None),
        (condition::HOSTED_CLUSTER_CREATED, None),
        (condition::HOSTED_CLUSTER_AVAILABLE, None),
        (condition::KUBECONFIG_INJECTED, Some(reason::DPU_CLUSTER_HAS_ITS_OWN)),
        (condition::NODE_POOL_READY, Some(reason::RELEASE_PENDING)),
        (condition::PROVISIONED, None),
    ];
    let is_met = |name: &str, excuse: Option<&str>| {
        conditions::is(bridge, name, "True")
            || excuse.is_some_and(|excuse| conditions::is_because(bridge, name, excuse))
    };
    needed.into_iter().find(|(name, excuse)| !is_met(name, *excuse)).map(|(name, _)| name)
}
