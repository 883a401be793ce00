//! Maps watch events to keys: each event enqueues only the keys that depend on it.
//!
//! Source: NamespaceClass operator, "Field Indexing" and "Event-Driven Architecture".

use std::sync::Arc;

use lockstep_crds::namespaceclass::CONTROLLER;
use lockstep_engine::action::{Action, ErrorKind, Failure, Scope, WatchCommand};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::{Metric, MetricKind};
use lockstep_engine::object::{Kind, ResourceVersion, metadata};
use lockstep_engine::operator::{Control, Outbox};
use lockstep_engine::recording::Traits;
use lockstep_engine::time::Now;
use serde_json::Value;

use super::controller::{BACKOFF, Controller, Key};
use super::model::{Binding, Class, Namespace, Resolved};
use super::names;
use super::recording::TRAITS;
use super::store::{self, Store};

impl Control for Controller {
    const NAME: &'static str = CONTROLLER;
    const BACKOFF: Backoff = BACKOFF;
    const RECONCILERS: &'static [&'static str] = &["class", "namespace", "binding"];
    const METRICS: &'static [Metric] = &[Metric {
        name: names::UNRESOLVED_METRIC,
        help: "Namespaces with a label that names a NamespaceClass that does not exist.",
        labels: &[],
        kind: MetricKind::Gauge,
    }];
    const TRAITS: Traits = TRAITS;

    fn new(outbox: Outbox<Key>) -> Self {
        Self { store: Store::default(), outbox }
    }

    fn outbox(&mut self) -> &mut Outbox<Key> {
        &mut self.outbox
    }

    fn keys(&self) -> Vec<Key> {
        let store = &self.store;
        let classes = store.classes.iter().map(|(name, _)| Key::Class(name.clone()));
        let namespaces = store.namespaces.iter().map(|(name, _)| Key::Namespace(name.clone()));
        let bindings = store.bindings.iter().map(|(name, _)| Key::Binding(name.clone()));
        classes.chain(namespaces).chain(bindings).collect()
    }

    fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    fn resync(&mut self, now: Now) {
        self.unwatch_unused(now);
    }

    fn start(&mut self) {
        for (kind, metadata_only) in
            [(names::namespace(), true), (names::class(), false), (names::binding(), false)]
        {
            let scope = Scope { metadata_only, ..Scope::default() };
            self.outbox.requests.push(Action::Watch(WatchCommand::Start { kind, scope }));
        }
    }

    fn list_started(&mut self, kind: &Arc<Kind>) {
        match Watched::of(kind) {
            Watched::Namespaces => self.store.namespaces.start_list(),
            Watched::Classes => self.store.classes.start_list(),
            Watched::Bindings => self.store.bindings.start_list(),
            Watched::Resources => {
                if let Some(resources) = self.store.resources.get_mut(kind) {
                    resources.cache.start_list();
                }
            }
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>) {
        if self.store.refused.remove(kind).is_some() {
            self.wake_classes();
        }
        match Watched::of(kind) {
            Watched::Namespaces => {
                for (name, _) in self.store.namespaces.complete_list() {
                    self.forget_namespace(&name);
                    self.outbox.woken.push(Key::Namespace(name));
                }
            }
            Watched::Classes => {
                for (name, _) in self.store.classes.complete_list() {
                    self.class_is_gone(name);
                }
            }
            Watched::Bindings => {
                let gone = self.store.bindings.complete_list();
                for (name, binding) in gone {
                    self.store.count_departure(&name);
                    self.forget_binding(&name);
                    self.continue_rollouts(&name, Some(binding.class));
                    self.outbox.woken.push(Key::Namespace(name));
                }
            }
            Watched::Resources => {
                let Some(resources) = self.store.resources.get_mut(kind) else { return };
                let was_unsettled = resources.listed();
                for ((namespace, _), _) in resources.cache.complete_list() {
                    self.outbox.woken.push(Key::Binding(namespace));
                }
                if was_unsettled {
                    self.wake_bindings_using(kind);
                }
            }
        }
    }

    fn observed(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let name = metadata(object, "name").to_owned();
        match Watched::of(kind) {
            Watched::Namespaces => {
                let namespace = Namespace::read(object);
                let is_unchanged =
                    self.store.namespaces.get(&name).is_some_and(|held| held.is_same(&namespace));
                let gives_other_values = self.store.reads_differently(&name, &namespace);
                if !self.store.namespaces.observe(name.clone(), namespace) {
                    return;
                }
                if !is_unchanged {
                    self.store.count_departure(&name);
                    self.outbox.woken.push(Key::Namespace(name.clone()));
                }
                // The reconcile of its binding may have ended because the namespace was not cached yet.
                if gives_other_values || (!is_unchanged && self.store.bindings.get(&name).is_some()) {
                    self.outbox.woken.push(Key::Binding(name));
                }
            }
            Watched::Classes => {
                let class = Class::read(object);
                let held = self.store.classes.get(&name);
                let is_unchanged = held.is_some_and(|held| held.is_same(&class));
                let is_confirmed = held.is_some_and(Class::confirms_removal) != class.confirms_removal();
                // Nothing is held for a class that was not known.
                let is_guarded = held.is_some_and(|held| held.removal_guard() != class.removal_guard());
                if self.store.classes.observe(name.clone(), class) && !is_unchanged {
                    self.store.count_departures(&name);
                    if is_confirmed || is_guarded {
                        self.guard_changed(&name);
                    }
                    self.outbox.woken.push(Key::Class(name));
                }
            }
            Watched::Bindings => {
                let namespace = metadata(object, "namespace").to_owned();
                let binding = Binding::read(object);
                let is_unchanged = self.store.bindings.get(&name).is_some_and(|held| held.is_same(&binding));
                let left = self.store.class_of(&name);
                // A namespace has one binding, named like it. The operator does not reconcile bindings of other names.
                if name != namespace || !self.store.bindings.observe(name.clone(), binding) {
                    return;
                }
                if !is_unchanged {
                    self.store.count_departure(&name);
                    self.outbox.woken.push(Key::Namespace(name.clone()));
                    self.outbox.woken.push(Key::Binding(name.clone()));
                }
                self.continue_rollouts(&name, left);
            }
            Watched::Resources => {
                if self.store.observe_resource(kind, object) {
                    self.outbox.woken.push(Key::Binding(metadata(object, "namespace").to_owned()));
                }
            }
        }
    }

    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let name = metadata(object, "name").to_owned();
        let version = ResourceVersion::of(object);
        match Watched::of(kind) {
            Watched::Namespaces => {
                if self.store.namespaces.vanish(&name, version) {
                    self.forget_namespace(&name);
                }
                self.store.reported_events.remove(&name);
            }
            Watched::Classes => {
                if self.store.classes.vanish(&name, version) {
                    self.class_is_gone(name);
                }
            }
            Watched::Bindings => {
                let left = self.store.class_of(&name);
                if metadata(object, "namespace") == name && self.store.bindings.vanish(&name, version) {
                    self.store.count_departure(&name);
                    self.forget_binding(&name);
                    self.continue_rollouts(&name, left);
                    self.outbox.woken.push(Key::Namespace(name));
                }
            }
            Watched::Resources => {
                let key = store::resource_key(object);
                let Some(resources) = self.store.resources.get_mut(kind) else { return };
                if resources.cache.vanish(&key, version) {
                    self.outbox.woken.push(Key::Binding(key.0));
                }
            }
        }
    }

    fn watch_failed(&mut self, kind: &Arc<Kind>, failure: Failure, _: Now) {
        // Discovery may be stale, so this is done each time that the watch gets this answer.
        if failure.class == ErrorKind::KindNotServed {
            self.not_served(kind);
        }
        if !matches!(Watched::of(kind), Watched::Resources) {
            if self.store.refuse_own(kind, failure) {
                self.wake_classes();
            }
        } else if self.store.refuse(kind, failure) {
            self.wake_bindings_using(kind);
        }
    }
}

