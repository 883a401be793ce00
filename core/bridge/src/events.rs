//! Written statuses in the log and as Events.
//!
//! Source: "Events", "Logging".

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::conditions::Status;
use lockstep_engine::machine::Note;
use lockstep_engine::object::Name;
use lockstep_engine::operator::Outbox;
use lockstep_engine::recorder::{Occurrence, Severity};
use lockstep_engine::time::Now;

use super::checks::dpucluster;
use super::model::bridge::Bridge;
use super::names::{bridge_ref, condition, reason};

/// The differences between a status and the previous one.
pub struct StatusDelta {
    /// The conditions with a changed status or reason.
    pub conditions: Vec<Condition>,
    /// Whether the phase has changed.
    pub phase: bool,
    /// Whether the spec had not been observed before.
    pub spec: bool,
}

/// Reasons that only report work in progress.
const QUIET: &[&str] = &[
    reason::WAITING_FOR_CONTROL_PLANE,
    reason::WAITING_FOR_INFRASTRUCTURE,
    reason::WAITING_FOR_NODES,
    reason::LOAD_BALANCER_PENDING,
    reason::ADDRESS_CHANGE_PENDING,
    reason::KUBECONFIG_PENDING,
    reason::IN_PROGRESS,
    reason::APPLIED,
    reason::ALL_MET,
];

/// Conditions that are copied from other controllers, which report events of their own.
const MIRRORS: &[&str] = &[
    condition::HOSTED_CLUSTER_AVAILABLE,
    condition::HOSTED_CLUSTER_PROGRESSING,
    condition::HOSTED_CLUSTER_DEGRADED,
];

/// Reports a written status in the log and as Events.
pub fn announce(outbox: &mut Outbox<Name>, key: &Name, bridge: &Bridge, delta: &StatusDelta, now: Now) {
    if delta.phase {
        log_phase(outbox, key, bridge);
    }
    for condition in &delta.conditions {
        // Waiting is not reported, unless the cluster was ready before.
        let is_quiet = QUIET.contains(&condition.reason.as_str())
            && !(condition.type_ == condition::READY && was_ready(bridge));
        let is_mirror = MIRRORS.contains(&condition.type_.as_str());
        outbox.notes.push(Note::ConditionChanged {
            object: bridge_ref(key),
            condition: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            // Some of the mirrored conditions are False in normal operation.
            warning: condition.status == Status::False.as_str() && !is_quiet && !is_mirror,
        });
        if condition.reason == reason::IMAGE_UNCHECKED {
            let message = format!("DPFHCPBridge {key}: {}", condition.message);
            outbox.notes.push(Note::Warning { message });
        }
        if condition.status != Status::Unknown.as_str() && !is_quiet && !is_mirror {
            record_condition(outbox, key, bridge, condition, now);
        }
    }
    let Some(spec) = bridge.spec.as_ref().ok().filter(|_| delta.spec) else { return };
    if spec.control_plane_availability_policy != spec.infrastructure_availability_policy {
        let note = "ControlPlane and Infrastructure availability policies differ - this may indicate misconfiguration";
        let event = (Severity::Warning, "MismatchedAvailability", note.to_owned());
        record(outbox, key, bridge, event, now);
    }
}

/// Returns whether the hosted cluster of a bridge has been ready since it was created.
fn was_ready(bridge: &Bridge) -> bool {
    let provisioned = bridge.condition(condition::PROVISIONED);
    provisioned.is_some_and(|provisioned| provisioned.status == Status::True.as_str())
}

/// Logs the phase of a bridge.
pub fn log_phase(outbox: &mut Outbox<Name>, key: &Name, bridge: &Bridge) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (phase, message) = (text(&bridge.status.phase), text(&bridge.status.message));
    let message = format!("DPFHCPBridge {key} is {phase}: {message}");
    outbox.notes.push(Note::info(message));
}

fn record_condition(outbox: &mut Outbox<Name>, key: &Name, bridge: &Bridge, changed: &Condition, now: Now) {
    let holds = changed.status == Status::True.as_str() && changed.reason != reason::IMAGE_UNCHECKED;
    let severity = if holds { Severity::Normal } else { Severity::Warning };
    if changed.type_ == condition::DPU_CLUSTER_VALID {
        let (reason, note) = dpucluster::event(bridge, &changed.reason, &changed.message);
        return record(outbox, key, bridge, (severity, reason, note), now);
    }
    record(outbox, key, bridge, (severity, &changed.reason, changed.message.clone()), now);
}

/// Records an Event of a bridge: its severity, reason and note.
pub fn record(
    outbox: &mut Outbox<Name>,
    key: &Name,
    bridge: &Bridge,
    (severity, reason, note): (Severity, &str, String),
    now: Now,
) {
    let occurrence = Occurrence {
        regarding: bridge_ref(key),
        uid: bridge.uid.clone(),
        severity,
        reason: reason.to_owned(),
        action: "Reconcile",
        note,
    };
    outbox.record(occurrence, now);
}
