//! A release of a chart on a cluster: a ConfigMap with the deployed chart, its Application, and its health.
//!
//! | data | |
//! | --- | --- |
//! | `application` | the Application of Argo CD that deployed it |
//! | `repoURL`, `chart`, `version` | the deployed chart |
//! | `values` | its values, in JSON |
//! | `namespace`, `release` | the namespace and name on the cluster |
//! | `health` | `Progressing`, `Healthy` or `Degraded` |

use lockstep_engine::object::{ObjectRef, metadata};
use serde_json::{Value, json};

use super::cluster::cluster_kind;
use crate::kinds::config_map_kind;

/// The label with the name of the cluster.
pub const CLUSTER: &str = "external.lockstep/cluster";
/// The finalizer that keeps a release until it has stopped.
pub const FINALIZER: &str = "external.lockstep/running";
/// The chart value that prevents it from becoming healthy.
pub const DEGRADED: &str = "degraded";
/// The chart value that makes its `PostSync` hook fail.
pub const FAILING_HOOK: &str = "failingHook";
/// The chart value that makes its `PostSync` hook run forever.
pub const HANGING_HOOK: &str = "hangingHook";
/// The version of a chart that never becomes healthy, with any values.
pub const BROKEN: &str = "0.0.0-broken";
/// The version of a chart that no repository has.
pub const MISSING: &str = "0.0.0-missing";

pub(super) const PROGRESSING: &str = "Progressing";

/// Returns the reference to a release.
pub(crate) fn name(cluster: &Value, namespace: &str, release: &str) -> ObjectRef {
    let name = format!("{}.{namespace}.{release}", metadata(cluster, "name"));
    ObjectRef::namespaced(&config_map_kind(), metadata(cluster, "namespace"), &name)
}

/// Returns the data of the release that an Application deploys to a cluster.
pub(crate) fn data(application: &Value) -> Value {
    let (source, own) = (&application["spec"]["source"], metadata(application, "name"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let values = &source["helm"]["valuesObject"];
    json!({
        "application": own,
        "repoURL": text(&source["repoURL"]),
        "chart": text(&source["chart"]),
        "version": text(&source["targetRevision"]),
        "values": if values.is_null() { "{}".to_owned() } else { through_floats(values).to_string() },
        "namespace": text(&application["spec"]["destination"]["namespace"]),
        "release": source["helm"]["releaseName"].as_str().unwrap_or(own),
    })
}

/// Returns a value as Argo CD reads it: numbers become 64-bit floats, written with the fewest digits.
pub fn through_floats(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(field, value)| (field.clone(), through_floats(value))).collect()
        }
        Value::Array(items) => items.iter().map(through_floats).collect(),
        Value::Number(number) => {
            let written = number.as_f64().map(|float| float.to_string());
            written.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_else(|| value.clone())
        }
        other => other.clone(),
    }
}

/// Returns whether a release has this data.
pub(crate) fn is(release: &Value, data: &Value) -> bool {
    data.as_object().into_iter().flatten().all(|(key, value)| release["data"][key] == *value)
}

/// Returns the object of a release that has just been deployed.
pub(crate) fn manifest(cluster: &Value, target: &ObjectRef, mut data: Value) -> Value {
    let kind = cluster_kind();
    let owner = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": metadata(cluster, "name"),
        "uid": metadata(cluster, "uid"),
    });
    data["health"] = PROGRESSING.into();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": target.name,
            "namespace": target.namespace,
            "labels": { CLUSTER: metadata(cluster, "name") },
            "ownerReferences": [owner],
            "finalizers": [FINALIZER],
        },
        "data": data,
    })
}

/// Returns the health of a release after its start.
pub(super) fn outcome(release: &Value) -> &'static str {
    let is_degraded = values(&release["data"])[DEGRADED] == true || release["data"]["version"] == BROKEN;
    if is_degraded { "Degraded" } else { "Healthy" }
}

/// Returns the values of a chart.
pub(crate) fn values(data: &Value) -> Value {
    serde_json::from_str(data["values"].as_str().unwrap_or_default()).unwrap_or_default()
}
