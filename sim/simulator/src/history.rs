//! The history of a run so far, in the form that invariants query.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::{
    Action, ErrorKind, Failure, KubeRequest, Outcome, Request, ResolveImage, Subresource, Success,
};
use lockstep_engine::machine::{Event, Note, ReconcileResult};
use lockstep_engine::object::{Kind, ObjectRef, generation, is_deleting, metadata};
use lockstep_engine::recorder::ATTEMPTS;
use serde_json::Value;

use self::announced::Announcements;
use crate::cluster::{Author, Change, Entry, What};

mod announced;

/// How long writes are kept.
pub const MINUTE: Duration = Duration::from_mins(1);
/// Upper bound on the duration of a pass, including requests without an answer.
const LONGEST_PASS: Duration = Duration::from_mins(5);

/// One state of an object.
#[derive(Debug, Clone)]
pub struct Version {
    /// Start of this state.
    pub at: Duration,
    /// The author of the change.
    pub by: Author,
    /// The object; none if it was removed.
    pub object: Option<Arc<Value>>,
}

/// One key of one reconciler.
pub(super) type Key = (String, ObjectRef);

/// What a process has observed and done since its last start.
#[derive(Debug, Clone, Default)]
pub struct ProcessState {
    /// The objects that its watches have delivered.
    pub observed: BTreeMap<ObjectRef, Arc<Value>>,
    /// The previously delivered state of each object, and the time until which it was current.
    pub previous: BTreeMap<ObjectRef, (Duration, Arc<Value>)>,
    /// The delivered states that were replaced in the last minute before the latest one of the object, and the time of each
    /// replacement. A pass may have begun with any of them.
    pub replaced: BTreeMap<ObjectRef, VecDeque<(Duration, Arc<Value>)>>,
    /// The generation of each delivered object, and the time at which it was first delivered.
    pub generations: BTreeMap<ObjectRef, (i64, Duration)>,
    /// The kinds that it may not watch, or that are not served, and the time at which it observed that.
    pub refused: BTreeMap<Arc<Kind>, Duration>,
    /// When it last received a complete list of each kind.
    pub listed: BTreeMap<Arc<Kind>, Duration>,
    /// The objects in lists that have started and are not complete.
    listing: BTreeMap<Arc<Kind>, BTreeSet<ObjectRef>>,
    /// Whether it leads.
    pub leading: bool,
    /// The times at which the server answered its reads of each object, for the maximum duration of a pass.
    pub reads: BTreeMap<ObjectRef, VecDeque<Duration>>,
    /// What it has written to each object in the last minute, apart from statuses.
    pub(super) written: BTreeMap<ObjectRef, VecDeque<(Duration, Arc<Value>)>>,
    /// Requests without an answer.
    pub open: BTreeMap<u64, Request>,
    /// When the last pass of each key ended.
    pub ended: BTreeMap<Key, Duration>,
    /// Consecutive failures of each key.
    pub(super) failures: BTreeMap<Key, u32>,
    /// When each failed key is due for a retry.
    pub(super) due: BTreeMap<Key, Duration>,
    /// The longest `Retry-After` that the server requested, over the answers of the last minute.
    pub(super) retry_after: VecDeque<(Duration, Duration)>,
    /// How often it announced each Event.
    announced: BTreeMap<Announcement, u64>,
    /// The Events that it wrote.
    events: BTreeMap<ObjectRef, WrittenEvent>,
    /// The changes of conditions that it wrote and logged.
    conditions: Announcements,
}

/// A Kubernetes Event: the uid of its object, the reason and the note.
type Announcement = (String, String, String);

/// An Event that a process wrote.
#[derive(Debug, Clone)]
struct WrittenEvent {
    announcement: Announcement,
    /// Consecutive writes that failed.
    failures: u32,
    /// Whether the last answer was a permanent refusal.
    refused: bool,
}

