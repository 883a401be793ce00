//! The kinds that the Bridge watches besides its own, and the relevant fields of their objects.
//!
//! An object is trimmed before it is stored. So a change of other fields enqueues nothing and costs no memory.

use std::sync::Arc;

use lockstep_engine::action::Scope;
use lockstep_engine::object::{Kind, annotation, metadata};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::names::{
    self, API_SERVICE, HYPERSHIFT, HYPERSHIFT_OPERATOR, REQUESTED_IPS, SUPPORTED_VERSIONS, kept,
};

/// The kinds that are watched besides bridges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// DPUClusters, of DPF.
    DpuClusters,
    /// HostedClusters, of HyperShift.
    HostedClusters,
    /// NodePools, of HyperShift.
    NodePools,
    /// IPAddressPools, of MetalLB.
    Pools,
    /// L2Advertisements, of MetalLB.
    Advertisements,
    /// Secrets, by their metadata.
    Secrets,
    /// Services that have, or request, addresses.
    Services,
    /// Nodes, for the address of node ports.
    Nodes,
    /// StorageClasses, for etcd.
    StorageClasses,
    /// HyperShift's Deployment.
    Operator,
    /// The versions that HyperShift supports.
    Versions,
}

impl Source {
    /// All sources.
    pub const ALL: [Self; 11] = [
        Self::DpuClusters,
        Self::HostedClusters,
        Self::NodePools,
        Self::Pools,
        Self::Advertisements,
        Self::Secrets,
        Self::Services,
        Self::Nodes,
        Self::StorageClasses,
        Self::Operator,
        Self::Versions,
    ];

    /// Returns the kind.
    pub fn kind(self) -> Arc<Kind> {
        match self {
            Self::DpuClusters => names::dpu_cluster(),
            Self::HostedClusters => names::hosted_cluster(),
            Self::NodePools => names::node_pool(),
            Self::Pools => names::pool(),
            Self::Advertisements => names::advertisement(),
            Self::Secrets => names::secret(),
            Self::Services => names::service(),
            Self::Nodes => names::node(),
            Self::StorageClasses => names::storage_class(),
            Self::Operator => names::deployment(),
            Self::Versions => names::config_map(),
        }
    }

    /// Returns the source that a kind is watched for.
    pub fn of(kind: &Kind) -> Option<Self> {
        Self::ALL.into_iter().find(|source| *source.kind() == *kind)
    }

    /// Returns which objects are watched, and which of their fields.
    pub fn scope(self) -> Scope {
        let one = |name: &str| Scope {
            namespace: Some(HYPERSHIFT.to_owned()),
            name: Some(name.to_owned()),
            ..Scope::default()
        };
        match self {
            Self::Operator => one(HYPERSHIFT_OPERATOR),
            Self::Versions => one(SUPPORTED_VERSIONS),
            Self::Secrets => Scope { metadata_only: true, ..Scope::default() },
            Self::DpuClusters
            | Self::HostedClusters
            | Self::NodePools
            | Self::Pools
            | Self::Advertisements
            | Self::Services
            | Self::Nodes
            | Self::StorageClasses => Scope::default(),
        }
    }

    /// Returns the relevant fields of an object; `None` if there are none.
    pub fn trim(self, object: &Value) -> Option<Value> {
        let kept = match self {
            Self::DpuClusters => json!({
                "spec": { "kubeconfig": object["spec"]["kubeconfig"], "type": object["spec"]["type"] },
                "status": { "phase": object["status"]["phase"] },
            }),
            Self::HostedClusters | Self::NodePools => {
                json!({ "spec": object["spec"], "status": object["status"] })
            }
            Self::Pools => {
                let count = |field: &str| object["status"][field].as_u64();
                let free = count("availableIPv4");
                let size = free.map(|free| free.saturating_add(count("assignedIPv4").unwrap_or_default()));
                json!({ "spec": object["spec"], kept::LOADED: free.is_some(), kept::SIZE: size })
            }
            Self::Advertisements => json!({ "spec": object["spec"] }),
            Self::Secrets => json!({}),
            Self::Services => service(object)?,
            Self::Nodes => json!({ "status": { "addresses": object["status"]["addresses"] } }),
            Self::StorageClasses => json!({ "provisioner": object["provisioner"] }),
            Self::Operator => {
                json!({ "status": { "availableReplicas": object["status"]["availableReplicas"] } })
            }
            Self::Versions => json!({ "data": object["data"] }),
        };
        Some(with_metadata(self, kept, object))
    }
}

/// Keeps only Services with external addresses.
fn service(object: &Value) -> Option<Value> {
    let spec = &object["spec"];
    let is_ours = metadata(object, "name") == API_SERVICE;
    if !is_ours && spec["type"] != "LoadBalancer" && spec["externalIPs"].is_null() {
        return None;
    }
    Some(json!({
        "spec": {
            "type": spec["type"],
            "clusterIPs": spec["clusterIPs"],
            "loadBalancerIP": spec["loadBalancerIP"],
            "externalIPs": spec["externalIPs"],
        },
        "status": { "loadBalancer": object["status"]["loadBalancer"] },
    }))
}

/// Restores the relevant metadata. A resource version changes with every write. So it is kept only if it is the only field
/// that shows a change, or is needed as a precondition.
fn with_metadata(source: Source, mut kept: Value, object: &Value) -> Value {
    let is_written =
        !matches!(source, Source::Nodes | Source::StorageClasses | Source::Operator | Source::Versions);
    let mut fields = Map::new();
    let mut keep = |field: &str| {
        let value = &object["metadata"][field];
        if !value.is_null() {
            fields.insert(field.to_owned(), value.clone());
        }
    };
    keep("namespace");
    keep("name");
    if is_written {
        keep("uid");
        keep("deletionTimestamp");
        keep("ownerReferences");
        keep("labels");
    }
    if matches!(source, Source::Secrets) {
        keep("resourceVersion");
    }
    if matches!(source, Source::HostedClusters) {
        keep("creationTimestamp");
        keep("generation");
    }
    if matches!(source, Source::Services) {
        let requests = REQUESTED_IPS.into_iter();
        let requests = requests.filter_map(|name| Some((name.to_owned(), json!(annotation(object, name)?))));
        let requests: Map<String, Value> = requests.collect();
        if !requests.is_empty() {
            fields.insert("annotations".to_owned(), requests.into());
        }
    }
    kept["metadata"] = fields.into();
    kept
}
