//! A release of a chart on a cluster: a ConfigMap that tells what was put there, by which application, and how it fares.
//!
//! | data | |
//! | --- | --- |
//! | `application` | the Application of Argo CD that put it there |
//! | `repoURL`, `chart`, `version` | what was put there |
//! | `values` | with which values, in JSON |
//! | `namespace`, `release` | under which namespace and name of the cluster |
//! | `health` | `Progressing`, `Healthy` or `Degraded` |

use lockstep_core::object::{ObjectRef, metadata};
use serde_json::{Value, json};

use crate::external::config_map_kind;
use crate::external::dpf::cluster_kind;

/// The label with the name of the cluster.
pub const CLUSTER: &str = "external.lockstep/cluster";
/// What holds a release until it has stopped.
pub const FINALIZER: &str = "external.lockstep/running";
/// The value of a chart by which it does not come up.
pub const DEGRADED: &str = "degraded";
/// The value of a chart by which its `PostSync` hook fails.
pub const FAILING_HOOK: &str = "failingHook";
/// The value of a chart by which its `PostSync` hook never ends.
pub const HANGING_HOOK: &str = "hangingHook";
/// The version of a chart that does not come up, whatever its values.
pub const BROKEN: &str = "0.0.0-broken";
/// The version of a chart that no repository has.
pub const MISSING: &str = "0.0.0-missing";

pub(super) const PROGRESSING: &str = "Progressing";

/// The name of a release.
pub(in super::super) fn name(cluster: &Value, namespace: &str, release: &str) -> ObjectRef {
    let name = format!("{}.{namespace}.{release}", metadata(cluster, "name"));
    ObjectRef::namespaced(&config_map_kind(), metadata(cluster, "namespace"), &name)
}

/// What an Application puts on a cluster.
pub(in super::super) fn data(application: &Value) -> Value {
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

/// A value after Argo CD has read it: numbers become 64-bit floats, written with the fewest digits.
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

/// Whether a release is what was put there.
pub(in super::super) fn is(release: &Value, data: &Value) -> bool {
    data.as_object().into_iter().flatten().all(|(key, value)| release["data"][key] == *value)
}

/// The object that stands for a release that has just been put on a cluster.
pub(in super::super) fn manifest(cluster: &Value, target: &ObjectRef, mut data: Value) -> Value {
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

/// How a release fares once it has come up.
pub(super) fn outcome(release: &Value) -> &'static str {
    let is_degraded = values(&release["data"])[DEGRADED] == true || release["data"]["version"] == BROKEN;
    if is_degraded { "Degraded" } else { "Healthy" }
}

/// The values that a chart was given.
pub(in super::super) fn values(data: &Value) -> Value {
    serde_json::from_str(data["values"].as_str().unwrap_or_default()).unwrap_or_default()
}