impl WrittenEvent {
    fn created(manifest: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let announcement =
            (text(&manifest["regarding"]["uid"]), text(&manifest["reason"]), text(&manifest["note"]));
        Self { announcement, failures: 0, refused: false }
    }

    fn answered(&mut self, outcome: &Outcome) {
        self.failures = if outcome.is_ok() { 0 } else { self.failures + 1 };
        self.refused = outcome.as_ref().is_err_and(|failure| {
            matches!(
                failure.class,
                ErrorKind::AlreadyExists
                    | ErrorKind::Conflict
                    | ErrorKind::Forbidden
                    | ErrorKind::Invalid
                    | ErrorKind::NotFound
                    | ErrorKind::KindNotServed
            )
        });
    }

    /// Returns whether its count may be lower than announced.
    fn is_excused(&self) -> bool {
        self.refused || self.failures >= ATTEMPTS
    }
}

/// The history of a run.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// All states of all objects. Copies of the history share them until they differ, and the states of processes as well.
    versions: Arc<BTreeMap<ObjectRef, Vec<Version>>>,
    processes: BTreeMap<usize, Arc<ProcessState>>,
    /// When each process ended last, and its state then.
    ended: BTreeMap<usize, (Duration, Arc<ProcessState>)>,
    /// The controller of each process, including crashed ones.
    controllers: BTreeMap<usize, &'static str>,
    /// The writes of processes in the last minute, by object.
    pub(super) writes: BTreeMap<ObjectRef, VecDeque<Duration>>,
    /// The operations and injected faults of the last minute.
    pub(super) disturbances: VecDeque<Duration>,
    /// The last write of a process while another one of its controller led as well.
    pub(super) two_led: Option<Duration>,
    /// The images that a registry was reported to have.
    pub images: BTreeSet<String>,
    /// The changes so far of the request that is being executed.
    pub changes_of_request: Vec<Change>,
}

impl History {
    /// Returns the states of an object, oldest first.
    pub fn versions(&self, object: &ObjectRef) -> &[Version] {
        self.versions.get(object).map_or(&[], Vec::as_slice)
    }

    /// Returns the state that an object had at a time, and those that it has had since. The first one is later than that time if
    /// the object has no older state: it did not exist, or it existed before the run.
    pub fn versions_since(&self, object: &ObjectRef, at: Duration) -> &[Version] {
        let versions = self.versions(object);
        &versions[versions.iter().rposition(|version| version.at <= at).unwrap_or(0)..]
    }

    /// Returns all states of all objects of a kind.
    pub fn objects<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Value> {
        let versions = self.versions.iter().filter(move |(object, _)| *object.kind == *kind);
        versions.flat_map(|(_, versions)| versions).filter_map(|version| version.object.as_deref())
    }

    /// Returns the state of a process; none if it is not running.
    pub fn process(&self, process: usize) -> Option<&ProcessState> {
        self.processes.get(&process).map(Arc::as_ref)
    }

    /// Returns the states in which a process may have sent a request that is executed now: its state, and if it ended in the last
    /// minute, the state that it had then.
    pub fn states_of_sender(&self, process: usize, now: Duration) -> impl Iterator<Item = &ProcessState> {
        let ended = self.ended.get(&process).filter(|(at, _)| *at + MINUTE > now).map(|(_, state)| state);
        self.processes.get(&process).into_iter().chain(ended).map(Arc::as_ref)
    }

