//! The timeline of a run: who did what when, as data, as text and as a page.
//!
//! ```text
//!   plan, run ─▶ Timeline ─┬▶ text()  for terminals and logs
//!                          └▶ html()  one self-contained page
//! ```

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::plan::Plan;
use super::run::{Run, Violation};

mod build;
mod conditions;
mod page;
mod text;
mod words;

#[cfg(test)]
mod tests;

/// The timeline of a run. All times are milliseconds of simulated time since the beginning of the run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Timeline {
    /// The plan of the run.
    pub plan: Plan,
    /// What each fault of the plan is, in words.
    pub faults: Vec<String>,
    /// The command that brings about the run again, if there is one.
    pub replay: Option<String>,
    /// What did not hold, if something did not.
    pub violation: Option<Violation>,
    /// When the run ended.
    pub end: u64,
    /// Who takes part, from the top of the page to its bottom.
    pub lanes: Vec<Lane>,
    /// What happened, in order.
    pub items: Vec<Item>,
    /// The objects that items show, each once.
    pub objects: Vec<Arc<Value>>,
    /// The conditions of all objects, by object and type, in the order of time.
    pub conditions: Vec<Condition>,
}

/// Somebody who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// What the plan brings about.
    Faults,
    /// Users and foreign controllers, by what they are.
    Actor(&'static str),
    /// The garbage collector and the namespace controller.
    ControlPlane,
    /// The API server: the requests of processes, and what they change.
    Server,
    /// A process of the controller, by its number.
    Process(usize),
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// When.
    pub at: u64,
    /// Until when it lasts, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Whose it is: a place in the lanes.
    pub lane: usize,
    /// What it is.
    pub kind: Kind,
    /// What happened, in one line.
    pub text: String,
    /// The object that it shows: a place in the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<usize>,
    /// The state of that object that was known there before: a place in the objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<usize>,
    /// The earlier item that it comes from: the sent request of one that arrives, the change that a watch shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<usize>,
    /// What it is called where it is one of many of which nothing follows; such are folded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routine: Option<String>,
}

/// The kinds of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A process takes in what a watch has seen, or wakes up.
    Event,
    /// A process sends a request, or one reaches the server.
    Request,
    /// A process takes in how a request ended.
    Answer,
    /// An object comes, changes or goes.
    Change,
    /// A fault strikes.
    Fault,
    /// Somebody is about to act, as planned.
    Operation,
    /// A process tells something.
    Note,
    /// A process begins or dies.
    ProcessState,
    /// Something does not hold.
    Violation,
}

/// The status of a condition over a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Whose condition.
    pub object: String,
    /// Its type, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Such as `ResourcesApplied`.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Since when.
    pub from: u64,
    /// Until when.
    pub to: u64,
}

impl Timeline {
    /// The timeline of a run of a plan; of a run without a journal it tells only the strikes and the violation.
    pub fn of(plan: &Plan, run: &Run) -> Self {
        build::timeline(plan, run)
    }

    /// The same with the command that brings about the run again.
    #[must_use]
    pub fn with_replay(self, command: impl Into<String>) -> Self {
        Self { replay: Some(command.into()), ..self }
    }

    /// The timeline for terminals and logs: a header, and a line for each item; runs of routine are folded into one.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// The timeline as one page that needs nothing but itself.
    pub fn html(&self) -> String {
        page::html(self)
    }
}

impl Lane {
    /// What it is called.
    pub fn title(self) -> String {
        match self {
            Self::Faults => "faults".to_owned(),
            Self::Actor(name) => name.to_owned(),
            Self::ControlPlane => "control plane".to_owned(),
            Self::Server => "API server".to_owned(),
            Self::Process(process) => format!("process {process}"),
        }
    }
}

impl Serialize for Lane {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.title())
    }
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Request => "request",
            Self::Answer => "answer",
            Self::Change => "change",
            Self::Fault => "fault",
            Self::Operation => "act",
            Self::Note => "note",
            Self::ProcessState => "life",
            Self::Violation => "violation",
        }
    }
}
