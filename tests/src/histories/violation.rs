//! What a check has found.

use std::fmt;

/// The checks of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// There is an order of the calls about an object, compatible with the order of their invocations and answers, in which each
    /// answer is right.
    Linearizability,
    /// A resource version names one state of one object, a uid is not used again, and versions grow with the order of calls.
    Versions,
    /// A list is the state at its revision, which is not older than the list.
    Lists,
    /// The initial state of a watch is the state at the bookmark that ends it, which is not older than the watch.
    InitialState,
    /// The events of a watch are explained by writes, and agree with their answers.
    WatchContent,
    /// The events of a watch are in the order of their versions.
    WatchOrder,
    /// A watch reports no change twice.
    WatchDuplicates,
    /// A watch reports every change after its start.
    WatchCompleteness,
    /// Bookmarks do not go back.
    Bookmarks,
}

/// A violation of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The check.
    pub check: Check,
    /// What is wrong.
    pub what: String,
}

impl Violation {
    pub(super) fn new(check: Check, what: String) -> Self {
        Self { check, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.what)
    }
}
