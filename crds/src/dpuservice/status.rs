//! What became of a DPUService, over all clusters and in each.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

/// What became of the service. The maps have an entry for each cluster, whose key is the name of the `DPUCluster`, or
/// `<namespace>/<name>` where several have that name. Each map is written as a whole, so that what the server keeps of who
/// wrote what does not grow with the number of clusters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DPUServiceStatus {
    /// The generation that this status speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// What was found out, one condition for each matter.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// All clusters in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Rollout")]
    pub rollout: Option<Rollout>,
    /// The objects that Argo CD manages in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_lists_of_free_objects")]
    pub resources: BTreeMap<String, Vec<Value>>,
    /// Whether each cluster has what the chart says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub sync: BTreeMap<String, SyncStatus>,
    /// Whether the service is well in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub health: BTreeMap<String, HealthStatus>,
    /// What was deployed to each cluster, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_lists_of_free_objects")]
    pub history: BTreeMap<String, Vec<Value>>,
    /// What Argo CD complains of in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub application_conditions: BTreeMap<String, Vec<ApplicationCondition>>,
    /// When Argo CD last looked at each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_times")]
    pub reconciled_at: BTreeMap<String, String>,
    /// What Argo CD does in each cluster, or did last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_free_objects")]
    pub operation_state: BTreeMap<String, Value>,
    /// What Argo CD takes the chart for: Helm.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub source_type: BTreeMap<String, String>,
    /// The container images and URLs of the service in each cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_free_objects")]
    pub summary: BTreeMap<String, Value>,
}

/// All clusters in a few words.
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
    /// How many clusters are synced and healthy, of how many `DPUClusters`, such as 3/4. Those whose reports may be stale do not count.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub clusters: String,
    /// Since when DPF has not called a cluster ready. What Argo CD says of it may be as old: while a cluster does not answer, Argo CD
    /// repeats what it saw last.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_times")]
    pub stale_since: BTreeMap<String, String>,
}

/// Whether a cluster has what the chart says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncStatus {
    /// Synced, `OutOfSync` or Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The version of the chart that was compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
}

/// Whether the service is well in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthStatus {
    /// Healthy, Suspended, Progressing, Missing, Degraded or Unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: String,
}

/// Something that Argo CD complains of. That it is there is the complaint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplicationCondition {
    /// What it is about, such as `ComparisonError`.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// What Argo CD says.
    #[serde(default)]
    pub message: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schema::time")]
    pub last_transition_time: String,
}
