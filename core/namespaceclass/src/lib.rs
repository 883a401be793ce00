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
//! | namespace → binding | [`namespace`] | flows 2, 3, 4; "`NamespaceReconciler`" |
//! | class → resolved resources, condition `Valid` | [`class`], [`resolved_class`] | flows 1, 5 |
//! | binding → resources, pruning, removal | [`binding`], [`plan`] | flows 2, 4, 5, 6; "Declarative Pruning" |
//! | condition `Ready`, status tracking | [`status`] | "Status Tracking" |
//! | drift of applied resources, repeated drift | [`drift`], [`drift_backoff`] | decisions on drift repair |
//! | cached state; keys that each event enqueues | [`world`], `watches` | "Field Indexing", "Event-Driven Architecture" |
//!
//! Owner references do the cleanup: the namespace owns its binding, and the binding owns the resources. The garbage collector
//! removes objects without an owner.

use std::time::Duration;

use lockstep_engine::action::Outcome;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::driver::{Next, Reconcile, Verdict};
use lockstep_engine::object::ObjectRef;
use lockstep_engine::operator::{self, Outbox};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

pub mod binding;
pub mod class;
pub mod drift;
pub mod drift_backoff;
pub mod names;
pub mod namespace;
pub mod plan;
mod recording;
pub mod resolved_class;
pub mod status;
mod watches;
pub mod world;

use world::World;

/// The backoff of a failing key: half a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_millis(500), max: Duration::from_mins(5) };

/// Returns the verdict for a cache that is behind the cluster. The watch usually enqueues the key before it is retried. If
/// the watch is behind for long, frequent retries would not help.
fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}

/// The keys that the operator reconciles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A class, by name.
    Class(String),
    /// A namespace, by name. Its reconcile ensures that it has the binding that its label requests.
    Namespace(String),
    /// The binding of a namespace. Its reconcile ensures that the resources exist.
    Binding(String),
}

/// What a pass waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// A stage of the reconcile of a class.
    Class(class::Stage),
    /// A stage of the reconcile of a namespace.
    Namespace(namespace::Stage),
    /// A stage of the reconcile of a binding.
    Binding(binding::Stage),
}

/// The NamespaceClass operator.
pub type Operator = operator::Operator<Controller>;

/// The decisions of the operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    world: World,
    outbox: Outbox<Key>,
}

impl Reconcile for Controller {
    type Key = Key;
    type Stage = Stage;

    fn reconciler(key: &Key) -> &'static str {
        match key {
            Key::Class(_) => "class",
            Key::Namespace(_) => "namespace",
            Key::Binding(_) => "binding",
        }
    }

    fn object(key: &Key) -> ObjectRef {
        match key {
            Key::Class(name) => ObjectRef::cluster(&names::class(), name),
            Key::Namespace(name) => ObjectRef::cluster(&names::namespace(), name),
            Key::Binding(name) => ObjectRef::namespaced(&names::binding(), name, name),
        }
    }

    fn begin(&mut self, key: &Key, now: Now) -> Next<Stage> {
        match key {
            Key::Class(name) => self.begin_class(name, now),
            Key::Namespace(name) => self.begin_namespace(name, now),
            Key::Binding(name) => self.begin_binding(name, now),
        }
    }

    fn resume(&mut self, key: &Key, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let name = match key {
            Key::Class(name) | Key::Namespace(name) | Key::Binding(name) => name,
        };
        match stage {
            Stage::Class(stage) => self.resume_class(name, stage, outcomes, now),
            Stage::Namespace(stage) => self.resume_namespace(name, stage, outcomes, now),
            Stage::Binding(stage) => self.resume_binding(name, stage, outcomes, now),
        }
    }
}
