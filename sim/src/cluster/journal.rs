//! What happened in a cluster, in order.

use std::sync::Arc;
use std::time::Duration;

use lockstep_core::engine::action::{Action, ActionId, Class};
use lockstep_core::engine::machine::{Event, Step};
use lockstep_core::object::ObjectRef;
use lockstep_core::time::Now;
use serde_json::Value;

use super::FaultVerdict;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// When, since the beginning.
    pub at: Duration,
    /// What.
    pub what: What,
}

/// The things that happen.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A process began, or began anew.
    Started {
        /// Which.
        process: usize,
    },
    /// A process died.
    Died {
        /// Which.
        process: usize,
    },
    /// A machine took an event in.
    Stepped {
        /// Its process.
        process: usize,
        /// The clocks of the process.
        now: Now,
        /// What went in.
        event: Event,
        /// What came out.
        step: Step,
    },
    /// A request reached the server, or was kept from it.
    Carried(Carried),
    /// An object came, changed or went.
    Changed(Change),
}

/// One request that was carried out, or would have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// Whose.
    pub process: usize,
    /// Its id.
    pub id: ActionId,
    /// What was asked for.
    pub action: Action,
    /// What became of it.
    pub fate: FaultVerdict,
    /// The class of the failure that the server answered, or that stood in for its answer.
    pub failed: Option<Class>,
}

/// One change of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Who made it.
    pub by: Author,
    /// The object.
    pub object: ObjectRef,
    /// Its state before; none if it is new.
    pub old: Option<Arc<Value>>,
    /// Its state after; none if it is gone.
    pub new: Option<Arc<Value>>,
}

/// Who changes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// A process, by its number.
    Process(usize),
    /// People and foreign controllers, by what they are.
    Client(&'static str),
    /// The control plane itself: its garbage collector, its namespace controller.
    ControlPlane,
}
