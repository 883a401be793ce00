//! How a run of the operator is recorded.

use super::names::CONTENT_ANNOTATION;
use super::{Operator, content};
use crate::engine::recording::{Checkpoint, Mark, Origin, Recordable, Traits};

impl Operator {
    /// The operator that a recording speaks of.
    pub fn revive(origin: Origin<'_>) -> serde_json::Result<Self> {
        match origin {
            Origin::Config(config) => serde_json::from_value(config.clone()).map(Self::new),
            Origin::Checkpoint(state) => serde_json::from_value(state.clone()),
        }
    }
}

impl Recordable for Operator {
    fn checkpoint(&self) -> Checkpoint {
        let state = self.clone();
        Box::new(move || serde_json::to_value(state))
    }

    fn traits(&self) -> Traits {
        Traits {
            mark: Some(Mark { annotation: CONTENT_ANNOTATION, of: content::marks }),
            words: &[
                include_str!("../namespaceclass.rs"),
                include_str!("binding.rs"),
                include_str!("class.rs"),
                include_str!("content.rs"),
                include_str!("names.rs"),
                include_str!("namespace.rs"),
                include_str!("plan.rs"),
                include_str!("repair.rs"),
                include_str!("status.rs"),
                include_str!("watches.rs"),
                include_str!("world.rs"),
            ],
            // What resources hold is handed on unread.
            forms: &[],
        }
    }
}
