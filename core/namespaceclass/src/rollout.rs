//! Limits how many namespaces of a class change at a time, if the class asks for that.
//!
//! A ready namespace is changed only while fewer than `maxUnavailable` others are unready or in change. So a change that breaks
//! namespaces stops by itself. A namespace that is not ready is always worked on: it can only become better.
//!
//! A class may name canaries. Until they are ready with the change, no other ready namespace is changed.
//!
//! Whether a namespace is ready stands in the status of its binding, and `Ready` becomes false there before anything is changed.
//! So a new leader counts those that an earlier one had begun.
//!
//! Source: not in the specification, which changes all namespaces at once (decisions 89 and 122).

use lockstep_engine::cache::Cached as _;
use lockstep_engine::conditions::Finding;

use super::controller::{Controller, Key};
use super::departures::Departure;
use super::model::{Binding, BindingIndex, Class, Resolved};
use super::names::ROLLED_OUT;
use super::names::reason::{self, Reason};
use super::store::Store;

/// The number of unready namespaces that a message names.
const NAMED: usize = 3;

/// Returns whether a pass over a namespace needs one of the places that its class limits.
pub(super) fn needs_place(class: &Class, binding: &Binding, resolved: &Resolved) -> bool {
    class.max_unavailable().is_some() && binding.is_available() && !binding.has_applied(resolved)
}

impl Store {
    /// Returns the class that the binding of a namespace names.
    pub(super) fn class_of(&self, namespace: &str) -> Option<String> {
        self.bindings.get(&namespace.to_owned()).map(|binding| binding.class.clone())
    }

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

    /// Returns whether only canaries of a class may change now, and those of them that have the class and are not ready with its
    /// present generation.
    fn unproven<'a>(&self, name: &str, class: &'a Class) -> (bool, Vec<&'a str>) {
        let (mut named, mut bound) = (0, 0);
        let mut unproven = Vec::new();
        for canary in class.canaries() {
            named += 1;
            let binding = self.bindings.get(&canary.to_owned());
            let has_class = |it: &&Binding| it.class == name && !it.deleting && !class.excludes(canary);
            let Some(binding) = binding.filter(has_class) else { continue };
            bound += 1;
            if !binding.is_ready_with(class) {
                unproven.push(canary);
            }
        }
        (named > 0 && (bound == 0 || !unproven.is_empty()), unproven)
    }

    /// Returns the waiting namespaces of a class that may change now.
    fn next(&self, name: &str, class: &Class) -> Vec<String> {
        let (Some(free), Some(waiting)) = (self.free_places(name), self.waiting.get(name)) else {
            return Vec::new();
        };
        let (canaries_only, unproven) = self.unproven(name, class);
        if canaries_only {
            let canaries = unproven.into_iter().filter(|canary| waiting.contains(*canary));
            canaries.take(free).map(str::to_owned).collect()
        } else {
            // One without the class would not use its place.
            let bound = waiting.iter().filter(|it| self.class_of(it).as_deref() == Some(name));
            bound.take(free).cloned().collect()
        }
    }

    /// Removes a namespace from those that wait.
    fn stop_waiting(&mut self, namespace: &str) {
        self.waiting.retain(|_, waiting| {
            waiting.remove(namespace);
            !waiting.is_empty()
        });
    }

    /// Returns whether a change of a class has been brought to all its namespaces. One that has not had the class before is not part
    /// of the rollout. Nor is one that the class excludes and that keeps what it has, because the removal of its binding is held.
    fn is_everywhere(&self, name: &str, class: &Class) -> bool {
        let held = BindingIndex::Held(name.to_owned());
        let applied = self.bindings.count_by(&BindingIndex::Applied(class.uid.clone(), class.generation));
        let left = self.bindings.count_by(&held) - applied;
        // Thousands of namespaces may be left. They are examined only if each of them may be excluded.
        left == 0
            || left <= self.departures.count(name, Departure::Leaving)
                && self.bindings.keys_by(&held).filter(|namespace| !class.excludes(namespace)).all(
                    |namespace| {
                        self.bindings.get(namespace).is_some_and(|binding| binding.has_observed(class))
                    },
                )
    }

    /// Returns how far the change of a class has come, as the reason of its condition `RolledOut`.
    fn progress(&self, name: &str, class: &Class) -> Reason {
        if self.is_everywhere(name, class) {
            // There is no further namespace at which a change could halt that has broken all of them.
            let broken = BindingIndex::Broken(class.uid.clone(), class.generation);
            if self.bindings.count_by(&broken) > 0 { reason::HALTED } else { reason::ALL_NAMESPACES_CHANGED }
        } else if self.is_halted(name, class) {
            reason::HALTED
        } else {
            reason::ROLLING_OUT
        }
    }

    /// Returns the condition `RolledOut` of a class; `None` if it does not limit how many namespaces change at a time.
    pub(super) fn rollout(&self, name: &str, class: &Class) -> Option<Finding> {
        let limit = class.max_unavailable()?;
        let generation = class.generation;
        let reason = self.progress(name, class);
        let message = match reason {
            reason::ALL_NAMESPACES_CHANGED => {
                let message = format!("every namespace has been brought to generation {generation}");
                return Some(Finding::valid(ROLLED_OUT, reason, message));
            }
            reason::HALTED if self.is_everywhere(name, class) => {
                let broken = BindingIndex::Broken(class.uid.clone(), generation);
                let named: Vec<&str> =
                    self.bindings.keys_by(&broken).take(NAMED).map(String::as_str).collect();
                format!(
                    "every namespace has been brought to generation {generation}, but some are not ready with it, such as {}; \
                     correct the class, or what their bindings report",
                    named.join(", ")
                )
            }
            reason::HALTED if self.free_places(name) != Some(0) => {
                let (_, unproven) = self.unproven(name, class);
                let why = match unproven[..] {
                    [] => "none of the namespaces in spec.rollout.canaries has the class; correct the list"
                        .to_owned(),
                    _ => format!(
                        "these namespaces in spec.rollout.canaries are not ready with it: {}; correct the class, or what \
                         their bindings report",
                        unproven[..unproven.len().min(NAMED)].join(", ")
                    ),
                };
                format!("no further namespace is brought to generation {generation}, because {why}")
            }
            reason::HALTED => {
                let unready = self.bindings.keys_by(&BindingIndex::Unavailable(name.to_owned()));
                let named: Vec<&str> = unready.take(NAMED).map(String::as_str).collect();
                format!(
                    "no further namespace is brought to generation {generation}, because as many are not ready as \
                     spec.rollout.maxUnavailable permits ({limit}), such as {}; correct the class, or what their bindings report",
                    named.join(", ")
                )
            }
            _ => {
                format!("namespaces are being brought to generation {generation}, at most {limit} at a time")
            }
        };
        Some(Finding::broken(ROLLED_OUT, reason, message))
    }

    /// Returns whether the status of a class reports the present state of its rollout. That of a paused class does not change.
    pub(super) fn reports_rollout(&self, name: &str, class: &Class) -> bool {
        let Some(rollout) = self.rollout(name, class).filter(|_| !class.is_paused()) else { return true };
        let reported = class.status.conditions.iter().find(|condition| condition.type_ == ROLLED_OUT);
        reported.is_some_and(|it| (&*it.reason, &*it.message) == (rollout.reason, &*rollout.message))
    }

    fn is_halted(&self, name: &str, class: &Class) -> bool {
        let is_held = if self.waiting.contains_key(name) {
            self.next(name, class).is_empty()
        } else {
            self.was_halted(name, class)
        };
        is_held && !self.admitted.values().any(|of| of == name)
    }

    /// Returns whether the status reports a halt that still exists. A process that has just started has not examined the
    /// namespaces yet, so that none of them waits. Without this, each new leader would report progress for a moment.
    fn was_halted(&self, name: &str, class: &Class) -> bool {
        let is_reported = class.status.conditions.iter().any(|condition| {
            (&*condition.type_, &*condition.reason) == (ROLLED_OUT, reason::HALTED)
                && condition.observed_generation == Some(class.generation)
        });
        let index = BindingIndex::Class(name.to_owned());
        let waits = |namespace: &String| {
            let binding = self.bindings.get(namespace).filter(|binding| !binding.deleting);
            binding.is_some_and(|binding| binding.is_available() && !binding.is_ready_with(class))
                && !class.excludes(namespace)
        };
        if !is_reported || !self.bindings.keys_by(&index).any(waits) {
            return false;
        }
        let (canaries_only, unproven) = self.unproven(name, class);
        self.free_places(name) == Some(0)
            || (canaries_only && !unproven.into_iter().any(|canary| waits(&canary.to_owned())))
    }
}

