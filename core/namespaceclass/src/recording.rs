//! The traits that a recording of the operator needs.

use lockstep_crds::namespaceclass::CONTROLLER;
use lockstep_engine::recording::{Mark, Traits};

use super::names::CONTENT_ANNOTATION;
use super::resolved_class;

/// The traits of the operator for recordings.
pub(super) const TRAITS: Traits = Traits {
    mark: Some(Mark { annotation: CONTENT_ANNOTATION, of: resolved_class::marks }),
    words: include_str!(concat!(env!("OUT_DIR"), "/words.txt")),
    kinds: || lockstep_crds::of(CONTROLLER),
    // The content of resources is recorded without interpretation.
    forms: &[],
};

#[cfg(test)]
mod tests;
