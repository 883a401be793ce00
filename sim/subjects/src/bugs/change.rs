//! Mistakes in the use of fields, most of which make a change safe: each controller works as if it did not know one of them.

use std::marker::PhantomData;

use lockstep_engine::machine::{Event, Machine};
use lockstep_sim::bugs::{Bug, Flaw, plant};
use serde_json::Value;

use super::common::edit;
use crate::namespaceclass::is_mistake;

const fn bug(
    name: &'static str,
    sentence: &'static str,
    controller: &'static str,
    plant: fn(Box<dyn Machine>) -> Box<dyn Machine>,
) -> Bug {
    Bug { name, sentence, controller, plant, garble: None }
}

const CLASSES: &str = lockstep_crds::namespaceclass::CONTROLLER;
const SERVICES: &str = lockstep_crds::dpuservice::CONTROLLER;

pub(super) const BUGS: &[Bug] = &[
    bug(
        "works_on_while_paused",
        "A paused class goes on being applied.",
        CLASSES,
        plant::<Ignores<PausedClass>>,
    ),
    bug(
        "all_namespaces_at_once",
        "All namespaces of a class change at once, whatever limit the class sets.",
        CLASSES,
        plant::<Ignores<LimitOfClass>>,
    ),
    bug(
        "canaries_have_no_precedence",
        "A ready namespace is changed before the canaries of its class.",
        CLASSES,
        plant::<Ignores<CanariesOfClass>>,
    ),
    bug(
        "repairs_what_is_reported",
        "Drift is repaired, although the class has it reported only.",
        CLASSES,
        plant::<Ignores<DriftOfClass>>,
    ),
    bug(
        "excludes_no_namespace",
        "A class is applied in the namespaces that it excludes.",
        CLASSES,
        plant::<Ignores<ExcludedNamespaces>>,
    ),
    bug(
        "removes_without_confirmation",
        "A class is removed from all namespaces, although it has such removals held.",
        CLASSES,
        plant::<Ignores<GuardOfClass>>,
    ),
    bug(
        "removes_despite_mistakes",
        "Entries of a class that can't be applied are ignored, so what has left the class is removed.",
        CLASSES,
        plant::<HidesMistakes>,
    ),
    bug(
        "deploys_while_paused",
        "A paused service goes on being deployed.",
        SERVICES,
        plant::<Ignores<PausedService>>,
    ),
    bug(
        "all_clusters_at_once",
        "All clusters of a service change at once, whatever limit the service sets.",
        SERVICES,
        plant::<Ignores<LimitOfService>>,
    ),
    bug(
        "canary_clusters_have_no_precedence",
        "A ready cluster is changed before the canaries of its service.",
        SERVICES,
        plant::<Ignores<CanariesOfService>>,
    ),
    bug(
        "reports_no_objects",
        "The status of a service omits the objects that Argo CD reports.",
        SERVICES,
        plant::<Ignores<ObjectsOfApplication>>,
    ),
];

/// A field of a kind.
trait Field {
    const KIND: &'static str;
    /// The JSON pointer of the object that contains it, and its name.
    const PATH: (&'static str, &'static str);
}

/// Hides a field from the machine.
struct Ignores<F>(PhantomData<F>);

impl<F> Default for Ignores<F> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<F: Field> Flaw for Ignores<F> {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        edit(&mut event, F::KIND, |object| {
            if let Some(Value::Object(parent)) = object.pointer_mut(F::PATH.0) {
                parent.remove(F::PATH.1);
            }
        });
        Some(event)
    }
}

/// Hides the entries of classes that can't be applied.
#[derive(Default)]
struct HidesMistakes;

impl Flaw for HidesMistakes {
    fn event(&mut self, mut event: Event) -> Option<Event> {
        edit(&mut event, "NamespaceClass", |class| {
            if let Some(resources) = class["spec"]["resources"].as_array_mut() {
                resources.retain(|entry| !is_mistake(entry));
            }
        });
        Some(event)
    }
}

struct PausedClass;

impl Field for PausedClass {
    const KIND: &'static str = "NamespaceClass";
    const PATH: (&'static str, &'static str) = ("/spec", "paused");
}

struct LimitOfClass;

impl Field for LimitOfClass {
    const KIND: &'static str = "NamespaceClass";
    const PATH: (&'static str, &'static str) = ("/spec", "rollout");
}

struct CanariesOfClass;

impl Field for CanariesOfClass {
    const KIND: &'static str = "NamespaceClass";
    const PATH: (&'static str, &'static str) = ("/spec/rollout", "canaries");
}

struct DriftOfClass;

impl Field for DriftOfClass {
    const KIND: &'static str = "NamespaceClass";
    const PATH: (&'static str, &'static str) = ("/spec", "drift");
}

struct ExcludedNamespaces;

impl Field for ExcludedNamespaces {
    const KIND: &'static str = "NamespaceClass";
    const PATH: (&'static str, &'static str) = ("/spec", "excludedNamespaces");
}

struct GuardOfClass;

impl Field for GuardOfClass {
    const KIND: &'static str = "NamespaceClass";
    const PATH: (&'static str, &'static str) = ("/spec", "removalGuard");
}

struct PausedService;

impl Field for PausedService {
    const KIND: &'static str = "DPUService";
    const PATH: (&'static str, &'static str) = ("/spec", "paused");
}

struct LimitOfService;

impl Field for LimitOfService {
    const KIND: &'static str = "DPUService";
    const PATH: (&'static str, &'static str) = ("/spec", "rollout");
}

struct CanariesOfService;

impl Field for CanariesOfService {
    const KIND: &'static str = "DPUService";
    const PATH: (&'static str, &'static str) = ("/spec/rollout", "canaries");
}

struct ObjectsOfApplication;

impl Field for ObjectsOfApplication {
    const KIND: &'static str = "Application";
    const PATH: (&'static str, &'static str) = ("/status", "resources");
}
