//! How a run of the operator is recorded.

use super::names::CONTENT_ANNOTATION;
use super::resolved_class;
use crate::engine::recording::{Mark, Traits};

/// What a recording must know of the operator.
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
    // What resources hold is handed on unread.
    forms: &[],
};
