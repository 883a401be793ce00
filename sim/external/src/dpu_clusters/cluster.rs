//! The DPUCluster object, which defines a cluster.

use std::sync::Arc;

use lockstep_engine::object::{Kind, annotation};
use serde_json::Value;

/// The keys of a kubeconfig Secret: the one that DPF reads today, and the one that it read in 24.10.
pub(super) const KUBECONFIG_KEYS: [&str; 2] = ["super-admin.conf", "admin.conf"];
/// On a DPUCluster, with the value `true`: the cluster is unreachable.
pub const UNREACHABLE: &str = "external.lockstep/unreachable";

/// Returns the kind of DPUClusters.
pub fn cluster_kind() -> Arc<Kind> {
    Kind::known("provisioning.dpu.nvidia.com", "v1alpha1", "DPUCluster", "dpuclusters", true)
}

/// Returns whether a cluster is reachable.
pub(crate) fn is_reachable(cluster: &Value) -> bool {
    annotation(cluster, UNREACHABLE) != Some("true")
}
