//! The objects that the Bridge writes.

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::digest::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::secret::{SecretRole, marker};
use super::source::Source;

/// An object that the Bridge writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ManagedObject {
    /// A Secret's copy.
    Secret(SecretRole),
    /// The Secret with the key for etcd.
    EncryptionKey,
    /// The IPAddressPool of the bridge's address.
    Pool,
    /// The L2Advertisement of that pool.
    Advertisement,
    /// The HostedCluster.
    HostedCluster,
    /// The NodePool.
    NodePool,
    /// The annotation of the API server's Service.
    Service,
    /// The DPUCluster's reference to its kubeconfig.
    DpuCluster,
}

/// A write of an object, as far as a later one may repeat it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The object.
    pub object: ManagedObject,
    /// A text that differs between contents.
    pub content: String,
}

impl Written {
    /// Returns what a write of an object contains.
    pub fn of(object: ManagedObject, write: &Action) -> Self {
        let content = match write {
            Action::Kube(
                KubeRequest::Apply { manifest, .. }
                | KubeRequest::Create { manifest, .. }
                | KubeRequest::Patch { patch: manifest, .. },
            ) => digest(manifest),
            _ => String::new(),
        };
        Self { object, content }
    }

    /// Returns what the copy of a Secret contains. It is identified by the version of its source: a digest of credentials would
    /// be stored with the state.
    pub fn copy(role: SecretRole, source: &Value) -> Self {
        Self { object: ManagedObject::Secret(role), content: marker(source) }
    }

    /// Returns whether an earlier write of the same object had other content.
    pub fn replaces(&self, earlier: &Self) -> bool {
        self.object == earlier.object && self.content != earlier.content
    }
}

impl ManagedObject {
    /// Returns its title in messages.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Secret(SecretRole::Pull) => "the pull secret",
            Self::Secret(SecretRole::Ssh) => "the SSH keys",
            Self::Secret(SecretRole::Kubeconfig) => "the kubeconfig",
            Self::EncryptionKey => "the key for etcd",
            Self::Pool => "the IPAddressPool",
            Self::Advertisement => "the L2Advertisement",
            Self::HostedCluster => "the HostedCluster",
            Self::NodePool => "the NodePool",
            Self::Service => "the API server's Service",
            Self::DpuCluster => "the DPUCluster",
        }
    }

    /// Returns the source through which it is watched.
    pub const fn source(self) -> Source {
        match self {
            Self::Secret(_) | Self::EncryptionKey => Source::Secrets,
            Self::Pool => Source::Pools,
            Self::Advertisement => Source::Advertisements,
            Self::HostedCluster => Source::HostedClusters,
            Self::NodePool => Source::NodePools,
            Self::Service => Source::Services,
            Self::DpuCluster => Source::DpuClusters,
        }
    }
}
