//! The objects that the Bridge writes: their desired state, and the writes that lead to it.
//!
//! | module | writes |
//! | --- | --- |
//! | [`hosted_cluster`], [`node_pool`] | the HostedCluster, the NodePool |
//! | [`secret_copy`] | copies of Secrets |
//! | [`encryption_key`] | the key for etcd |
//! | [`own_pool`] | the bridge's own IPAddressPool and L2Advertisement |
//! | [`address`] | the annotation of the API server's Service |
//! | [`kubeconfig`] | the reference of the DPUCluster to its kubeconfig |

pub mod address;
pub mod encryption_key;
pub mod hosted_cluster;
pub mod kubeconfig;
mod manifest;
pub mod node_pool;
pub mod own_pool;
pub mod secret_copy;
