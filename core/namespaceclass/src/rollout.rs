//! Limits how many namespaces of a class change at a time, if the class asks for that.
//!
//! A ready namespace is changed only while fewer than `maxUnavailable` others are unready or in change. So a change that breaks
//! namespaces stops by itself. A namespace that is not ready is always worked on: it can only become better.
//!
//! Whether a namespace is ready stands in the status of its binding, and `Ready` becomes false there before anything is changed.
//! So a new leader counts those that an earlier one had begun.
//!
//! Source: not in the specification, which changes all namespaces at once (decision 89).

use lockstep_engine::cache::Cached as _;
use lockstep_engine::conditions::{Finding, Status};

use super::controller::{Controller, Key};
use super::model::{Binding, BindingIndex, Class, Resolved};
use super::names::{ROLLED_OUT, reason};
use super::store::Store;

/// The number of unready namespaces that a message names.
const NAMED: usize = 3;

/// Returns whether a pass over a namespace needs one of the places that its class limits.
pub(super) fn needs_place(class: &Class, binding: &Binding, resolved: &Resolved) -> bool {
    class.max_unavailable().is_some() && binding.is_available() && !binding.has_applied(resolved)
}

impl Store {
    /// Returns how many namespaces of a class are unready or in change.
    fn unavailable(&self, class: &str) -> usize {
        let index = BindingIndex::Unavailable(class.to_owned());
        let is_counted = |namespace: &String| {
            let binding = self.bindings.get(namespace);
            binding.is_some_and(|binding| binding.indexes().contains(&index))
        };
        let admitted = self.admitted.iter().filter(|(namespace, of)| *of == class && !is_counted(namespace));
        self.bindings.count_by(&index) + admitted.count()
    }

    /// Returns how many further namespaces of a class may change now; `None` if it does not limit that.
    fn free_places(&self, class: &str) -> Option<usize> {
        let limit = self.classes.get(&class.to_owned())?.max_unavailable()?;
        Some(limit.saturating_sub(self.unavailable(class)))
    }

    /// Returns how far the change of a class has come; `None` if it does not limit how many namespaces change at a time.
    pub(super) fn rollout(&self, name: &str, class: &Class) -> Option<Finding> {
        let limit = class.max_unavailable()?;
        let generation = class.generation;
        // A namespace that has not had the class before is not part of the rollout.
        let held = self.bindings.count_by(&BindingIndex::Held(name.to_owned()));
        let applied = self.bindings.count_by(&BindingIndex::Applied(class.uid.clone(), generation));
        let (status, reason, message) = if applied == held {
            let message = format!("every namespace has been brought to generation {generation}");
            (Status::True, reason::ALL_NAMESPACES_CHANGED, message)
        } else if self.is_halted(name) {
            let unready = self.bindings.keys_by(&BindingIndex::Unavailable(name.to_owned()));
            let named: Vec<&str> = unready.take(NAMED).map(String::as_str).collect();
            let message = format!(
                "no further namespace is brought to generation {generation}, because as many are not ready as \
                 spec.rollout.maxUnavailable permits ({limit}), such as {}; correct the class, or what their bindings report",
                named.join(", ")
            );
            (Status::False, reason::HALTED, message)
        } else {
            let message =
                format!("namespaces are being brought to generation {generation}, at most {limit} at a time");
            (Status::False, reason::ROLLING_OUT, message)
        };
        Some(Finding { condition: ROLLED_OUT, status, reason, message })
    }

    fn is_halted(&self, class: &str) -> bool {
        self.waiting.contains_key(class)
            && self.free_places(class) == Some(0)
            && !self.admitted.values().any(|of| of == class)
    }
}

impl Controller {
    /// Admits a namespace to those that change now. Returns false if it has to wait; it is enqueued again when a place is free.
    pub(super) fn admit(&mut self, namespace: &str, class: &str) -> bool {
        let is_free = self.store.free_places(class) != Some(0);
        if is_free {
            self.store.admitted.insert(namespace.to_owned(), class.to_owned());
        } else {
            self.store.waiting.entry(class.to_owned()).or_default().insert(namespace.to_owned());
        }
        is_free
    }

    /// Begins a pass over a namespace: whether it waits or holds a place is decided anew.
    pub(super) fn leave_rollouts(&mut self, namespace: &str) {
        self.store.admitted.remove(namespace);
        self.store.waiting.retain(|_, waiting| {
            waiting.remove(namespace);
            !waiting.is_empty()
        });
    }

    /// Ends a pass over a namespace: its place is free, unless the namespace is unready now.
    pub(super) fn end_pass(&mut self, namespace: &str) {
        let admitted_to = self.store.admitted.remove(namespace);
        let class = self.store.bindings.get(&namespace.to_owned()).map(|binding| binding.class.clone());
        for class in admitted_to.into_iter().chain(class) {
            self.continue_rollout(&class);
        }
    }

    /// Continues the rollouts in which namespaces wait, after bindings were changed or removed by others.
    pub(super) fn continue_rollouts(&mut self) {
        let waited_for: Vec<String> = self.store.waiting.keys().cloned().collect();
        for class in waited_for {
            self.continue_rollout(&class);
        }
    }

    /// Enqueues as many waiting namespaces as may change now, and the class if its condition has to change.
    fn continue_rollout(&mut self, name: &str) {
        let Some(class) = self.store.classes.get(&name.to_owned()) else { return };
        let Some(finding) = self.store.rollout(name, class) else { return };
        let free = self.store.free_places(name).unwrap_or(usize::MAX);
        let waiting = self.store.waiting.get(name).into_iter().flatten().take(free);
        self.outbox.woken.extend(waiting.map(|namespace| Key::Binding(namespace.clone())));
        let reported = class.status.conditions.iter().find(|condition| condition.type_ == ROLLED_OUT);
        if reported.is_none_or(|reported| reported.reason != finding.reason) {
            self.outbox.woken.push(Key::Class(name.to_owned()));
        }
    }
}
