//! What a DPUService tells the DaemonSet of its chart, each field as Kubernetes has it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the chart's DaemonSet is told. What is left out is not passed on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDaemonSet {
    /// The nodes that the DaemonSet runs on. It is passed on as it is: the chart makes of it what its pods need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub node_selector: Option<LabelSelector>,
    /// What each pod may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Resources")]
    pub resources: Option<Resources>,
    /// How pods are replaced when the DaemonSet changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "UpdateStrategy")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Labels of every object of the chart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of every object of the chart.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A label selector: all of its terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels and the values that they must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further terms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// One term of a selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: String,
    /// In, `NotIn`, Exists or `DoesNotExist`.
    pub operator: String,
    /// The values of In and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// What a pod asks for and what it may use at most, by the names of resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// What is kept free for each pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// What each pod may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// A quantity as it was written: 1, "500m" or "2Gi".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Quantity {
    /// A whole number.
    Number(i64),
    /// Anything else.
    Text(String),
}

/// How the pods of a DaemonSet are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `RollingUpdate`, which replaces them one after the other, or `OnDelete`, which waits until somebody deletes them.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub type_: Option<String>,
    /// How many at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RollingUpdate")]
    pub rolling_update: Option<RollingUpdate>,
}

/// How many pods are replaced at a time; each a number of pods or a percentage of the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many nodes may be without a running pod; one, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IntOrString")]
    pub max_unavailable: Option<IntOrString>,
    /// How many nodes may run the old pod and the new one; none, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IntOrString")]
    pub max_surge: Option<IntOrString>,
}
