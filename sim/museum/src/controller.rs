//! What a controller of the museum provides.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use lockstep_engine::machine::Event;
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::scheduler::Verdict;
use serde_json::Value;

use crate::pass::{Pass, Stop};

/// The watched objects, as the watches have delivered them last.
pub type Objects = BTreeMap<ObjectRef, Arc<Value>>;

/// A controller. It reconciles keys, each by one sequence of requests.
pub trait Controller: Copy + Debug + Send + Sync + 'static {
    /// Its name.
    const NAME: &'static str;

    /// Returns the kinds that it watches.
    fn watches(&self) -> Vec<Arc<Kind>>;

    /// Returns the keys that an object enqueues.
    fn keys(&self, seen: &Seen<'_>) -> Vec<Name>;

    /// Reconciles a key. It is called again from the beginning with each answer, and must request the same each time.
    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop>;

    /// Returns whether it ignores an event of a watch.
    fn ignores(&self, event: &Event, watch: Watch) -> bool {
        let _ = (event, watch);
        false
    }

    /// Returns whether it ignores the events of a key as long as one of its writes for that key has no answer.
    fn ignores_while_writing(&self) -> bool {
        false
    }

    /// Returns how many times in a row it reconciles a key that fails.
    fn attempts(&self) -> u64 {
        u64::MAX
    }
}

/// What a process has seen of a watch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    /// How many times it has begun to list.
    pub lists: u32,
    /// How many times it could not list or watch.
    pub failures: u32,
}

/// Why an object enqueues keys.
#[derive(Debug, Clone, Copy)]
pub enum Cause<'a> {
    /// It exists.
    Exists,
    /// It has changed; this is its previous state.
    Changed(&'a Value),
    /// It was deleted.
    Deleted,
}

/// An object that a watch has delivered.
pub struct Seen<'a> {
    /// Its kind.
    pub kind: &'a Kind,
    /// The object, or its last state.
    pub object: &'a Value,
    /// Why it enqueues keys.
    pub cause: Cause<'a>,
    /// All watched objects.
    pub objects: &'a Objects,
}

impl Seen<'_> {
    /// Returns the watched objects of a kind.
    pub fn others<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Arc<Value>> {
        self.objects.iter().filter(move |(name, _)| *name.kind == *kind).map(|(_, object)| object)
    }
}
