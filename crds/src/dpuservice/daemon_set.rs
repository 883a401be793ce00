//! The settings of a DPUService for the DaemonSet of its chart, with the fields of Kubernetes.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::labels::{self, LabelSelector};
use super::resources::Resources;

/// Settings of the chart's DaemonSet. Omitted fields are not passed on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDaemonSet {
    /// The nodes that the DaemonSet runs on. It is passed on unchanged; the chart translates it for its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub node_selector: Option<LabelSelector>,
    /// The resource requests and limits of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Resources")]
    pub resources: Option<Resources>,
    /// How pods are replaced when the DaemonSet changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UpdateStrategy")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Labels of every object of the chart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels::labels")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of every object of the chart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels::annotations")]
    pub annotations: BTreeMap<String, String>,
}

/// How the pods of a `DaemonSet` are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.rollingUpdate) || !has(self.type) || self.type == 'RollingUpdate'",
    "message": "rollingUpdate goes with the type RollingUpdate only",
    "reason": "FieldValueForbidden",
    "fieldPath": ".rollingUpdate",
}]))]
pub struct UpdateStrategy {
    /// RollingUpdate replaces pods one after the other. OnDelete replaces a pod when it is deleted.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["RollingUpdate", "OnDelete"]))]
    pub type_: Option<String>,
    /// How many at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RollingUpdate")]
    pub rolling_update: Option<RollingUpdate>,
}

/// How many pods are replaced at a time; each a number of pods or a percentage of the nodes. One of the two is 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.maxSurge) || string(self.maxSurge).matches('^0+%?$') || (has(self.maxUnavailable) && string(self.maxUnavailable).matches('^0+%?$'))",
        "message": "where maxSurge is not 0, maxUnavailable must be 0; it is 1 if it is left out",
        "fieldPath": ".maxUnavailable",
    },
    {
        "rule": "!has(self.maxUnavailable) || !string(self.maxUnavailable).matches('^0+%?$') || (has(self.maxSurge) && !string(self.maxSurge).matches('^0+%?$'))",
        "message": "where maxUnavailable is 0, maxSurge must not be 0: no pod could be replaced",
        "fieldPath": ".maxSurge",
    },
]))]
pub struct RollingUpdate {
    /// How many nodes may be without a running pod; 1 if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_percentage")]
    pub max_unavailable: Option<IntOrString>,
    /// How many nodes may run the old pod and the new one; 0 if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_percentage")]
    pub max_surge: Option<IntOrString>,
}

fn number_or_percentage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 16,
        // A string is what it is as a string.
        "x-kubernetes-validations": [{
            "rule": "self == string(self) ? self.matches('^0*([0-9]{1,2}|100)%$') : self >= 0 && self <= 2147483647",
            "message": "must be a number of pods, such as 1, or a percentage of at most 100%, such as 10%",
        }],
    })
}
