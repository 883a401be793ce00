//! What lies beyond Kubernetes: the APIs and brokers that some controllers act on.

use std::any::Any;

use jiff::Timestamp;
use lockstep_core::engine::action::{Action, Outcome};

/// The world beyond Kubernetes. It sees the time only when something happens to it.
pub trait ExternalSystems: Any + Send {
    /// Carries out an action that is no request to Kubernetes.
    fn carry_out(&mut self, process: usize, action: &Action, now: Timestamp) -> Outcome;

    /// A process has died, and its connections with it.
    fn died(&mut self, process: usize);
}

/// Whether an action is for the world beyond Kubernetes.
pub(super) fn is_outside(action: &Action) -> bool {
    matches!(
        action,
        Action::Fetch { .. } | Action::ResolveImage { .. } | Action::Connect { .. } | Action::Publish { .. }
    )
}
