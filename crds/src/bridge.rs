//! `dpf.hcp.bridge.com/v1alpha1`: a hosted control plane for a cluster of DPUs.
//!
//! Source: "Custom Resource Definition: DPFHCPBridge". The decisions on the Bridge say what
//! differs from it and why: the rules on the exposure are on `spec`, `spec` is required, and the release image may be a digest.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::schema;

/// The controller's name.
pub const CONTROLLER: &str = "bridge";
/// The API group.
pub const GROUP: &str = "dpf.hcp.bridge.com";
/// The API version.
pub const VERSION: &str = "v1alpha1";

/// An IPv4 address, or nothing.
const IPV4_OR_EMPTY: &str = concat!(
    r"^(([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])\.){3}",
    r"([0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])$|^$"
);

/// The default network of pods; the rule of [`Networking`] repeats it.
pub const CLUSTER_NETWORK: &str = "10.132.0.0/14";
/// The default network of services; the rule of [`Networking`] repeats it.
pub const SERVICE_NETWORK: &str = "172.31.0.0/16";

/// A block of IPv4 or IPv6 addresses, as HyperShift accepts it.
const CIDR: &str = concat!(
    r"^(([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}",
    r"|([0-9a-fA-F]{0,4}:){2,7}([0-9a-fA-F]{0,4})?/[0-9]{1,3})$"
);

/// The desired state of the hosted cluster.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "dpf.hcp.bridge.com",
    version = "v1alpha1",
    kind = "DPFHCPBridge",
    plural = "dpfhcpbridges",
    shortname = "dpfhcp",
    category = "dpf",
    category = "hcp",
    namespaced,
    status = "DPFHCPBridgeStatus",
    doc = "DPFHCPBridge is a hosted OpenShift control plane for a cluster of DPUs. The operator creates a HostedCluster and a NodePool of its name, and passes the kubeconfig of the HostedCluster to the DPUCluster.",
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase","description":"Current phase of the DPFHCPBridge"}"#,
    printcolumn = r#"{"name":"DPUCluster","type":"string","jsonPath":".spec.dpuClusterRef.name","description":"Referenced DPUCluster name"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status","description":"Ready condition status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp","description":"Time since creation"}"#,
    printcolumn = r#"{"name":"API","type":"string","priority":1,"jsonPath":".status.apiEndpoint","description":"URL of the hosted cluster's API server"}"#,
    printcolumn = r#"{"name":"Message","type":"string","priority":1,"jsonPath":".status.message","description":"What the DPFHCPBridge waits for"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!self.exposeThroughLoadBalancer || (has(self.metalLBVirtualIP) && self.metalLBVirtualIP != '')",
        "message": "metalLBVirtualIP is required when exposeThroughLoadBalancer is true",
    },
    {
        "rule": "self.exposeThroughLoadBalancer || !has(self.metalLBVirtualIP) || self.metalLBVirtualIP == ''",
        "message": "metalLBVirtualIP must be empty when exposeThroughLoadBalancer is false",
    },
    {
        "rule": "has(self.etcdEncryption) == has(oldSelf.etcdEncryption)",
        "message": "etcdEncryption can't be added or removed later: what is in etcd already would stay as it is, or could no longer be read",
    },
    {
        "rule": "!has(self.metalLBPool) || self.exposeThroughLoadBalancer",
        "message": "metalLBPool requires exposeThroughLoadBalancer: true; remove metalLBPool to use node ports",
    },
    {
        "rule": "has(self.metalLBPool) ? has(oldSelf.metalLBPool) && self.metalLBPool == oldSelf.metalLBPool : !has(oldSelf.metalLBPool)",
        "message": "metalLBPool can't be added, changed or removed later: the cluster would lose its address",
    },
]))]
pub struct DPFHCPBridgeSpec {
    /// The DPUCluster that gets the hosted control plane. It may be in another namespace. Immutable.
    #[serde(rename = "dpuClusterRef")]
    #[schemars(extend("x-kubernetes-validations" = [
        { "rule": "self == oldSelf", "message": "dpuClusterRef is immutable" },
    ]))]
    pub dpu_cluster_ref: ObjectReference,
    /// The parent of the cluster's DNS domain, such as clusters.example.com. Immutable.
    #[schemars(
        length(min = 4, max = 253),
        regex(pattern = r"^([a-z0-9]+(-[a-z0-9]+)*\.)+[a-z]{2,}$"),
        extend("x-kubernetes-validations" = [
            { "rule": "self == oldSelf", "message": "baseDomain is immutable" },
        ])
    )]
    pub base_domain: String,
    /// The OpenShift release image, by tag or digest. A change upgrades the hosted cluster.
    #[schemars(length(min = 10, max = 512), regex(pattern = r"^[a-zA-Z0-9][a-zA-Z0-9._\-:/@]+$"))]
    pub ocp_release_image: String,
    /// The Secret with the public SSH keys that may log in to nodes: its key ssh-publickey. In the same namespace.
    #[serde(rename = "sshKeySecretRef")]
    pub ssh_key_secret_ref: LocalObjectReference,
    /// The Secret with the credentials for the cluster's images: its key .dockerconfigjson. In the same namespace.
    pub pull_secret_ref: LocalObjectReference,
    /// The StorageClass of etcd's volumes. Immutable once the HostedCluster exists.
    #[schemars(length(min = 1, max = 253))]
    pub etcd_storage_class: String,
    /// The replicas of the control plane: HighlyAvailable for three, SingleReplica for one. Immutable once the HostedCluster
    /// exists.
    #[schemars(schema_with = "availability_policy")]
    pub control_plane_availability_policy: String,
    /// The replicas of infrastructure such as ingress: HighlyAvailable or SingleReplica.
    #[schemars(schema_with = "availability_policy")]
    pub infrastructure_availability_policy: String,
    /// If true, a load balancer (MetalLB) exposes the API server; if false, node ports do. Immutable once the HostedCluster
    /// exists.
    pub expose_through_load_balancer: bool,
    /// The IPv4 address of the load balancer, from a MetalLB pool. Empty if node ports are used.
    #[serde(default, rename = "metalLBVirtualIP")]
    #[schemars(regex(pattern = IPV4_OR_EMPTY))]
    pub metal_lb_virtual_ip: String,
    /// A name of your choice for the type of the cluster, such as dpf-production. It becomes a label.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub cluster_type: String,
    /// The networks of the hosted cluster. Immutable once the HostedCluster exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networking: Option<Networking>,
    /// Optional parts of OpenShift that the hosted cluster has or lacks. Immutable once the HostedCluster exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Whether the hosted cluster encrypts Secrets in etcd (AES-CBC): Generated for a key that the operator generates. Without
    /// it they are not encrypted. It can't be added or removed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "etcd_encryption")]
    pub etcd_encryption: Option<String>,
    /// An IPAddressPool and an L2Advertisement of MetalLB that the operator creates for metalLBVirtualIP, which must then be in
    /// no other pool. Without it, metalLBVirtualIP must be in an existing pool. It can't be added, changed or removed later.
    #[serde(default, rename = "metalLBPool", skip_serializing_if = "Option::is_none")]
    pub metal_lb_pool: Option<MetalLbPool>,
}

