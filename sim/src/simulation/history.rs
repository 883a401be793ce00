//! What has happened in a run so far, in the form in which invariants ask for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep_core::engine::action::{Action, Failure, Request};
use lockstep_core::engine::machine::{Event, Note, ReconcileResult};
use lockstep_core::object::{Kind, ObjectRef, metadata};
use serde_json::Value;

use crate::cluster::{Author, Change, Entry, What};

/// How far back writes are remembered.
pub(crate) const MINUTE: Duration = Duration::from_mins(1);
/// Longer than any pass takes, its requests without an answer included.
const LONGEST_PASS: Duration = Duration::from_mins(5);

/// One state of an object.
#[derive(Debug, Clone)]
pub struct Version {
    /// Since when.
    pub at: Duration,
    /// Who made it.
    pub by: Author,
    /// The object; none if it was gone.
    pub object: Option<Arc<Value>>,
}

/// One key of one reconciler.
pub(super) type Key = (String, ObjectRef);

/// What a process knows and has done in its present life.
#[derive(Debug, Default)]
pub struct Life {
    /// What its watches have told, by object.
    pub told: BTreeMap<ObjectRef, Arc<Value>>,
    /// What it was told of each object before that, and until when.
    pub told_before: BTreeMap<ObjectRef, (Duration, Arc<Value>)>,
    /// What was told in lists that have begun and are not complete.
    listing: BTreeMap<Arc<Kind>, BTreeSet<ObjectRef>>,
    /// Whether it leads.
    pub leading: bool,
    /// When the server served it reads of each object, as far back as a pass may last.
    pub reads: BTreeMap<ObjectRef, VecDeque<Duration>>,
    /// Requests without an answer.
    pub open: BTreeMap<u64, Request>,
    /// When the last pass of each key ended.
    pub(super) ended: BTreeMap<Key, Duration>,
    /// Failures in a row of each key.
    pub(super) failures: BTreeMap<Key, u32>,
    /// When each key that failed is to be tried again.
    pub(super) due: BTreeMap<Key, Duration>,
    /// The longest time that the server asked to be left alone, in the last minute of answers.
    pub(super) retry_after: VecDeque<(Duration, Duration)>,
}

/// The past of a run.
#[derive(Debug, Default)]
pub struct History {
    /// All states of all objects.
    versions: BTreeMap<ObjectRef, Vec<Version>>,
    lives: BTreeMap<usize, Life>,
    /// The writes of processes in the last minute, by object.
    pub(super) writes: BTreeMap<ObjectRef, VecDeque<Duration>>,
    /// What others did in the last minute, and faults that struck.
    pub(super) stirred: VecDeque<Duration>,
    /// What the request that is being carried out has changed so far.
    pub changes_of_request: Vec<Change>,
}

impl History {
    /// The states of an object, oldest first.
    pub fn versions(&self, object: &ObjectRef) -> &[Version] {
        self.versions.get(object).map_or(&[], Vec::as_slice)
    }

    /// All states of all objects of a kind.
    pub fn objects<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Value> {
        let versions = self.versions.iter().filter(move |(object, _)| *object.kind == *kind);
        versions.flat_map(|(_, versions)| versions).filter_map(|version| version.object.as_deref())
    }

    /// What a process knows; nothing, if it is dead.
    pub fn life(&self, process: usize) -> Option<&Life> {
        self.lives.get(&process)
    }

    /// Something happened that may make processes write: a fault, an act.
    pub(super) fn stir(&mut self, at: Duration) {
        self.stirred.push_back(at);
    }

