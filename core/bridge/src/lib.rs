//! The DPF-HCP Bridge: it creates a hosted control plane of HyperShift for a cluster of DPUs from every `DPFHCPBridge`.
//!
//! This crate contains the decisions and the texts of the controller, and nothing else: its API types are in `lockstep-crds`, what
//! other controllers could use is in `lockstep-engine`, and its simulation is in `lockstep-subjects`. It does no I/O and reads no
//! clock.
//!
//! ```text
//!  DPFHCPBridge ──▶ HostedCluster, NodePool, copies of two Secrets ──▶ (HyperShift creates the control plane)
//!       ▲                                                                      │ kubeconfig
//!       └── status: phase, conditions, endpoints          DPUCluster ◀─────────┘
//! ```
//!
//! From below to above; no module knows one above it:
//!
//! | module | holds | source in the specification |
//! | --- | --- | --- |
//! | [`names`], [`parse`] | names of kinds, conditions and reasons; parsers of texts | |
//! | [`model`] | what single objects contain | "Complete Type Definition" |
//! | [`store`] | cached state, indexes | "Caching", "Field Indexing" |
//! | [`snapshot`] | the input of one decision | |
//! | [`desired::hosted_cluster`], [`desired::node_pool`] | HostedCluster, NodePool | "Spec Fields" |
//! | [`desired::secret_copy`] | copies of Secrets | "Field: `sshKeySecretRef`", "Field: `pullSecretRef`" |
//! | [`desired::encryption_key`] | the key for etcd | |
//! | [`desired::own_pool`] | the bridge's own IPAddressPool and L2Advertisement | |
//! | [`desired::address`] | the request for MetalLB's address | "Field: `metalLBVirtualIP`" |
//! | [`desired::kubeconfig`] | the DPUCluster's kubeconfig | "Field: `kubeconfigSecretRef`" |
//! | [`checks`] | the findings of conditions | "DPUCluster Validation", "Reconciliation Validation", "Status Conditions" |
//! | [`phase`] | the phase | "Status Phases" |
//! | [`status`] | the status | "Status Fields" |
//! | [`events`], [`metrics`] | Events and log lines, metrics | "Events", "Logging", "Metrics" |
//! | `controller`, `watches` | the bridges that each change enqueues | "Field Indexing" |
//! | [`retry`] | backoffs | "Rate Limiting", "Requeue Strategy" |
//! | [`reconcile`] | one pass: read, copy, act, report | "Reconciliation Flow" |
//! | [`reconcile::delete`] | deletion | "Finalizer Management" |
//!
//! The Bridge waits for missing prerequisites: watches enqueue only the bridges that depend on them. It never deletes a
//! running cluster because one of its prerequisites is gone.

use lockstep_engine::operator;

pub mod checks;
mod controller;
pub mod desired;
pub mod events;
#[cfg(test)]
mod fixture;
pub mod metrics;
pub mod model;
#[allow(missing_docs)]
pub mod names;
pub mod parse;
pub mod phase;
pub mod reconcile;
mod recording;
pub mod retry;
pub mod snapshot;
pub mod status;
pub mod store;
mod watches;

pub use controller::Controller;

/// The default number of bridges that are reconciled concurrently ("Parallelism", `MaxConcurrentReconciles`).
pub const CONCURRENCY: u16 = 5;

/// The Bridge.
pub type Operator = operator::Operator<Controller>;