/// Objects of MetalLB that the operator creates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetalLbPool {
    /// The namespace of MetalLB, such as metallb-system.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub namespace: String,
}

/// The networks of a hosted cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(has(self.clusterNetwork) ? self.clusterNetwork : '10.132.0.0/14') != (has(self.serviceNetwork) ? self.serviceNetwork : '172.31.0.0/16')",
        "message": "clusterNetwork and serviceNetwork must differ",
    },
]))]
pub struct Networking {
    /// The addresses of pods, in CIDR notation. Default: 10.132.0.0/14.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43), regex(pattern = CIDR))]
    pub cluster_network: Option<String>,
    /// The addresses of services, in CIDR notation. Default: 172.31.0.0/16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 43), regex(pattern = CIDR))]
    pub service_network: Option<String>,
}

/// Optional parts of OpenShift. The names are those of HyperShift.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.enabled) || !has(self.disabled) || !self.disabled.exists(part, part in self.enabled)",
        "message": "a capability can't be enabled and disabled at once",
    },
    {
        "rule": "!has(self.disabled) || !('Ingress' in self.disabled) || 'Console' in self.disabled",
        "message": "Ingress can only be disabled together with Console",
    },
]))]
pub struct Capabilities {
    /// The parts that the hosted cluster has, although it lacks them by default. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "capabilities")]
    pub enabled: Option<Vec<String>>,
    /// The parts that the hosted cluster lacks. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "capabilities")]
    pub disabled: Option<Vec<String>>,
}

/// Another object by name and namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ObjectReference {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
}

/// Another object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalObjectReference {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// The observed state of the hosted cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DPFHCPBridgeStatus {
    /// Pending, Provisioning, Ready, Failed or Deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "phase")]
    pub phase: Option<String>,
    /// The latest observations of the state.
    #[serde(default)]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The HostedCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosted_cluster_ref: Option<ObjectReference>,
    /// The NodePool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_pool_ref: Option<ObjectReference>,
    /// The URL of the hosted cluster's API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_endpoint: Option<String>,
    /// The DNS name of the hosted cluster's applications, such as *.apps.prod.clusters.example.com.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingress_endpoint: Option<String>,
    /// The Secret of HyperShift that holds the cluster's kubeconfig, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<LocalObjectReference>,
    /// The generation of the spec that this status describes.
    #[serde(default)]
    pub observed_generation: i64,
    /// What the operator waits for, or what the user has to fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Three replicas, or one.
pub const HIGHLY_AVAILABLE: &str = "HighlyAvailable";
/// See [`HIGHLY_AVAILABLE`].
pub const SINGLE_REPLICA: &str = "SingleReplica";

/// The operator generates the key.
pub const GENERATED: &str = "Generated";

fn etcd_encryption(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [GENERATED] })
}

fn availability_policy(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [HIGHLY_AVAILABLE, SINGLE_REPLICA] })
}

fn capabilities(_: &mut SchemaGenerator) -> Schema {
    let names =
        ["ImageRegistry", "openshift-samples", "Insights", "baremetal", "Console", "NodeTuning", "Ingress"];
    json_schema!({
        "type": "array",
        "maxItems": names.len(),
        "items": { "type": "string", "enum": names },
        "x-kubernetes-list-type": "set",
    })
}

fn phase(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Pending", "Provisioning", "Ready", "Failed", "Deleting"] })
}