    /// Returns the controller that a process runs, or has run.
    pub fn controller(&self, process: usize) -> Option<&'static str> {
        self.controllers.get(&process).copied()
    }

    /// Returns the controller of each process.
    pub(super) fn controllers(&self) -> &BTreeMap<usize, &'static str> {
        &self.controllers
    }

    /// Sets the controller of a process that will start.
    pub(super) fn assign(&mut self, process: usize, controller: &'static str) {
        self.controllers.insert(process, controller);
    }

    /// Returns the Events of leading processes with a count on the server below the number of announcements. An Event may be lost
    /// if its process crashes or loses leadership before writing it, if the server refuses it, or if its namespace is deleted.
    pub(super) fn uncounted(&self, server: &ApiServer) -> Vec<String> {
        let stored = Kind::known("", "v1", "Event", "events", true);
        let mut uncounted = Vec::new();
        for state in self.processes.values().filter(|state| state.leading) {
            for (announcement, announced) in &state.announced {
                let written = state.events.iter().filter(|(_, event)| event.announcement == *announcement);
                let (mut counted, mut is_excused) = (0, false);
                for (event, written) in written {
                    let namespace = event.namespace.as_deref().unwrap_or_default();
                    let event = server.object(&ObjectRef::namespaced(&stored, namespace, &event.name));
                    counted += event.map_or(0, |event| event["series"]["count"].as_u64().unwrap_or(1));
                    is_excused |= written.is_excused() || self.was_deleted(namespace);
                }
                if counted > *announced || (counted < *announced && !is_excused) {
                    let (uid, reason, note) = announcement;
                    uncounted.push(format!(
                        "{reason} about {uid} was announced {announced} times and counted {counted} times: {note}"
                    ));
                }
            }
        }
        uncounted
    }

    /// Returns the conditions that a leading process of a controller has changed and not logged, or logged and not changed. It can't
    /// log a change if it ends or loses leadership before the answer to its write, or if another client changes the condition by then.
    pub(super) fn unlogged(&self, server: &ApiServer, controller: &str) -> Vec<String> {
        let uid = |object: &ObjectRef| server.object(object).map(|object| metadata(object, "uid").to_owned());
        let is_of_it = |process: &usize| self.controllers.get(process) == Some(&controller);
        let leading = self.processes.iter().filter(|(process, state)| is_of_it(process) && state.leading);
        leading.flat_map(|(_, state)| state.conditions.differences(uid)).collect()
    }

    /// Returns whether a process will try a key again. That may be later than the next resync.
    pub(super) fn is_retrying(&self) -> bool {
        self.processes.values().any(|state| !state.due.is_empty())
    }

    /// Returns whether a namespace of that name was ever marked for deletion.
    fn was_deleted(&self, namespace: &str) -> bool {
        let namespace =
            ObjectRef::cluster(&Kind::known("", "v1", "Namespace", "namespaces", false), namespace);
        let mut versions = self.versions(&namespace).iter();
        versions.any(|version| version.object.as_deref().is_none_or(is_deleting))
    }

    /// Records a fault or an operation, which may cause writes by processes.
    pub(super) fn disturb(&mut self, at: Duration) {
        self.disturbances.push_back(at);
    }

    /// Returns whether a process leads, and another one of its controller does.
    fn is_led_twice(&self, process: usize) -> bool {
        let leads = |process: &usize| self.processes.get(process).is_some_and(|state| state.leading);
        let is_peer = |other: &&usize| self.controllers.get(other) == self.controllers.get(&process);
        leads(&process) && self.processes.keys().filter(|other| leads(other)).filter(is_peer).nth(1).is_some()
    }

    /// Adds a journal entry.
    pub(super) fn absorb(&mut self, entry: &Entry) {
        let at = entry.at;
        match &entry.what {
            What::Started { process } => {
                self.processes.insert(*process, Arc::default());
                self.disturb(at);
            }
            What::Died { process } => {
                if let Some(state) = self.processes.remove(process) {
                    self.ended.insert(*process, (at, state));
                }
            }
            What::Stepped { process, event, step, .. } => {
                let Some(state) = self.processes.get_mut(process).map(Arc::make_mut) else { return };
                if let Event::Finished { id, outcome: Ok(Success::Image(_)) } = event
                    && let Some(Request { action: Action::Registry(ResolveImage { image, .. }), .. }) =
                        state.open.get(&id.0)
                {
                    self.images.insert(image.clone());
                }
                state.absorb_event(event, at);
                for request in &step.requests {
                    if let Action::Kube(KubeRequest::Create { target, manifest }) = &request.action
                        && target.kind.kind == "Event"
                    {
                        state.events.entry(target.clone()).or_insert_with(|| WrittenEvent::created(manifest));
                    }
                    state.open.insert(request.id.0, request.clone());
                }
                for note in &step.notes {
                    state.absorb_note(note, at);
                }
            }
            What::Carried(carried) => {
                self.changes_of_request.clear();
                if let Some(target) = carried.action.target().filter(|_| carried.action.is_write()) {
                    if self.is_led_twice(carried.process) {
                        self.two_led = Some(at);
                    }
                    let writes = self.writes.entry(target.clone()).or_default();
                    writes.push_back(at);
                    forget(writes, at, MINUTE);
                }
                if let Some((target, content)) = content(&carried.action).filter(|_| carried.failed.is_none())
                    && let Some(state) = self.processes.get_mut(&carried.process)
                {
                    let written = Arc::make_mut(state).written.entry(target.clone()).or_default();
                    written.push_back((at, Arc::clone(content)));
                    written.retain(|(written, _)| *written + MINUTE >= at);
                }
                if let Action::Kube(KubeRequest::Patch {
                    target,
                    patch,
                    subresource: Some(Subresource::Status),
                }) = &carried.action
                    && carried.failed == Some(ErrorKind::Unknown)
                    && let Some(shown) =
                        self.versions(target).last().and_then(|version| version.object.clone())
                    && let Some(state) = self.processes.get_mut(&carried.process).map(Arc::make_mut)
                {
                    state.conditions.unanswered(target, &shown, patch);
                }
                if let (
                    Action::Kube(KubeRequest::Get { target, .. } | KubeRequest::GetLengths { target }),
                    None,
                ) = (&carried.action, carried.failed)
                    && let Some(state) = self.processes.get_mut(&carried.process).map(Arc::make_mut)
                {
                    let reads = state.reads.entry(target.clone()).or_default();
                    reads.push_back(at);
                    forget(reads, at, LONGEST_PASS);
                }
            }
            What::Changed(change) => {
                match change.by {
                    Author::Process(_) => self.changes_of_request.push(change.clone()),
                    Author::Client(_) | Author::ControlPlane => self.disturb(at),
                }
                if announced::changes_conditions(change) {
                    for (process, state) in &mut self.processes {
                        Arc::make_mut(state)
                            .conditions
                            .absorb(change, change.by == Author::Process(*process));
                    }
                }
                let version = Version { at, by: change.by, object: change.new.clone() };
                let versions = Arc::make_mut(&mut self.versions);
                versions.entry(change.object.clone()).or_default().push(version);
            }
        }
        forget(&mut self.disturbances, at, MINUTE);
    }
}

