//! The NamespaceClass operator: every namespace that carries the label of a class contains the resources of that class.
//!
//! This crate contains the decisions and the texts of the controller, and nothing else: its API types are in `lockstep-crds`, what
//! other controllers could use is in `lockstep-engine`, and its simulation is in `lockstep-subjects`. It does no I/O and reads no
//! clock.
//!
//! ```text
//!  Namespace ──▶ reconcile namespace ──▶ NamespaceClassBinding ──▶ reconcile binding ──▶ resources
//!  NamespaceClass ──▶ reconcile class (validates its resources, enqueues its bindings) ────┘
//! ```
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | namespace → binding | [`reconcile::namespace`] | "Apply NamespaceClass to a Namespace", "Remove NamespaceClass Label from Namespace", "Switch Namespace to Different NamespaceClass"; "`NamespaceReconciler`" |
//! | class → resolved resources, condition `Valid` | [`reconcile::class`], [`resolved_class`] | "Define a NamespaceClass", "Update an Existing NamespaceClass" |
//! | binding → resources, pruning, removal | [`reconcile::binding`], [`plan`], `requests` | "`BindingReconciler`", "Remove an Existing NamespaceClass"; "Two-Tier Reconciliation", "Server-Side Apply (SSA)", "Declarative Pruning" |
//! | variables, and their values in a namespace | [`expression`], [`variables`], [`placeholders`] | decision 124 |
//! | ownership of existing objects | [`ownership`] | decisions on ownership |
//! | condition `Ready`, status tracking | [`status`], [`condition_cause`], `announce` | "Status Tracking", "Generation Tracking" |
//! | how many namespaces change at a time | `rollout` | decision 89 |
//! | removals that are held | `removal_guard`, `departures` | decision 97 |
//! | drift of applied resources | [`drift`] | decisions on drift repair |
//! | cached state | [`store`], [`model`], [`kinds`] | "Field Indexing" |
//! | keys that each event enqueues | `watches`, [`controller`] | "Event-Driven Architecture" |
//!
//! The modules form layers. Each uses only earlier ones of this list: [`names`]; `departures`, [`drift`], [`kinds`],
//! [`expression`]; [`variables`]; [`placeholders`]; [`resolved_class`]; [`model`]; [`store`]; [`ownership`],
//! [`condition_cause`]; [`plan`]; [`status`]; `requests`; [`controller`]; `rollout`, `removal_guard`, `announce`; [`reconcile`];
//! `watches`.
//!
//! Owner references do the cleanup: the namespace owns its binding, and the binding owns the resources. The garbage collector
//! removes objects without an owner.

use lockstep_engine::operator;

mod announce;
pub mod condition_cause;
pub mod controller;
mod departures;
pub mod drift;
pub mod expression;
pub mod kinds;
pub mod model;
pub mod names;
pub mod ownership;
pub mod placeholders;
pub mod plan;
pub mod reconcile;
mod recording;
mod removal_guard;
mod requests;
pub mod resolved_class;
mod rollout;
pub mod status;
pub mod store;
#[cfg(test)]
mod tests;
pub mod variables;
mod watches;

/// The NamespaceClass operator.
pub type Operator = operator::Operator<controller::Controller>;