impl Controller {
    /// Enqueues a class that the watch no longer shows. It may be back before its pass, from a list of an older state or the answer
    /// to a write. Namespaces that were examined in between have found no class, so the pass must not find it unchanged.
    fn class_is_gone(&mut self, name: String) {
        self.store.resolved.remove(&name);
        self.outbox.woken.push(Key::Class(name));
    }

    /// Forgets what depends on a namespace that is gone. Another namespace of that name starts without it.
    fn forget_namespace(&mut self, name: &str) {
        self.store.count_departure(name);
        self.store.reported_events.remove(name);
        self.store.leaving.remove(name);
        self.set_unresolved(name, false);
    }

    /// Enqueues all classes. There are few of them, but a binding in every namespace.
    fn wake_classes(&mut self) {
        self.outbox.woken.extend(self.store.classes.iter().map(|(name, _)| Key::Class(name.clone())));
    }

    /// Continues after an answer that a kind is not served. The kind may be gone altogether: it is discovered again before its classes
    /// are validated again.
    pub(super) fn not_served(&mut self, kind: &Kind) {
        self.store.kinds.forget(&kind.api_version());
        self.wake_classes_using(kind);
    }

    fn wake_bindings_using(&mut self, kind: &Kind) {
        for class in self.classes_using(kind) {
            self.wake_bindings_of(&class);
        }
    }

    fn wake_classes_using(&mut self, kind: &Kind) {
        let classes = self.classes_using(kind);
        self.outbox.woken.extend(classes.into_iter().map(Key::Class));
    }

    fn classes_using(&self, kind: &Kind) -> Vec<String> {
        let uses = |resolved: &&Resolved| resolved.content.entries.iter().any(|entry| *entry.kind == *kind);
        let using = self.store.resolved.iter().filter(|(_, resolved)| uses(resolved));
        using.map(|(class, _)| class.clone()).collect()
    }
}

/// What a watch of a kind is for.
enum Watched {
    Namespaces,
    Classes,
    Bindings,
    Resources,
}

impl Watched {
    fn of(kind: &Kind) -> Self {
        match (kind.group.as_str(), kind.kind.as_str()) {
            ("", "Namespace") => Self::Namespaces,
            (lockstep_crds::namespaceclass::GROUP, "NamespaceClass") => Self::Classes,
            (lockstep_crds::namespaceclass::GROUP, "NamespaceClassBinding") => Self::Bindings,
            _ => Self::Resources,
        }
    }
}

#[cfg(test)]
mod tests;
