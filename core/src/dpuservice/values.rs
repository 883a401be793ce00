//! The values that a chart is given.
//!
//! `spec.serviceDaemonSet` is merged into `spec.values.serviceDaemonSet`, field by field: where both say something, the
//! former wins; lists are replaced as a whole. What it leaves out adds nothing. `spec.serviceID` becomes the value `serviceID`
//! and the label `service-ID`. Everything else comes from `spec.values`.
//!
//! Source: "Reconcile the ArgoCD `Applications`", and the contract with charts in "API".

use lockstep_crds::dpuservice::DPUServiceSpec;
use serde_json::{Map, Value, json};

/// The label by which the chart marks what belongs to a service function chain.
const SERVICE_ID_LABEL: &str = "service-ID";

/// The values of a service.
pub fn values(spec: &DPUServiceSpec) -> Map<String, Value> {
    let mut values = spec.values.clone().unwrap_or_default();
    let mut daemon_set = json!(spec.service_daemon_set.clone().unwrap_or_default());
    if let Some(id) = &spec.service_id {
        merge(&mut daemon_set, json!({ "labels": { SERVICE_ID_LABEL: id } }));
        values.insert("serviceID".to_owned(), json!(id));
    }
    // It is always there, because an apply can't take the last value out.
    merge(values.entry("serviceDaemonSet").or_insert_with(|| json!({})), daemon_set);
    values
}

/// Merges what wins into what is there.
fn merge(base: &mut Value, wins: Value) {
    match (base, wins) {
        (Value::Object(base), Value::Object(wins)) => {
            for (field, value) in wins {
                match base.get_mut(&field) {
                    Some(existing) => merge(existing, value),
                    None => {
                        base.insert(field, value);
                    }
                }
            }
        }
        (base, wins) => *base = wins,
    }
}
