//! The API of HyperShift: its kinds and annotations, and the names of the objects of a HostedCluster.

use std::sync::Arc;

use lockstep_engine::object::{Kind, ObjectRef, metadata};
use serde_json::Value;

use crate::kinds::{secret_kind, service_kind};

/// The finalizer that keeps hosted clusters and node pools until HyperShift has cleaned up.
pub const FINALIZER: &str = "hypershift.openshift.io/finalizer";

/// On a HostedCluster, with the value [`DEGRADED`] or [`FLAPPING`]: its control plane has lost replicas.
pub const AILS: &str = "external.lockstep/ails";
/// It still serves requests.
pub const DEGRADED: &str = "degraded";
/// It is available only at times.
pub const FLAPPING: &str = "flapping";
/// On a HostedCluster, with the value [`UNREACHABLE`]: HyperShift can't reach the registry of its release images.
pub const RELEASES: &str = "external.lockstep/releases";
/// The registry is unreachable.
pub const UNREACHABLE: &str = "unreachable";
/// On a HostedCluster, with the value [`NO_NODES`]: no node has joined on which a version of the whole cluster could run, so
/// `status.version` stays `Partial`.
pub const NODES: &str = "external.lockstep/nodes";
/// There are none.
pub const NO_NODES: &str = "none";
/// On a HostedCluster, with the value [`VERSION_ONLY`]: its HyperShift is an older one. Without the annotation, it is updated.
pub const REPORTS: &str = "external.lockstep/reports";
/// It reports the version of the whole cluster, and not that of the control plane.
pub const VERSION_ONLY: &str = "version";
/// On a HostedCluster, with the value `true`: its deletion never completes.
pub const STUCK: &str = "external.lockstep/stuck";

/// Returns the kind of hosted clusters.
pub fn hosted_cluster_kind() -> Arc<Kind> {
    Kind::known("hypershift.openshift.io", "v1beta1", "HostedCluster", "hostedclusters", true)
}

/// Returns the kind of their node pools.
pub fn node_pool_kind() -> Arc<Kind> {
    Kind::known("hypershift.openshift.io", "v1beta1", "NodePool", "nodepools", true)
}

/// Returns the namespace of a control plane.
pub fn control_plane_namespace(namespace: &str, name: &str) -> String {
    format!("{namespace}-{}", name.replace('.', "-"))
}

/// Returns the control plane's Service, in its namespace.
pub(super) fn api_server_service(cluster: &Value) -> ObjectRef {
    let namespace = control_plane_namespace(metadata(cluster, "namespace"), metadata(cluster, "name"));
    ObjectRef::namespaced(&service_kind(), &namespace, "kube-apiserver")
}

/// The key of a Secret's data with which etcd is encrypted.
pub(super) const KEY: &str = "key";

/// Returns the Secret with the key for etcd to which a cluster refers, if it encrypts etcd.
pub(super) fn key_source(cluster: &Value) -> Option<ObjectRef> {
    let name = cluster["spec"]["secretEncryption"]["aescbc"]["activeKey"]["name"].as_str()?;
    Some(ObjectRef::namespaced(&secret_kind(), metadata(cluster, "namespace"), name))
}

/// Returns the Secret with the administrator's kubeconfig of the cluster.
pub(super) fn kubeconfig(cluster: &Value) -> ObjectRef {
    let name = format!("{}-admin-kubeconfig", metadata(cluster, "name"));
    ObjectRef::namespaced(&secret_kind(), metadata(cluster, "namespace"), &name)
}
