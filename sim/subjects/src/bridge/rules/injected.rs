//! The kubeconfigs that bridges give to their DPUClusters.

use lockstep_engine::object::{ObjectRef, metadata};
use serde_json::{Value, json};

/// Returns whether a kubeconfig is the one that a bridge gives to its DPUCluster, and this is its DPUCluster.
pub(super) fn has_given(bridge: &Value, dpu_cluster: &ObjectRef, kubeconfig: &str) -> bool {
    let (namespace, name) = (metadata(bridge, "namespace"), metadata(bridge, "name"));
    let reference = &bridge["spec"]["dpuClusterRef"];
    reference["name"] == dpu_cluster.name
        && reference["namespace"] == json!(dpu_cluster.namespace)
        && kubeconfig == format!("{namespace}-{name}-dpucluster-kubeconfig")
}
