//! What a system around the controller of a small world does.

use std::time::Duration;

use lockstep_engine::action::Action;

/// The next writes of one of these systems.
#[derive(Debug, Clone)]
pub(super) struct Act {
    /// When it requests them.
    pub(super) at: Duration,
    pub(super) system: &'static str,
    pub(super) writes: Vec<Action>,
}
