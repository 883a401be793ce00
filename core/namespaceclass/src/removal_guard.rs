//! Holds removals that are probably a mistake, if the class asks for that: the label removed everywhere, or the class emptied.
//!
//! A namespace without the label keeps its binding for the window of the guard. If by then more namespaces have lost the class than it
//! permits, all of them keep it. Which namespaces these are shows in their labels and bindings, so a new leader holds the same; it
//! only begins the window again.
//!
//! Source: not in the specification, which removes at once (decision 97).

use lockstep_engine::scheduler::Verdict;
use lockstep_engine::time::Now;

use super::controller::{Controller, Key};
use super::departures::Departure;
use super::model::{Binding, BindingIndex, Class, Resolved};
use super::names::CONFIRM_REMOVAL_ANNOTATION;
use super::store::Store;

/// A removal that does not happen now.
pub(super) struct Held {
    /// When to decide again.
    pub(super) verdict: Verdict,
    /// What to report, once it is decided.
    pub(super) note: Option<String>,
}

impl Store {
    /// Returns how a namespace counts for the guard of the class of its binding. If a user created the binding, no label decides about
    /// it. If it is being deleted, nothing is left to hold.
    fn departure(&self, namespace: &str, binding: &Binding) -> Option<Departure> {
        let class = &binding.class;
        let known = self.namespaces.get(&namespace.to_owned());
        let Some(known) = known.filter(|known| !binding.deleting && binding.is_controlled_by(known)) else {
            return Some(Departure::Ignored);
        };
        let excludes = || self.classes.get(class).is_some_and(|class| class.excludes(namespace));
        let is_leaving = !known.terminating && (known.class.as_ref() != Some(class) || excludes());
        is_leaving.then_some(Departure::Leaving)
    }

    /// Counts a namespace again, after a change of it or of its binding.
    pub(super) fn count_departure(&mut self, namespace: &str) {
        let binding = self.bindings.get(&namespace.to_owned());
        let counted = binding.and_then(|binding| {
            self.departure(namespace, binding).map(|departure| (binding.class.clone(), departure))
        });
        self.departures.set(namespace, counted);
    }

    /// Counts all namespaces of a class again, after a change of the class: it may exclude others now.
    pub(super) fn count_departures(&mut self, class: &str) {
        let bound = self.bindings.keys_by(&BindingIndex::Class(class.to_owned()));
        for namespace in bound.cloned().collect::<Vec<_>>() {
            self.count_departure(&namespace);
        }
    }

    /// Returns how many namespaces have a class by their label, or had it until a moment ago.
    fn governed(&self, class: &str) -> usize {
        let bound = self.bindings.count_by(&BindingIndex::Class(class.to_owned()));
        bound.saturating_sub(self.departures.count(class, Departure::Ignored))
    }

    /// Returns whether more namespaces have lost a class than this percentage.
    fn is_mass_removal(&self, class: &str, percent: usize) -> bool {
        self.departures.count(class, Departure::Leaving) > (self.governed(class) * percent / 100).max(1)
    }

    /// Returns whether a class has lost all its resources, and holds their removal from a namespace. Resources of a former class are
    /// not held: a namespace that changes its class loses them (specification, "Switch Namespace to Different NamespaceClass"). A
    /// status without a class may have been removed by another client (decision 128). Once a pass over the empty class has ended, the
    /// removals have begun, and what is left is only being deleted.
    pub(super) fn holds_pruning(&self, namespace: &str, binding: &Binding, resolved: &Resolved) -> bool {
        let class = self.classes.get(&binding.class);
        let observed = &binding.status.observed_class_name;
        (observed.is_empty() || (*observed == binding.class && !binding.has_applied(resolved)))
            && resolved.content.named.is_empty()
            && class.is_some_and(|class| class.removal_guard().is_some())
            && (binding.status.remembered().next().is_some()
                || self.applied_in(namespace, binding).next().is_some())
    }
}

impl Controller {
    /// Returns whether the removal of a class from a namespace is held.
    pub(super) fn hold_removal(&mut self, namespace: &str, class: &str, now: Now) -> Option<Held> {
        let guard = self.store.classes.get(&class.to_owned()).and_then(Class::removal_guard);
        let Some((percent, window)) = guard else {
            self.store.leaving.remove(namespace);
            return None;
        };
        let since = *self.store.leaving.entry(namespace.to_owned()).or_insert(now.monotonic);
        let rest = window.saturating_sub(now.monotonic.since(since));
        let note = format!(
            "NamespaceClass {class} stays applied here, because more than {percent} % of its namespaces have lost it; restore \
             the label, or annotate the class with {CONFIRM_REMOVAL_ANNOTATION}=true, and remove the annotation afterwards"
        );
        if !rest.is_zero() {
            // For a new leader the window begins again. What an earlier one has reported stays.
            let problem = self.store.namespaces.get(&namespace.to_owned()).and_then(|it| it.problem.as_ref());
            let is_reported = problem == Some(&note);
            return Some(Held { verdict: Verdict::Requeue(rest), note: is_reported.then_some(note) });
        }
        let is_held = self.store.is_mass_removal(class, percent);
        is_held.then_some(Held { verdict: Verdict::Requeue(window), note: Some(note) })
    }

    /// Enqueues everything that a class may hold, after its guard or its confirmation has changed.
    pub(super) fn guard_changed(&mut self, class: &str) {
        let bound = self.store.bindings.keys_by(&BindingIndex::Class(class.to_owned()));
        let keys = bound.flat_map(|it| [Key::Namespace(it.clone()), Key::Binding(it.clone())]);
        self.outbox.woken.extend(keys);
    }
}

#[cfg(test)]
mod tests;