    /// Takes in what happened.
    pub(super) fn absorb(&mut self, entry: &Entry) {
        let at = entry.at;
        match &entry.what {
            What::Started { process } => {
                self.lives.insert(*process, Life::default());
                self.stir(at);
            }
            What::Died { process } => {
                self.lives.remove(process);
            }
            What::Stepped { process, event, step, .. } => {
                let Some(life) = self.lives.get_mut(process) else { return };
                life.absorb_event(event, at);
                for request in &step.requests {
                    life.open.insert(request.id.0, request.clone());
                }
                for note in &step.notes {
                    life.absorb_note(note, at);
                }
            }
            What::Carried(carried) => {
                self.changes_of_request.clear();
                if let Some(target) = carried.action.target().filter(|_| carried.action.is_write()) {
                    let writes = self.writes.entry(target.clone()).or_default();
                    writes.push_back(at);
                    forget(writes, at, MINUTE);
                }
                if let (Action::Get { target, .. }, None) = (&carried.action, carried.failed)
                    && let Some(life) = self.lives.get_mut(&carried.process)
                {
                    let reads = life.reads.entry(target.clone()).or_default();
                    reads.push_back(at);
                    forget(reads, at, LONGEST_PASS);
                }
            }
            What::Changed(change) => {
                match change.by {
                    Author::Process(_) => self.changes_of_request.push(change.clone()),
                    Author::Client(_) | Author::ControlPlane => self.stir(at),
                }
                let version = Version { at, by: change.by, object: change.new.clone() };
                self.versions.entry(change.object.clone()).or_default().push(version);
            }
        }
        forget(&mut self.stirred, at, MINUTE);
    }
}

fn forget(times: &mut VecDeque<Duration>, now: Duration, after: Duration) {
    while times.front().is_some_and(|at| *at + after < now) {
        times.pop_front();
    }
}

impl Life {
    fn absorb_event(&mut self, event: &Event, at: Duration) {
        match event {
            Event::LeadershipChanged { leading } => {
                self.leading = *leading;
                self.due.clear();
            }
            Event::ListStarted { kind } => {
                self.listing.insert(Arc::clone(kind), BTreeSet::new());
            }
            Event::ListCompleted { kind } => {
                let listed = self.listing.remove(kind).unwrap_or_default();
                self.told.retain(|object, _| object.kind != *kind || listed.contains(object));
            }
            Event::Observed { kind, object } => {
                let name = reference(kind, object);
                if let Some(listing) = self.listing.get_mut(kind) {
                    listing.insert(name.clone());
                }
                if let Some(before) = self.told.insert(name.clone(), Arc::clone(object)) {
                    self.told_before.insert(name, (at, before));
                }
            }
            Event::Vanished { kind, object } => {
                let name = reference(kind, object);
                if let Some(before) = self.told.remove(&name) {
                    self.told_before.insert(name, (at, before));
                }
            }
            Event::Finished { id, outcome } => {
                self.open.remove(&id.0);
                if let Err(Failure { retry_after: Some(wish), .. }) = outcome {
                    self.retry_after.push_back((at, *wish));
                }
            }
            Event::Started | Event::WatchFailed { .. } | Event::Woke => {}
        }
        while self.retry_after.front().is_some_and(|(told, _)| *told + 2 * MINUTE < at) {
            self.retry_after.pop_front();
        }
    }

    fn absorb_note(&mut self, note: &Note, at: Duration) {
        if let Note::Reconciled { reconciler, object, result, .. } = note {
            let key = (reconciler.clone(), object.clone());
            self.due.remove(&key);
            match result {
                ReconcileResult::Failed { retry_after, .. } => {
                    *self.failures.entry(key.clone()).or_default() += 1;
                    self.due.insert(key.clone(), at + *retry_after);
                }
                ReconcileResult::Requeued { after } => {
                    self.failures.remove(&key);
                    self.due.insert(key.clone(), at + *after);
                }
                ReconcileResult::Converged => {
                    self.failures.remove(&key);
                }
            }
            self.ended.insert(key, at);
        }
    }
}

/// The name under which a watch of a kind tells of an object.
pub fn reference(kind: &Arc<Kind>, object: &Value) -> ObjectRef {
    match metadata(object, "namespace") {
        "" => ObjectRef::cluster(kind, metadata(object, "name")),
        namespace => ObjectRef::namespaced(kind, namespace, metadata(object, "name")),
    }
}
