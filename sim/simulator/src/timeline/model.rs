//! The timeline as data.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::plan::Plan;
use crate::run::Violation;

/// The timeline of a run. All times are milliseconds of simulated time since the beginning of the run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The plan of the run.
    pub plan: Plan,
    /// A description of each fault of the plan.
    pub faults: Vec<String>,
    /// The command that reproduces the run, if there is one.
    pub replay: Option<String>,
    /// The violated invariant, if any.
    pub violation: Option<Violation>,
    /// What is compared, if the timeline shows a recorded run and its counterfactual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Compared>,
    /// The end of the run.
    pub end: u64,
    /// The participants, from the top of the page to its bottom.
    pub lanes: Vec<Lane>,
    /// The events, in order.
    pub items: Vec<Item>,
    /// The objects that items show, each once.
    pub objects: Vec<Arc<Value>>,
    /// The conditions of all objects, by object and type, in the order of time.
    pub conditions: Vec<Condition>,
}

/// The heading of a timeline of two runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The controller and the edit.
    pub title: String,
    /// How much differs.
    pub summary: String,
}

/// A participant of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// The faults of the plan.
    Faults,
    /// A user or a foreign controller, by name.
    Actor(&'static str),
    /// The garbage collector and the namespace controller.
    ControlPlane,
    /// The API server: the requests of processes, and the changes that they make.
    Server,
    /// A process of the controller, by its number.
    Process(usize),
    /// A process of one of several controllers.
    ProcessOf(usize, &'static str),
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// Its time.
    pub at: u64,
    /// Its end, if it has a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Its participant: an index into the lanes.
    pub lane: usize,
    /// Its kind.
    pub kind: Kind,
    /// A description in one line.
    pub text: String,
    /// The object that it shows: an index into the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<usize>,
    /// The state of that object that the participant knew before: an index into the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The earlier item that caused it: the sent request for one that arrives, the change for a watch event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<usize>,
    /// Its label as a routine item, which has no consequences and is folded with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routine: Option<String>,
}

/// The kinds of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process handles a watch event or a timer.
    Event,
    /// A process sends a request, or one reaches the server.
    Request,
    /// A process handles the outcome of a request.
    Answer,
    /// An object is created, changed or removed.
    Change,
    /// A fault is injected.
    Fault,
    /// A user or a foreign controller starts a planned operation.
    #[serde(rename = "act")]
    Operation,
    /// A process emits a note.
    Note,
    /// A process starts or crashes.
    #[serde(rename = "process")]
    ProcessState,
    /// An invariant is violated.
    Violation,
}

/// The status of a condition over a period.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The object that has the condition.
    pub object: String,
    /// Its type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason, such as `ResourcesApplied`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// Start of the period.
    pub from: u64,
    /// End of the period.
    pub to: u64,
}

impl Lane {
    /// Returns the title.
    pub fn title(self) -> String {
        match self {
            Self::Faults => "faults".to_owned(),
            Self::Actor(name) => name.to_owned(),
            Self::ControlPlane => "control plane".to_owned(),
            Self::Server => "API server".to_owned(),
            Self::Process(process) => format!("process {process}"),
            Self::ProcessOf(process, controller) => format!("{controller}, process {process}"),
        }
    }
}

impl Serialize for Lane {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.title())
    }
}

impl Kind {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Request => "request",
            Self::Answer => "answer",
            Self::Change => "change",
            Self::Fault => "fault",
            Self::Operation => "act",
            Self::Note => "note",
            Self::ProcessState => "process",
            Self::Violation => "violation",
        }
    }
}