fn forget(times: &mut VecDeque<Duration>, now: Duration, after: Duration) {
    while times.front().is_some_and(|at| *at + after < now) {
        times.pop_front();
    }
}

impl ProcessState {
    /// Returns whether an event that is not yet added shows that an object was removed.
    pub fn loses(&self, object: &ObjectRef, event: &Event) -> bool {
        match event {
            Event::ListCompleted { kind } => {
                object.kind == *kind && self.listing.get(kind).is_none_or(|listed| !listed.contains(object))
            }
            Event::Deleted { kind, object: gone } => reference(kind, gone) == *object,
            _ => false,
        }
    }

    /// Returns whether the last pass over a key has failed.
    pub fn is_failing(&self, reconciler: &str, object: &ObjectRef) -> bool {
        self.failures.contains_key(&(reconciler.to_owned(), object.clone()))
    }

    fn absorb_event(&mut self, event: &Event, at: Duration) {
        match event {
            Event::LeadershipChanged { leading } => {
                self.leading = *leading;
                self.due.clear();
                self.conditions = Announcements::default();
            }
            Event::ListStarted { kind } => {
                self.listing.insert(Arc::clone(kind), BTreeSet::new());
            }
            Event::ListCompleted { kind } => {
                let listed = self.listing.remove(kind).unwrap_or_default();
                let is_gone = |object: &ObjectRef| object.kind == *kind && !listed.contains(object);
                let gone: Vec<_> = self.observed.extract_if(.., |object, _| is_gone(object)).collect();
                for (object, before) in gone {
                    self.generations.remove(&object);
                    self.replace(object, at, before);
                }
                self.refused.remove(kind);
                self.listed.insert(Arc::clone(kind), at);
            }
            Event::Applied { kind, object } => {
                let name = reference(kind, object);
                if let Some(listing) = self.listing.get_mut(kind) {
                    listing.insert(name.clone());
                }
                let generation = generation(object);
                let known = self.observed.get(&name);
                let is_other = known.is_some_and(|known| metadata(known, "uid") != metadata(object, "uid"));
                if is_other || self.generations.get(&name).is_none_or(|(before, _)| *before != generation) {
                    self.generations.insert(name.clone(), (generation, at));
                }
                if let Some(before) = self.observed.insert(name.clone(), Arc::clone(object)) {
                    self.replace(name, at, before);
                }
            }
            Event::Deleted { kind, object } => {
                let name = reference(kind, object);
                self.generations.remove(&name);
                if let Some(before) = self.observed.remove(&name) {
                    self.replace(name, at, before);
                }
            }
            Event::Finished { id, outcome } => {
                let request = self.open.remove(&id.0);
                let target = request.as_ref().and_then(|request| request.action.target());
                if let Some(event) = target.and_then(|target| self.events.get_mut(target)) {
                    event.answered(outcome);
                }
                if let Err(Failure { retry_after: Some(delay), .. }) = outcome {
                    self.retry_after.push_back((at, *delay));
                }
            }
            Event::WatchFailed { kind, failure }
                if matches!(failure.class, ErrorKind::Forbidden | ErrorKind::KindNotServed) =>
            {
                self.refused.entry(Arc::clone(kind)).or_insert(at);
            }
            Event::Started | Event::WatchFailed { .. } | Event::TimerFired => {}
        }
        while self.retry_after.front().is_some_and(|(received, _)| *received + 2 * MINUTE < at) {
            self.retry_after.pop_front();
        }
    }

