//! The systems outside Kubernetes: the APIs and brokers that some controllers use.

use std::any::Any;

use jiff::Timestamp;
use lockstep_engine::action::{Action, Outcome};

/// The systems outside Kubernetes. They see the time only when an action or an event reaches them.
pub trait ExternalSystems: Any + Send {
    /// Executes an action that is not a request to Kubernetes.
    fn carry_out(&mut self, process: usize, action: &Action, now: Timestamp) -> Outcome;

    /// Handles the crash of a process: its connections are closed.
    fn died(&mut self, process: usize);
}

/// Returns whether an action is for a system outside Kubernetes.
pub(super) fn is_outside(action: &Action) -> bool {
    matches!(
        action,
        Action::Fetch { .. } | Action::ResolveImage { .. } | Action::Connect { .. } | Action::Publish { .. }
    )
}
