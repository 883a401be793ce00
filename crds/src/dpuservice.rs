//! `svc.dpu.nvidia.com/v1alpha1`: one Helm chart on every cluster of DPUs, through Argo CD.
//!
//! Source: "DPUService Controller", "API". The decisions on DPUServices say what differs and why:
//! `status.conditions` is a standard list, the conditions of Argo CD are `status.applicationConditions`, and what the
//! underlying kinds would refuse is refused here.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod daemon_set;
mod labels;
mod resources;
mod rollout;
mod source;
mod status;

pub use daemon_set::{RollingUpdate, ServiceDaemonSet, UpdateStrategy};
pub use labels::{LabelSelector, LabelSelectorRequirement};
pub use resources::{Quantity, Resources};
pub use rollout::RolloutStrategy;
pub use source::Source;
pub use status::{ApplicationCondition, DPUServiceStatus, HealthStatus, Rollout, SyncStatus};

use crate::schema;

/// The controller's name.
pub const CONTROLLER: &str = "dpuservice";
/// The API group.
pub const GROUP: &str = "svc.dpu.nvidia.com";
/// The API version.
pub const VERSION: &str = "v1alpha1";

/// The desired chart and its values.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "svc.dpu.nvidia.com",
    version = "v1alpha1",
    kind = "DPUService",
    plural = "dpuservices",
    shortname = "dpusvc",
    category = "dpf",
    namespaced,
    status = "DPUServiceStatus",
    doc = "DPUService is a Helm chart that Argo CD deploys to every cluster of DPUs. The controller creates an Application for each DPUCluster.",
    validation = Rule::new("size(self.metadata.name) <= 63")
        .message("metadata.name must be at most 63 characters long: it becomes a label"),
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"Whether every cluster runs the desired chart"}"#,
    printcolumn = r#"{"name":"Sync","type":"string","jsonPath":".status.rollout.sync","description":"Worst sync status of all clusters"}"#,
    printcolumn = r#"{"name":"Health","type":"string","jsonPath":".status.rollout.health","description":"Worst health of all clusters"}"#,
    printcolumn = r#"{"name":"Clusters","type":"string","jsonPath":".status.rollout.clusters","description":"Clusters that are synced and healthy, of all DPUClusters"}"#,
    printcolumn = r#"{"name":"Version","type":"string","jsonPath":".spec.source.version","description":"Desired version of the chart"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    printcolumn = r#"{"name":"Message","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type==\"Ready\")].message","description":"What the service waits for, or what has to be fixed"}"#,
    attr = r#"x_kube(crates(kube_core = "::kube_core"))"#,
    crates(kube = "::kube_derive", kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct DPUServiceSpec {
    /// The Helm chart.
    pub source: Source,
    /// Values of the chart. serviceDaemonSet and serviceID override them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::free_object")]
    pub values: Option<Map<String, Value>>,
    /// The service function chain of the service. It becomes the chart's value serviceID and a label of its objects.
    #[serde(default, rename = "serviceID", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "labels::service_id")]
    pub service_id: Option<String>,
    /// Settings of the chart's DaemonSet. They become the chart's value serviceDaemonSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServiceDaemonSet")]
    pub service_daemon_set: Option<ServiceDaemonSet>,
    /// If true, the controller creates, changes and repairs no Application of the service. Deleting the service or a DPUCluster
    /// still removes its Applications.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// How a change of the service reaches its clusters. If it is absent, all of them change at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RolloutStrategy")]
    pub rollout: Option<RolloutStrategy>,
}
