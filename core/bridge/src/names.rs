//! All names that the Bridge writes into the cluster or reads from it.

use std::sync::Arc;

use lockstep_crds::bridge::{GROUP, VERSION};
use lockstep_engine::object::{Kind, Name, ObjectRef, label};
use serde_json::{Value, json};

/// The finalizer that keeps a bridge until its cluster is gone ("Finalizer Management").
pub const FINALIZER: &str = "dpf.hcp.bridge.com/dpfhcpbridge-finalizer";
/// The name of the bridge for which an object was created.
pub const BRIDGE_NAME: &str = "dpf.hcp.bridge.com/bridge-name";
/// The namespace of that bridge.
pub const BRIDGE_NAMESPACE: &str = "dpf.hcp.bridge.com/bridge-namespace";
/// `spec.clusterType` of that bridge.
pub const CLUSTER_TYPE: &str = "dpf.hcp.bridge.com/cluster-type";
/// The annotations by which a Service requests an address from MetalLB: the current and the older one.
pub const REQUESTED_IPS: [&str; 2] = ["metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"];
/// The time at which a Service repeated its request: any write makes MetalLB process it.
pub const ASKED_AGAIN: &str = "dpf.hcp.bridge.com/address-asked-again";
/// The API server's Service in a control plane's namespace.
pub const API_SERVICE: &str = "kube-apiserver";
/// The namespace of HyperShift's operator.
pub const HYPERSHIFT: &str = "hypershift";
/// HyperShift's Deployment.
pub const HYPERSHIFT_OPERATOR: &str = "operator";
/// The label that HyperShift gives the namespace of a control plane.
pub const CONTROL_PLANE: &str = "hypershift.openshift.io/hosted-control-plane";
/// HyperShift's ConfigMap of supported versions, and its key.
pub const SUPPORTED_VERSIONS: &str = "supported-versions";

/// The types of conditions.
pub mod condition {
    /// Whether the DPUCluster exists and can be read.
    pub const DPU_CLUSTER_VALID: &str = "DPUClusterValid";
    /// Whether all other prerequisites of the hosted cluster are met.
    pub const PREREQUISITES_MET: &str = "PrerequisitesMet";
    /// Whether the HostedCluster matches the spec, or keeps fields that HyperShift can't change.
    pub const SPEC_APPLIED: &str = "SpecApplied";
    /// Whether the HostedCluster exists.
    pub const HOSTED_CLUSTER_CREATED: &str = "HostedClusterCreated";
    /// `Available` of the HostedCluster.
    pub const HOSTED_CLUSTER_AVAILABLE: &str = "HostedClusterAvailable";
    /// `Progressing` of the HostedCluster.
    pub const HOSTED_CLUSTER_PROGRESSING: &str = "HostedClusterProgressing";
    /// `Degraded` of the HostedCluster.
    pub const HOSTED_CLUSTER_DEGRADED: &str = "HostedClusterDegraded";
    /// Whether the NodePool has the nodes that it should have.
    pub const NODE_POOL_READY: &str = "NodePoolReady";
    /// Whether the API server can be reached from outside.
    pub const SERVICE_EXPOSURE_READY: &str = "ServiceExposureReady";
    /// Whether the DPUCluster has the hosted cluster's kubeconfig.
    pub const KUBECONFIG_INJECTED: &str = "KubeconfigInjected";
    /// Whether the cluster has been ready once since its HostedCluster was created.
    pub const PROVISIONED: &str = "Provisioned";
    /// Whether the hosted cluster works.
    pub const READY: &str = "Ready";
}

/// Names of our own for values in trimmed objects.
pub mod kept {
    /// In a pool: whether MetalLB has written a status, and so has loaded it.
    pub const LOADED: &str = "loaded";
    /// In a pool: the number of IPv4 addresses that MetalLB has loaded.
    pub const SIZE: &str = "size";
}

/// The reasons of conditions.
pub mod reason {
    pub const DPU_CLUSTER_FOUND: &str = "DPUClusterFound";
    pub const DPU_CLUSTER_NOT_FOUND: &str = "DPUClusterNotFound";
    pub const DPU_CLUSTER_ACCESS_ERROR: &str = "DPUClusterAccessError";
    pub const DPU_CLUSTER_NOT_SPECIFIED: &str = "DPUClusterNotSpecified";

    pub const ALL_MET: &str = "AllMet";
    pub const IMAGE_UNCHECKED: &str = "ReleaseImageUnchecked";
    pub const WAITING: &str = "WaitingForPrerequisites";
    pub const INVALID: &str = "InvalidInput";

    pub const APPLIED: &str = "Applied";
    pub const IMMUTABLE_FIELD_CHANGED: &str = "ImmutableFieldChanged";
    pub const UPDATE_REFUSED: &str = "UpdateRefused";
    pub const CONTESTED: &str = "Contested";
    pub const UPDATE_PENDING: &str = "UpdatePending";
    pub const UPGRADE_IN_PROGRESS: &str = "UpgradeInProgress";

    pub const CREATED: &str = "Created";
    pub const CREATION_FAILED: &str = "CreationFailed";
    pub const NOT_CREATED: &str = "NotCreated";
    pub const DELETED: &str = "Deleted";

