//! The decisions of the operator: one reconcile for each kind of keys.

use lockstep_engine::action::Outcome;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::scheduler::{Next, Reconcile};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::controller::{Controller, Key};
use super::names;

pub mod binding;
pub mod class;
pub mod namespace;

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
            Key::Class(name) => self.begin_class(name).map(Stage::Class),
            Key::Namespace(name) => self.begin_namespace(name, now).map(Stage::Namespace),
            Key::Binding(name) => {
                let next = self.begin_binding(name, now);
                self.after_binding_step(name, &next);
                next.map(Stage::Binding)
            }
        }
    }

    fn resume(&mut self, key: &Key, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let name = match key {
            Key::Class(name) | Key::Namespace(name) | Key::Binding(name) => name,
        };
        match stage {
            Stage::Class(stage) => self.resume_class(name, stage, outcomes, now).map(Stage::Class),
            Stage::Namespace(stage) => {
                let next = self.resume_namespace(name, stage, outcomes, now);
                self.store.count_departure(name);
                next.map(Stage::Namespace)
            }
            Stage::Binding(stage) => {
                let next = self.resume_binding(name, stage, outcomes, now);
                self.store.count_departure(name);
                self.after_binding_step(name, &next);
                next.map(Stage::Binding)
            }
        }
    }
}

impl Controller {
    fn after_binding_step(&mut self, name: &str, next: &Next<binding::Stage>) {
        if matches!(next, Next::Done(_)) {
            self.end_pass(name);
        }
    }
}
