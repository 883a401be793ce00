//! The combinations of request, view, answer and fault.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// How often each combination was reached.
pub type Reached = BTreeMap<Combination, u64>;

/// What one request met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Combination {
    /// The controller that made the request.
    pub controller: &'static str,
    /// The action, and the kind of the object that it concerns: `apply ConfigMap`.
    pub request: String,
    /// How the process saw that object when it made the request.
    pub view: View,
    /// What the process got: `ok`, a class of failure, or `-` if the process ended before the answer.
    pub answer: &'static str,
    /// The fault or the operation that occurred while the request was in flight; `-` for none. Of several, a fault of the request
    /// itself counts, or else the first one.
    pub met: &'static str,
}

/// How the watches of a process showed an object, compared with the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// The request concerns no object.
    None,
    /// As it was on the server.
    Current,
    /// In an earlier state, or although it did not exist any more.
    Behind,
    /// Not at all, although it existed: its kind is not watched, or the event had not arrived.
    Unseen,
    /// Not at all, and it did not exist.
    Absent,
}

impl View {
    /// All views of an object.
    pub const ALL: [Self; 4] = [Self::Current, Self::Behind, Self::Unseen, Self::Absent];
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "-",
            Self::Current => "current",
            Self::Behind => "behind",
            Self::Unseen => "unseen",
            Self::Absent => "absent",
        })
    }
}
