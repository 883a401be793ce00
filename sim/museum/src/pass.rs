//! One reconcile, written as a sequence of requests, as people write controllers.
//!
//! The sequence is run again from its beginning with each answer. Earlier requests then return their answers at once, and the first
//! request without an answer ends the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::action::{Action, Answer as _, Failure, KubeRequest, Outcome, Scope, Success};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::time::Now;
use serde_json::Value;

/// The state of a reconcile between two answers.
#[derive(Debug)]
pub struct Waiting {
    /// The watched objects at the beginning of the reconcile.
    pub(crate) objects: Arc<BTreeMap<ObjectRef, Arc<Value>>>,
    /// What the process remembered about the key at the beginning.
    pub(crate) memory: u64,
    /// The clocks at the beginning.
    pub(crate) now: Now,
    /// The answers so far.
    pub(crate) answers: Vec<Outcome>,
}

/// A reconcile.
#[derive(Debug)]
pub struct Pass<'a> {
    waiting: &'a Waiting,
    taken: usize,
    /// What the process remembers about the key; a crash resets it to zero.
    pub memory: u64,
}

/// Why a sequence ended before its end.
#[derive(Debug)]
pub enum Stop {
    /// It continues with the answer to this.
    Request(Box<Action>),
    /// It failed.
    Failed(Verdict),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

impl<'a> Pass<'a> {
    /// Returns the pass at its beginning, with the answers so far.
    pub(crate) fn new(waiting: &'a Waiting) -> Self {
        Self { waiting, taken: 0, memory: waiting.memory }
    }

    /// Returns the time, for status fields.
    pub fn timestamp(&self) -> String {
        self.waiting.now.wall.timestamp_seconds().to_string()
    }

    /// Returns the time with milliseconds, for status fields.
    pub fn milliseconds(&self) -> String {
        self.waiting.now.wall.timestamp().to_string()
    }

    /// Returns an object from the cache. It may be stale.
    pub fn cached(&self, target: &ObjectRef) -> Option<Arc<Value>> {
        self.waiting.objects.get(target).cloned()
    }

    /// Returns all objects of a kind from the cache. They may be stale.
    pub fn all_cached(&self, kind: &Kind) -> Vec<Arc<Value>> {
        let objects = self.waiting.objects.iter().filter(|(name, _)| *name.kind == *kind);
        objects.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Executes an action and returns its outcome.
    pub fn send(&mut self, action: Action) -> Result<Outcome, Stop> {
        let outcome = self.waiting.answers.get(self.taken).cloned();
        self.taken += 1;
        outcome.ok_or_else(|| Stop::Request(Box::new(action)))
    }

    /// Reads an object from the server.
    pub fn get(&mut self, target: &ObjectRef) -> Result<Option<Arc<Value>>, Stop> {
        let read = Action::Kube(KubeRequest::Get { target: target.clone(), metadata_only: false });
        Ok(self.send(read)?.found()?)
    }

    /// Reads the objects of a kind from the server.
    pub fn list(&mut self, kind: &Arc<Kind>, selector: String) -> Result<Vec<Arc<Value>>, Stop> {
        let scope = Scope { selector, ..Scope::default() };
        Ok(objects(self.send(Action::Kube(KubeRequest::List { kind: Arc::clone(kind), scope }))?)?)
    }

    /// Executes a write. Whether it had an effect is known only if it succeeds.
    pub fn write(&mut self, action: Action) -> Result<(), Stop> {
        self.send(action)?.map(|_| ()).map_err(Stop::from)
    }
}

/// Returns the objects of a list.
pub fn objects(outcome: Outcome) -> Result<Vec<Arc<Value>>, Failure> {
    match outcome? {
        Success::Objects(objects) => Ok(objects),
        other => unreachable!("a list was answered with {other:?}"),
    }
}
