//! The journal: what happened in a cluster, in order.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, ErrorKind};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::ObjectRef;
use lockstep_engine::time::Now;
use serde_json::Value;

use super::faults::FaultVerdict;

/// One entry of the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the beginning of the run.
    pub at: Duration,
    /// What happened.
    pub what: What,
}

impl Entry {
    /// Returns the process that the entry is about, or that made the change.
    pub fn process(&self) -> Option<usize> {
        match &self.what {
            What::Started { process } | What::Died { process } | What::Stepped { process, .. } => {
                Some(*process)
            }
            What::Carried(carried) => Some(carried.process),
            What::Changed(_) => self.by_process().map(|(process, _)| process),
        }
    }

    /// Returns the change and the process, if a process made the change.
    pub fn by_process(&self) -> Option<(usize, &Change)> {
        let What::Changed(change) = &self.what else { return None };
        match change.by {
            Author::Process(process) => Some((process, change)),
            Author::Client(_) | Author::ControlPlane => None,
        }
    }
}

/// The kinds of entries.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A process started or restarted.
    Started {
        /// The process.
        process: usize,
    },
    /// A process crashed.
    Died {
        /// The process.
        process: usize,
    },
    /// A machine processed an event.
    Stepped {
        /// Its process.
        process: usize,
        /// The clocks of the process.
        now: Now,
        /// The input event.
        event: Event,
        /// The output of the machine.
        step: Step,
    },
    /// A request reached the server, or a fault prevented that.
    Carried(Carried),
    /// An object was created, changed or removed.
    Changed(Change),
}

/// One request that was executed, or would have been without a fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// The process that sent it.
    pub process: usize,
    /// Its id.
    pub id: ActionId,
    /// The requested action.
    pub action: Action,
    /// The injected fault.
    pub fate: FaultVerdict,
    /// The class of the failure that the server returned, or of the injected failure.
    pub failed: Option<ErrorKind>,
}

/// One change of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The author of the change.
    pub by: Author,
    /// The object.
    pub object: ObjectRef,
    /// The state before the change; none if the object is new.
    pub old: Option<Arc<Value>>,
    /// The state after the change; none if the object was removed.
    pub new: Option<Arc<Value>>,
}

/// The author of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// A process, by its number.
    Process(usize),
    /// A user or a foreign controller, by name.
    Client(&'static str),
    /// The control plane itself: the garbage collector or the namespace controller.
    ControlPlane,
}
