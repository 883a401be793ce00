//! The `DPFHCPBridge` objects, and the index values by which they are found.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::bridge::{DPFHCPBridgeSpec, DPFHCPBridgeStatus};
use lockstep_engine::cache::Cached;
use lockstep_engine::finalizer;
use lockstep_engine::object::{self, Name, ResourceVersion, Uid, generation, is_deleting, metadata, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::encryption_key;
use super::own_pool;
use super::secret::SecretRole;
use crate::names::{FINALIZER, control_plane_namespace};

/// A bridge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bridge {
    /// Its uid.
    pub uid: Uid,
    /// Its generation.
    pub generation: i64,
    /// When it was created, in the API's time format.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The DPUCluster that it names, if it names one.
    pub dpu_cluster: Option<Name>,
    /// The IPAddressPool and the L2Advertisement that it requests, which have the same name.
    #[serde(default)]
    pub own_pool: Option<Name>,
    /// Its spec, or why that can't be parsed.
    pub spec: Result<DPFHCPBridgeSpec, String>,
    /// Its status as last seen.
    pub status: DPFHCPBridgeStatus,
    /// Its metadata.
    pub metadata: Arc<Value>,
    name: Name,
}

/// The index values by which bridges are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Index {
    /// The DPUCluster that they name ("Field Indexing").
    DpuCluster(Name),
    /// A Secret that they read or write.
    Secret(Name),
    /// The IPAddressPool and the L2Advertisement that are created for them.
    OwnPool(Name),
    /// The StorageClass.
    StorageClass(String),
    /// The namespace of the control plane.
    ControlPlane(String),
    /// The requested address.
    Vip(String),
    /// Those that are exposed through a load balancer, or are not.
    LoadBalancer(bool),
}

impl Bridge {
    /// Parses a bridge.
    pub fn read(object: &Value) -> Self {
        let dpu_cluster =
            text(object, "/spec/dpuClusterRef/namespace").zip(text(object, "/spec/dpuClusterRef/name"));
        let mut trimmed = object["metadata"].clone();
        if let Some(trimmed) = trimmed.as_object_mut() {
            trimmed.remove("managedFields");
        }
        Self {
            uid: Uid::of(object),
            generation: generation(object),
            created: metadata(object, "creationTimestamp").to_owned(),
            deleting: is_deleting(object),
            dpu_cluster: dpu_cluster.map(|(namespace, name)| Name::new(namespace, name)),
            own_pool: own_pool::name(object),
            spec: object::read(object, "spec"),
            status: object::read(object, "status").unwrap_or_default(),
            metadata: Arc::new(serde_json::json!({ "metadata": trimmed })),
            name: Name::of(object),
        }
    }

    /// Returns whether it differs at most in its status. The operator's own status write must not enqueue the bridge.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation, self.deleting) == (&other.uid, other.generation, other.deleting)
            && finalizer::is_held(&self.metadata, FINALIZER) == finalizer::is_held(&other.metadata, FINALIZER)
    }

    /// Returns one of its conditions from its status.
    pub fn condition(&self, condition: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|entry| entry.type_ == condition)
    }

    /// Returns whether it is older than another. The older of two has precedence.
    pub fn is_older(&self, other: &Self) -> bool {
        (&self.created, &self.name) < (&other.created, &other.name)
    }
}

impl Cached for Bridge {
    type Index = Index;

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::of(&self.metadata)
    }

    fn indexes(&self) -> Vec<Index> {
        let mut indexes = vec![Index::ControlPlane(control_plane_namespace(&self.name))];
        if let Some(dpu_cluster) = &self.dpu_cluster {
            indexes.push(Index::DpuCluster(dpu_cluster.clone()));
        }
        indexes.extend(self.own_pool.clone().map(Index::OwnPool));
        if let Ok(spec) = &self.spec {
            indexes.push(Index::StorageClass(spec.etcd_storage_class.clone()));
            indexes.push(Index::LoadBalancer(spec.expose_through_load_balancer));
            if !spec.metal_lb_virtual_ip.is_empty() {
                indexes.push(Index::Vip(spec.metal_lb_virtual_ip.clone()));
            }
            if spec.etcd_encryption.is_some() {
                indexes.push(Index::Secret(encryption_key::secret(&self.name)));
            }
            for role in SecretRole::ALL {
                indexes.push(Index::Secret(role.source(&self.name, spec)));
                indexes.extend(role.copy(&self.name, self.dpu_cluster.as_ref()).map(Index::Secret));
            }
        }
        indexes
    }
}

#[cfg(test)]
mod tests;
