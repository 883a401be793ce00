//! The observed state of a DPUService, over all clusters and in each.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// The observed state of the service. The maps have an entry for each cluster. The key is the name of the `DPUCluster`, or
/// `<namespace>/<name>` if several have that name. Each map is written as a whole, so that `managedFields` does not grow
/// with the number of clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DPUServiceStatus {
    /// The generation of the spec that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// The latest observations of the state.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// A summary of all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Rollout")]
    pub rollout: Option<Rollout>,
    /// The objects that Argo CD manages in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_lists_of_free_objects")]
    pub resources: BTreeMap<String, Vec<Value>>,
    /// Whether the objects in each cluster match the chart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub sync: BTreeMap<String, SyncStatus>,
    /// The health of the service in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub health: BTreeMap<String, HealthStatus>,
    /// The deployments to each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_lists_of_free_objects")]
    pub history: BTreeMap<String, Vec<Value>>,
    /// The conditions that Argo CD reports for each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub application_conditions: BTreeMap<String, Vec<ApplicationCondition>>,
    /// The time when Argo CD last compared each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_times")]
    pub reconciled_at: BTreeMap<String, String>,
    /// The running or last operation of Argo CD in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_free_objects")]
    pub operation_state: BTreeMap<String, Value>,
    /// The type of the source that Argo CD detected: Helm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub source_type: BTreeMap<String, String>,
    /// The container images and URLs of the service in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_free_objects")]
    pub summary: BTreeMap<String, Value>,
}

/// A summary of all clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Rollout {
    /// The worst sync status: Synced, `OutOfSync` or Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sync: String,
    /// The worst health: Healthy, Suspended, Progressing, Missing, Degraded or Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub health: String,
    /// The number of clusters that are synced and healthy, of all `DPUClusters`, such as 3/4. Clusters with reports that may be
    /// stale do not count.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clusters: String,
    /// The time since when DPF does not report a cluster as ready. Reports of Argo CD may be as old: while a cluster does not
    /// answer, Argo CD repeats its last observation.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_times")]
    pub stale_since: BTreeMap<String, String>,
}

/// Whether the objects in a cluster match the chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncStatus {
    /// Synced, `OutOfSync` or Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The version of the chart that was compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

/// The health of the service in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthStatus {
    /// Healthy, Suspended, Progressing, Missing, Degraded or Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The reason for the status.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: String,
}

/// A problem or warning that Argo CD reports. It exists while the problem does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationCondition {
    /// The type, such as `ComparisonError`.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// The message of Argo CD.
    #[serde(default)]
    pub message: String,
    /// The time of the last change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: String,
}
