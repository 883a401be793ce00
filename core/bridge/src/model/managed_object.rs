//! The objects that the Bridge writes.

use serde::{Deserialize, Serialize};

use super::secret::SecretRole;
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
