//! A bug with its source.

use std::fmt;

use lockstep_sim::SystemUnderTest;

/// A published bug, and the controller in which it is planted again.
pub struct Exhibit {
    /// The name of the bug.
    pub bug: &'static str,
    /// The project that had it, as `owner/repository`.
    pub project: &'static str,
    /// The number of the issue or pull request that describes it.
    pub issue: u32,
    /// Its class.
    pub class: Class,
    /// What happened, and why.
    pub story: &'static str,
    /// The small controller with this bug.
    pub subject: &'static dyn SystemUnderTest,
}

impl Exhibit {
    /// Returns the project and the issue, as hosts of repositories write it.
    pub fn source(&self) -> String {
        format!("{}#{}", self.project, self.issue)
    }
}

/// The classes of bugs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Objects remain, or are never deleted.
    Cleanup,
    /// A crash between two writes leaves a state from which the controller does not recover.
    CrashBetweenWrites,
    /// A watch no longer delivers events.
    DeadWatch,
    /// A failed read is taken for an answer.
    FailedRead,
    /// Only the first page of a list is read.
    FirstPage,
    /// The controller's own writes trigger it again without end.
    HotLoop,
    /// A state that existed only for a short time was never observed.
    MissedState,
    /// Two objects have one name.
    Names,
    /// An object has the wrong owner, or another owner than assumed.
    Ownership,
    /// A stale cache is taken for the current state.
    StaleRead,
    /// The status describes another state or generation than it claims.
    Status,
    /// An event is lost, or its key is blocked.
    SwallowedEvent,
    /// Two clients write the same fields.
    TwoWriters,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cleanup => "cleanup",
            Self::CrashBetweenWrites => "crash between writes",
            Self::DeadWatch => "dead watch",
            Self::FailedRead => "failed read",
            Self::FirstPage => "first page",
            Self::HotLoop => "hot loop",
            Self::MissedState => "missed state",
            Self::Names => "names",
            Self::Ownership => "ownership",
            Self::StaleRead => "stale read",
            Self::Status => "status",
            Self::SwallowedEvent => "swallowed event",
            Self::TwoWriters => "two writers",
        })
    }
}
