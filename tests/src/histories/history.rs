//! What was recorded: the calls of clients with their answers, and the events of watches.

use std::collections::{BTreeMap, BTreeSet};

/// The name of the object that is created after all other requests, so that a watch knows when it is complete.
pub const LAST: &str = "last";

/// The data of a ConfigMap.
pub type Data = BTreeMap<String, String>;

/// An object as an answer or an event contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub version: u64,
    /// Its data.
    pub data: Data,
}

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Creates an object.
    Create {
        /// The name of the object.
        name: String,
        /// Its data.
        data: Data,
    },
    /// Replaces an object.
    Update {
        /// The name of the object.
        name: String,
        /// Its new data.
        data: Data,
        /// The resource version that the object must have; any if it is `None`.
        version: Option<u64>,
    },
    /// Sets one entry of the data with a merge patch.
    Patch {
        /// The name of the object.
        name: String,
        /// The key of the entry.
        key: String,
        /// Its new value.
        value: String,
    },
    /// Deletes an object.
    Delete {
        /// The name of the object.
        name: String,
        /// The uid that the object must have; any if it is `None`.
        uid: Option<String>,
        /// The resource version that the object must have; any if it is `None`.
        version: Option<u64>,
    },
    /// Reads an object.
    Get {
        /// The name of the object.
        name: String,
    },
    /// Reads all objects.
    List,
}

impl Request {
    /// Returns the name of its object; `None` if it is about all objects.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Create { name, .. }
            | Self::Update { name, .. }
            | Self::Patch { name, .. }
            | Self::Delete { name, .. }
            | Self::Get { name } => Some(name),
            Self::List => None,
        }
    }

    /// Returns whether it may change an object.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::List)
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The object, after a write or a read.
    Object(Stored),
    /// The object with this uid was deleted.
    Deleted {
        /// The uid in the answer.
        uid: String,
    },
    /// All objects at a revision.
    List {
        /// The resource version of the list.
        revision: u64,
        /// The objects by name.
        items: BTreeMap<String, Stored>,
    },
    /// An object of that name exists (409).
    AlreadyExists,
    /// The object has another uid or resource version (409).
    Conflict,
    /// There is no object of that name (404).
    NotFound,
}

/// A request with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The number of the client. The calls of a client do not overlap.
    pub client: usize,
    /// The request.
    pub request: Request,
    /// The moment before it was sent. Moments are numbers of one counter.
    pub invoked: u64,
    /// The moment after its answer arrived, and the answer; `None` if the answer was lost. Such a request may take effect at any
    /// later moment, or never.
    pub completed: Option<(u64, Answer)>,
}

impl Call {
    /// Returns the answer; `None` if it was lost.
    pub fn answer(&self) -> Option<&Answer> {
        self.completed.as_ref().map(|(_, answer)| answer)
    }
}

/// The start of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// After this revision.
    After(u64),
    /// With the current state (`sendInitialEvents=true`), which ends with a bookmark.
    Initial,
}

/// An event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// `ADDED`.
    Added(String, Stored),
    /// `MODIFIED`.
    Modified(String, Stored),
    /// `DELETED`: the last state, with the revision of the deletion as its version.
    Deleted(String, Stored),
    /// `BOOKMARK`.
    Bookmark {
        /// Its resource version.
        version: u64,
        /// Whether it marks the end of the initial state.
        ends_initial: bool,
    },
}

impl WatchEvent {
    /// Returns the name and the state of its object; `None` for a bookmark.
    pub fn object(&self) -> Option<(&str, &Stored)> {
        match self {
            Self::Added(name, stored) | Self::Modified(name, stored) | Self::Deleted(name, stored) => {
                Some((name, stored))
            }
            Self::Bookmark { .. } => None,
        }
    }
}

/// A watch with its events. A client may have ended and resumed it several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// What distinguishes it from the other watches of the history.
    pub label: String,
    /// Its start.
    pub start: Start,
    /// The moment before it was opened.
    pub invoked: u64,
    /// The names that its label selector selects; all if it is `None`.
    pub names: Option<BTreeSet<String>>,
    /// Its events in the order of their arrival, up to the one of [`LAST`].
    pub events: Vec<WatchEvent>,
}

impl Watch {
    /// Returns whether it selects an object.
    pub fn selects(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }
}

/// A recorded history. No object exists at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The revision of a list before the first call.
    pub start: u64,
    /// The calls of all clients, in the order of their invocation.
    pub calls: Vec<Call>,
    /// The watches.
    pub watches: Vec<Watch>,
}

impl History {
    /// Returns the version of [`LAST`], up to which all watches are complete; `None` if it was not created.
    pub fn end(&self) -> Option<u64> {
        self.calls.iter().find_map(|call| match (&call.request, call.answer()) {
            (Request::Create { name, .. }, Some(Answer::Object(stored))) if name == LAST => {
                Some(stored.version)
            }
            _ => None,
        })
    }
}
