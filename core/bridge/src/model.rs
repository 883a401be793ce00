//! What single objects contain: the functions and types here know one object at a time.
//!
//! | module | reads |
//! | --- | --- |
//! | [`source`] | which kinds are watched, and which of their fields are kept |
//! | [`bridge`] | DPFHCPBridge objects |
//! | [`hosted_cluster`], [`rollout`], [`hypershift`] | HostedClusters, their versions, conditions of HyperShift |
//! | [`service`], [`pool`], [`node`] | the addresses of Services, IPAddressPools, Nodes |
//! | [`namespace`] | the namespace of a control plane |
//! | [`own_pool`] | the IPAddressPool and L2Advertisement of a bridge |
//! | [`secret`], [`encryption_key`], [`image`], [`address_request`] | what a pass remembers about Secrets, the key for etcd, the release image, MetalLB |
//! | [`managed_object`] | the objects that are written |

use lockstep_engine::action::Failure;

pub mod address_request;
pub mod bridge;
pub mod cleanup_target;
pub mod encryption_key;
pub mod hosted_cluster;
pub mod hypershift;
pub mod image;
pub mod managed_object;
pub mod namespace;
pub mod node;
pub mod own_pool;
pub mod pool;
pub mod rollout;
pub mod secret;
pub mod service;
pub mod source;

/// The result of reading one object; `None` if it does not exist.
pub type Lookup<T> = Result<Option<T>, Failure>;
