//! The traits that a recording of the operator needs.

use super::names::CONTENT_ANNOTATION;
use super::resolved_class;
use crate::engine::recording::{Mark, Traits};

/// The traits of the operator for recordings.
pub(super) const TRAITS: Traits = Traits {
    mark: Some(Mark { annotation: CONTENT_ANNOTATION, of: resolved_class::marks }),
    words: &[
        include_str!("../namespaceclass.rs"),
        include_str!("binding.rs"),
        include_str!("class.rs"),
        include_str!("resolved_class.rs"),
        include_str!("names.rs"),
        include_str!("namespace.rs"),
        include_str!("plan.rs"),
        include_str!("drift_backoff.rs"),
        include_str!("status.rs"),
        include_str!("watches.rs"),
        include_str!("world.rs"),
    ],
    // The content of resources is recorded without interpretation.
    forms: &[],
};
