//! The objects that are removed with a bridge.

use lockstep_engine::object::{Name, ObjectRef};
use serde::{Deserialize, Serialize};

use super::bridge::Bridge;
use super::secret::SecretRole;
use crate::names;

/// The objects to remove, in the order of their removal ("Cleanup Operations").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CleanupTarget {
    /// The HostedCluster.
    HostedCluster,
    /// The NodePool.
    NodePool,
    /// The DPUCluster's reference to the kubeconfig.
    Reference,
    /// The kubeconfig beside the DPUCluster.
    Kubeconfig,
    /// The bridge's own L2Advertisement.
    Advertisement,
    /// The bridge's own IPAddressPool.
    Pool,
}

impl CleanupTarget {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::HostedCluster,
        Self::NodePool,
        Self::Reference,
        Self::Kubeconfig,
        Self::Advertisement,
        Self::Pool,
    ];

    /// Returns what it is called in a status.
    pub fn title(self, key: &Name, bridge: &Bridge) -> String {
        match self {
            Self::Reference => "the DPUCluster's reference to the kubeconfig".to_owned(),
            Self::Kubeconfig => "the DPUCluster's kubeconfig".to_owned(),
            Self::HostedCluster | Self::NodePool | Self::Advertisement | Self::Pool => {
                let Some(object) = self.object(key, bridge) else { return String::new() };
                format!("{} {}/{}", object.kind.kind, object.namespace.unwrap_or_default(), object.name)
            }
        }
    }

    /// Returns whether the removal continues without it if it is forbidden: it is in a namespace of another owner. A pool that is
    /// left would keep its address from everyone else.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Reference | Self::Kubeconfig)
    }

    /// Returns the object, if the bridge can have it.
    pub fn object(self, key: &Name, bridge: &Bridge) -> Option<ObjectRef> {
        let dpu_cluster = bridge.dpu_cluster.as_ref();
        Some(match self {
            Self::HostedCluster => key.object(&names::hosted_cluster()),
            Self::NodePool => key.object(&names::node_pool()),
            Self::Reference => dpu_cluster?.object(&names::dpu_cluster()),
            Self::Kubeconfig => SecretRole::Kubeconfig.copy(key, dpu_cluster)?.object(&names::secret()),
            Self::Advertisement => bridge.own_pool.as_ref()?.object(&names::advertisement()),
            Self::Pool => bridge.own_pool.as_ref()?.object(&names::pool()),
        })
    }
}