    fn replace(&mut self, object: ObjectRef, at: Duration, before: Arc<Value>) {
        let replaced = self.replaced.entry(object.clone()).or_default();
        replaced.retain(|(until, _)| *until + MINUTE > at);
        replaced.push_back((at, Arc::clone(&before)));
        self.previous.insert(object, (at, before));
    }

    fn absorb_note(&mut self, note: &Note, at: Duration) {
        self.conditions.logged(note);
        if let Note::EventAnnounced { uid, reason, note, .. } = note {
            *self.announced.entry((uid.to_string(), reason.clone(), note.clone())).or_default() += 1;
        }
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
                ReconcileResult::Abandoned => {}
            }
            self.ended.insert(key, at);
        }
    }
}

/// Returns the object that an action writes, apart from its status, and the content.
pub(super) fn content(action: &Action) -> Option<(&ObjectRef, &Arc<Value>)> {
    match action {
        Action::Kube(
            KubeRequest::Apply { target, manifest }
            | KubeRequest::Create { target, manifest }
            | KubeRequest::Update { target, manifest }
            | KubeRequest::Patch { target, patch: manifest, subresource: None },
        ) if target.kind.kind != "Event" => Some((target, manifest)),
        _ => None,
    }
}

/// Returns the references of all objects of a kind.
pub fn references(server: &ApiServer, kind: &Arc<Kind>) -> Vec<ObjectRef> {
    server.objects(kind).iter().map(|object| reference(kind, object)).collect()
}

/// Returns the reference by which a watch of a kind reports an object.
pub fn reference(kind: &Arc<Kind>, object: &Value) -> ObjectRef {
    match metadata(object, "namespace") {
        "" => ObjectRef::cluster(kind, metadata(object, "name")),
        namespace => ObjectRef::namespaced(kind, namespace, metadata(object, "name")),
    }
}
