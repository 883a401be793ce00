//! `Lease` and `PriorityClass`.

use serde_json::Value;

use super::common::not_negative;
use crate::builtin::field::Path;
use crate::builtin::view::{integer, part, text};
use crate::cause::Cause;

/// The highest priority that users may define.
const PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn lease(object: &Value, causes: &mut Vec<Cause>) {
    let path = Path::root("spec");
    let spec = part(object, "spec");
    if let Some(seconds) = integer(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        causes.push(path.child("leaseDurationSeconds").invalid(seconds, "must be greater than 0"));
    }
    not_negative(spec, "leaseTransitions", &path, causes);
}

pub(super) fn priority_class(object: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let name = text(part(object, "metadata"), "name");
    let value = integer(object, "value").unwrap_or(0);
    let policy = text(object, "preemptionPolicy");
    if let Some(old) = old {
        if integer(old, "value").unwrap_or(0) != value {
            causes.push(Path::root("value").forbidden("may not be changed in an update."));
        }
        if text(old, "preemptionPolicy") != policy {
            causes.push(Path::root("preemptionPolicy").invalid(policy, "field is immutable"));
        }
        return;
    }
    if name.starts_with("system-") && !["system-node-critical", "system-cluster-critical"].contains(&name) {
        let message = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known \
             system priority class"
        );
        causes.push(Path::root("metadata").child("name").forbidden(&message));
    } else if value > PRIORITY_MAX {
        let message = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
        causes.push(Path::root("value").forbidden(&message));
    }
    let policies = ["PreemptLowerPriority", "Never"];
    if !policy.is_empty() && !policies.contains(&policy) {
        causes.push(Path::root("preemptionPolicy").not_supported(policy, &policies));
    }
}
