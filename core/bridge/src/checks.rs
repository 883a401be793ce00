//! Findings about a bridge: what its conditions report.
//!
//! | module | condition |
//! | --- | --- |
//! | [`dpucluster`] | `DPUClusterValid` |
//! | [`prerequisites`], [`encryption_key`], [`release_image`], [`vip`], [`own_pool`], [`namespace`] | `PrerequisitesMet` |
//! | [`hosted_cluster`] | `HostedClusterCreated` |
//! | [`spec_applied`], [`upgrade`] | `SpecApplied` |
//! | [`node_pool`] | `NodePoolReady` |
//! | [`exposure`] | `ServiceExposureReady` |
//! | [`kubeconfig`] | `KubeconfigInjected` |
//! | [`readiness`], [`serving`] | `Ready`, `Provisioned` |

pub mod contested;
pub mod dpucluster;
pub mod encryption_key;
pub mod exposure;
pub mod hosted_cluster;
pub mod kubeconfig;
pub mod namespace;
pub mod node_pool;
pub mod own_pool;
pub mod prerequisites;
pub mod readiness;
pub mod release_image;
pub mod retried;
pub mod serving;
pub mod spec_applied;
pub mod unmet;
pub mod unwatched;
pub mod upgrade;
pub mod vip;
