//! The transitions of a small world.

use std::sync::Arc;

use lockstep_engine::action::ActionId;
use lockstep_engine::object::Kind;

use crate::cluster::FaultVerdict;

/// The parts of a world that a fault may concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    /// Any.
    Anywhere,
    /// Only requests of this part.
    Part(&'static str),
    /// Faults that concern several parts, such as a crash.
    Whole,
}

impl Place {
    /// Returns whether a fault of this part, or of several parts, is permitted.
    pub(super) fn permits(self, part: Option<&'static str>) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Part(own) => part == Some(own),
            Self::Whole => part.is_none(),
        }
    }
}

/// One transition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Transition {
    /// A user executes its next operation.
    Operate { user: usize },
    /// A request reaches the server, or a fault prevents that.
    Execute { process: usize, id: ActionId, verdict: FaultVerdict },
    /// An answer reaches its process.
    Answer { process: usize, id: ActionId },
    /// The next event of a watch reaches its process.
    Deliver { process: usize, kind: Arc<Kind> },
    /// A watch breaks off, and lists again from a server that is `lag` changes behind.
    Relist { process: usize, kind: Arc<Kind>, lag: u64 },
    /// A crashed process restarts.
    Restart { process: usize },
    /// A process starts and leads. The previous leader stops leading just before, or does not notice.
    Lead { previous_notices: bool },
    /// The earlier of two leaders stops leading.
    StepDown { process: usize },
    /// Nothing is in transit, and the time advances to the next deadline.
    Advance,
}

impl Transition {
    /// Returns whether it delivers a message that is in transit.
    pub(super) fn is_message(&self) -> bool {
        match self {
            Self::Execute { verdict, .. } => *verdict == FaultVerdict::Served,
            Self::Answer { .. } | Self::Deliver { .. } => true,
            Self::Operate { .. }
            | Self::Relist { .. }
            | Self::Restart { .. }
            | Self::Lead { .. }
            | Self::StepDown { .. }
            | Self::Advance => false,
        }
    }
}
