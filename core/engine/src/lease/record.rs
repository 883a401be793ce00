//! The content of a Lease.

use std::time::Duration;

use serde_json::{Value, json};

use crate::object::ObjectRef;
use crate::recorder::micro_time;
use crate::time::Now;

/// Returns the holder; an empty text means that there is none.
pub(super) fn holder(lease: &Value) -> &str {
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default()
}

/// Returns the Lease with us as the holder for this long: the existing one, or a new one.
pub(super) fn claimed(
    held: Option<&Value>,
    target: &ObjectRef,
    identity: &str,
    duration: Duration,
    now: Now,
) -> Value {
    let time = micro_time(now);
    let mut lease = held.cloned().unwrap_or_else(|| {
        json!({
            "apiVersion": target.kind.api_version(),
            "kind": target.kind.kind,
            "metadata": { "namespace": target.namespace, "name": target.name },
            "spec": { "leaseTransitions": 0 },
        })
    });
    if holder(&lease) != identity {
        let before = lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0);
        lease["spec"]["leaseTransitions"] = json!(if held.is_some() { before + 1 } else { 0 });
        lease["spec"]["acquireTime"] = json!(time);
    }
    lease["spec"]["holderIdentity"] = json!(identity);
    lease["spec"]["leaseDurationSeconds"] = json!(duration.as_secs());
    lease["spec"]["renewTime"] = json!(time);
    lease
}

/// Returns the released Lease, so that the next leader need not wait for it to expire.
pub(super) fn freed(lease: &Value, now: Now) -> Value {
    let mut lease = lease.clone();
    lease["spec"]["holderIdentity"] = json!("");
    lease["spec"]["leaseDurationSeconds"] = json!(1);
    lease["spec"]["renewTime"] = json!(micro_time(now));
    lease
}