    pub const NODES_READY: &str = "NodesReady";
    pub const WAITING_FOR_NODES: &str = "WaitingForNodes";
    pub const NODE_POOL_CREATION_FAILED: &str = "NodePoolCreationFailed";
    pub const NODES_UNHEALTHY: &str = "NodesUnhealthy";
    pub const RELEASE_PENDING: &str = "ReleasePending";

    pub const LOAD_BALANCER_READY: &str = "LoadBalancerReady";
    pub const NODE_PORT_READY: &str = "NodePortReady";
    pub const NODE_PORT_UNREACHABLE: &str = "NodePortUnreachable";
    pub const LOAD_BALANCER_PENDING: &str = "LoadBalancerPending";
    pub const ADDRESS_CHANGE_PENDING: &str = "AddressChangePending";
    pub const VIP_CONFLICT: &str = "VIPConflict";
    pub const SERVICE_CREATION_FAILED: &str = "ServiceCreationFailed";
    pub const WAITING_FOR_HOSTED_CLUSTER: &str = "WaitingForHostedCluster";

    pub const INJECTED: &str = "Injected";
    pub const KUBECONFIG_PENDING: &str = "KubeconfigPending";
    pub const INJECTION_FAILED: &str = "InjectionFailed";
    pub const DPU_CLUSTER_HAS_ITS_OWN: &str = "DPUClusterHasItsOwn";

    pub const COMPLETED: &str = "Completed";
    pub const IN_PROGRESS: &str = "InProgress";
    pub const TIMED_OUT: &str = "TimedOut";

    pub const CLUSTER_READY: &str = "ClusterReady";
    pub const WAITING_FOR_CONTROL_PLANE: &str = "WaitingForControlPlane";
    pub const WAITING_FOR_INFRASTRUCTURE: &str = "WaitingForInfrastructure";
    pub const API_SERVER_UNREACHABLE: &str = "APIServerUnreachable";
    pub const VALIDATION_FAILED: &str = "ValidationFailed";

    pub const WATCH_FAILED: &str = "WatchFailed";

    /// HyperShift's reason for a cluster that can't make progress.
    pub const BLOCKED: &str = "Blocked";
}

/// Returns the labels of every object that is created for a bridge.
pub fn labels(bridge: &Name) -> Value {
    json!({ BRIDGE_NAME: bridge.name, BRIDGE_NAMESPACE: bridge.namespace })
}

/// Returns the namespace that HyperShift creates for a control plane.
pub fn control_plane_namespace(bridge: &Name) -> String {
    format!("{}-{}", bridge.namespace, bridge.name.replace('.', "-"))
}

/// Returns whether an object has the labels of a bridge.
pub fn is_labelled(object: &Value, bridge: &Name) -> bool {
    label(object, BRIDGE_NAME) == Some(&bridge.name)
        && label(object, BRIDGE_NAMESPACE) == Some(&bridge.namespace)
}

/// Returns whether the labels of an object name another bridge.
pub fn is_of_another(object: &Value, bridge: &Name) -> bool {
    label(object, BRIDGE_NAME).is_some() && !is_labelled(object, bridge)
}

/// Returns the API server's Service of a bridge.
pub fn api_server_service(bridge: &Name) -> Name {
    Name::new(&control_plane_namespace(bridge), API_SERVICE)
}

/// Returns the title of the API server's Service.
pub fn service_title(key: &Name) -> String {
    format!("Service {}", api_server_service(key))
}

/// Returns the reference of the bridge itself.
pub fn bridge_ref(name: &Name) -> ObjectRef {
    name.object(&bridge())
}

pub fn bridge() -> Arc<Kind> {
    Kind::known(GROUP, VERSION, "DPFHCPBridge", "dpfhcpbridges", true)
}

pub fn dpu_cluster() -> Arc<Kind> {
    Kind::known("provisioning.dpu.nvidia.com", "v1alpha1", "DPUCluster", "dpuclusters", true)
}

pub fn hosted_cluster() -> Arc<Kind> {
    Kind::known("hypershift.openshift.io", "v1beta1", "HostedCluster", "hostedclusters", true)
}

pub fn node_pool() -> Arc<Kind> {
    Kind::known("hypershift.openshift.io", "v1beta1", "NodePool", "nodepools", true)
}

pub fn pool() -> Arc<Kind> {
    Kind::known("metallb.io", "v1beta1", "IPAddressPool", "ipaddresspools", true)
}

pub fn advertisement() -> Arc<Kind> {
    Kind::known("metallb.io", "v1beta1", "L2Advertisement", "l2advertisements", true)
}

pub fn secret() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}

pub fn service() -> Arc<Kind> {
    Kind::known("", "v1", "Service", "services", true)
}

pub fn node() -> Arc<Kind> {
    Kind::known("", "v1", "Node", "nodes", false)
}

pub fn namespace() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

pub fn config_map() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

pub fn deployment() -> Arc<Kind> {
    Kind::known("apps", "v1", "Deployment", "deployments", true)
}

pub fn storage_class() -> Arc<Kind> {
    Kind::known("storage.k8s.io", "v1", "StorageClass", "storageclasses", false)
}
