//! The traits that a recording of the operator needs.

use lockstep_crds::namespaceclass::CONTROLLER;
use lockstep_engine::recording::{Mark, Traits};

use super::names::CONTENT_ANNOTATION;
use super::resolved_class;

/// The traits of the operator for recordings.
pub(super) const TRAITS: Traits = Traits {
    mark: Some(Mark { annotation: CONTENT_ANNOTATION, of: resolved_class::marks }),
    words: &[
        include_str!("lib.rs"),
        include_str!("announce.rs"),
        include_str!("condition_cause.rs"),
        include_str!("controller.rs"),
        include_str!("departures.rs"),
        include_str!("drift_backoff.rs"),
        include_str!("kinds.rs"),
        include_str!("model.rs"),
        include_str!("names.rs"),
        include_str!("ownership.rs"),
        include_str!("plan.rs"),
        include_str!("reconcile.rs"),
        include_str!("reconcile/binding.rs"),
        include_str!("reconcile/class.rs"),
        include_str!("reconcile/namespace.rs"),
        include_str!("removal_guard.rs"),
        include_str!("requests.rs"),
        include_str!("resolved_class.rs"),
        include_str!("rollout.rs"),
        include_str!("status.rs"),
        include_str!("store.rs"),
        include_str!("watches.rs"),
    ],
    kinds: || lockstep_crds::of(CONTROLLER),
    // The content of resources is recorded without interpretation.
    forms: &[],
};

#[cfg(test)]
mod tests;