impl Controller {
    /// Admits a namespace to those that change now. Returns false if it has to wait; it is enqueued again when a place is free.
    pub(super) fn admit(&mut self, namespace: &str, class: &str) -> bool {
        let has_turn = self.store.classes.get(&class.to_owned()).is_none_or(|it| {
            let (canaries_only, unproven) = self.store.unproven(class, it);
            !canaries_only || unproven.contains(&namespace)
        });
        let is_free = has_turn && self.store.free_places(class) != Some(0);
        if is_free {
            self.store.admitted.insert(namespace.to_owned(), class.to_owned());
        } else {
            self.store.waiting.entry(class.to_owned()).or_default().insert(namespace.to_owned());
        }
        is_free
    }

    /// Begins a pass over a namespace: it neither waits nor holds a place until that is decided again.
    pub(super) fn leave_rollouts(&mut self, namespace: &str) {
        self.store.stop_waiting(namespace);
        let admitted_to = self.store.admitted.remove(namespace);
        // The end of the pass continues the class that the binding names then, which may be another one by now.
        let class = self.store.class_of(namespace);
        if let Some(left) = admitted_to.filter(|left| class.as_ref() != Some(left)) {
            self.continue_rollout(&left);
        }
    }

    /// Ends a pass over a namespace: its place is free, unless the namespace is unready now.
    pub(super) fn end_pass(&mut self, namespace: &str) {
        let admitted_to = self.store.admitted.remove(namespace);
        self.continue_rollouts(namespace, admitted_to);
    }

    /// Continues the rollouts of the class that a namespace may have left, and of the one that its binding names now. When the first
    /// lists are complete, everything is enqueued anyway.
    pub(super) fn continue_rollouts(&mut self, namespace: &str, left: Option<String>) {
        let class = self.store.class_of(namespace);
        let left = left.filter(|left| class.as_ref() != Some(left));
        // It does not wait for the class that it has left. The pass over the new class decides whether it waits for that.
        if left.is_some() {
            self.store.stop_waiting(namespace);
        }
        if !self.store.is_synced() {
            return;
        }
        for class in left.into_iter().chain(class) {
            self.continue_rollout(&class);
        }
    }

    /// Enqueues as many waiting namespaces as may change now, and the class if its condition has to change.
    fn continue_rollout(&mut self, name: &str) {
        let Some(class) = self.store.classes.get(&name.to_owned()).filter(|class| !class.is_paused()) else {
            return;
        };
        let next = self.store.next(name, class);
        self.outbox.woken.extend(next.into_iter().map(Key::Binding));
        if !self.store.reports_rollout(name, class) {
            self.outbox.woken.push(Key::Class(name.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests;
