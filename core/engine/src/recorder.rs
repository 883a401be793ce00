//! Kubernetes Events: what happened to an object, where users look for it.
//!
//! If an event happens again within [`SERIES_WINDOW`], the count of the first one increases, and no new one is written. The
//! first and the second occurrence are written at once, as client-go does. After that the count of a series is written at
//! most once in [`SERIES_PAUSE`], because repeated events must not flood the cluster. A timer ends the pause
//! ([`Recorder::next_due`]): the count on the server becomes complete although nothing happens any more.
//!
//! A failed write is retried after [`RETRY_PAUSE`], up to [`ATTEMPTS`] times in a row, and again when the event happens
//! again. A write that the API server refuses is retried only then: no Event can be created in a namespace that is being
//! deleted. No decision depends on the arrival of an Event. Counts that are not yet written when the process crashes are
//! lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::action::{Action, ActionId, ErrorKind, Failure, KubeRequest, Outcome, Request};
use super::backoff::RETRY_AFTER_MAX;
use super::conditions::cut;
use super::pairs;
use crate::object::{Kind, ObjectRef, Uid};
use crate::random::Random;
use crate::time::{Monotonic, Now};

/// The time after its last occurrence within which an event belongs to the same series (as in client-go).
pub const SERIES_WINDOW: Duration = Duration::from_mins(6);
/// The minimum time between two writes of a series, after a count of two or more was written.
pub const SERIES_PAUSE: Duration = Duration::from_secs(30);
/// The delay before a failed write is retried (as in client-go); longer if the server asks for it.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The number of failures in a row after which a write is not retried until the event happens again (as in client-go).
pub const ATTEMPTS: u32 = 12;
/// The maximum number of series in memory; the one with the oldest last occurrence is dropped first.
const SERIES_MAX: usize = 4096;
/// The longest note that the API permits, in bytes.
pub(super) const NOTE_MAX_BYTES: usize = 1024;

/// The severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Normal operation.
    Normal,
    /// People should investigate.
    Warning,
}

/// One occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The object that it concerns.
    pub regarding: ObjectRef,
    /// The uid of that object.
    pub uid: Uid,
    /// Its severity.
    pub severity: Severity,
    /// The reason, for machines: `CamelCase`.
    pub reason: String,
    /// The action in progress, for machines: `CamelCase`.
    pub action: &'static str,
    /// What happened, for people.
    pub note: String,
}

/// Stores the events of the last minutes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorder {
    kind: Arc<Kind>,
    controller: String,
    instance: String,
    #[serde(with = "pairs")]
    series: BTreeMap<SeriesKey, Series>,
    /// The series with occurrences that are not written yet, by the earliest time of their write.
    #[serde(with = "pairs")]
    due: BTreeMap<Turn, SeriesKey>,
    /// The number of writes scheduled so far.
    turns: u64,
    #[serde(with = "pairs")]
    in_flight: BTreeMap<ActionId, SeriesKey>,
}

/// The object's uid, the reason and the note.
type SeriesKey = (Uid, String, String);

/// When a series is to be written; of two at the same time, the one that was scheduled first goes first.
type Turn = (Monotonic, u64);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Series {
    event: ObjectRef,
    /// The Event of the first occurrence.
    manifest: Arc<Value>,
    /// Whether the event is known to exist.
    exists: bool,
    count: u64,
    /// The count that the server is known to have.
    written: u64,
    last: Monotonic,
    /// The last occurrence, in the API's time format.
    last_observed: String,
    /// The earliest time of the next write.
    not_before: Monotonic,
    /// Consecutive failed writes.
    failures: u32,
    /// The write in flight, and the count that it contains.
    under_way: Option<(ActionId, u64)>,
    turn: Option<Turn>,
}

/// Returns the kind of Events.
pub fn kind() -> Arc<Kind> {
    Kind::known("events.k8s.io", "v1", "Event", "events", true)
}

/// Returns whether an action writes an Event.
pub fn is_record(action: &Action) -> bool {
    action.is_write() && action.target().is_some_and(|target| target.kind == kind())
}

impl Recorder {
    /// Returns a recorder for a controller and the instance of it that runs here.
    pub fn new(controller: &str, instance: String) -> Self {
        Self {
            kind: kind(),
            controller: controller.to_owned(),
            instance,
            series: BTreeMap::new(),
            due: BTreeMap::new(),
            turns: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// Records an occurrence. The next [`Recorder::requests`] that is due returns the resulting write.
    pub fn record(&mut self, mut occurrence: Occurrence, now: Now, random: &mut Random) {
        let at = now.monotonic;
        occurrence.note = cut(occurrence.note, NOTE_MAX_BYTES);
        let key = (occurrence.uid.clone(), occurrence.reason.clone(), occurrence.note.clone());
        if self.series.get(&key).is_none_or(|series| series.is_over(at)) {
            self.make_room(at);
            let series = self.begin(occurrence, now, random);
            self.series.insert(key.clone(), series);
        }
        let Some(series) = self.series.get_mut(&key) else { return };
        series.count += 1;
        series.failures = 0;
        series.last = at;
        series.last_observed = micro_time(now);
        self.schedule(&key, at);
    }

    /// Returns the writes that are due, under the ids that `number` assigns.
    pub fn requests(&mut self, now: Monotonic, mut number: impl FnMut(Action) -> Request) -> Vec<Request> {
        let mut requests = Vec::new();
        while let Some(next) = self.due.first_entry().filter(|next| next.key().0 <= now) {
            let key = next.remove();
            let Some(series) = self.series.get_mut(&key) else { continue };
            let request = number(series.write());
            series.turn = None;
            series.under_way = Some((request.id, series.count));
            // The second occurrence is written at once: from then on the API calls it a series.
            series.not_before = if series.count > 1 { now + SERIES_PAUSE } else { now };
            self.in_flight.insert(request.id, key);
            requests.push(request);
        }
        requests
    }

    /// Returns when the next delayed write is due; `None` if there is none.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Processes the answer of an action; answers to other components' actions are ignored.
    pub fn finished(&mut self, id: ActionId, outcome: &Outcome, now: Monotonic) {
        let Some(key) = self.in_flight.remove(&id) else { return };
        let Some(series) = self.series.get_mut(&key) else { return };
        let Some((_, count)) = series.under_way.take_if(|(under_way, _)| *under_way == id) else { return };
        let is_given_up = match outcome {
            Ok(_) => {
                (series.exists, series.written, series.failures) = (true, count, 0);
                false
            }
            Err(failure) => series.failed(failure, count, now),
        };
        if !is_given_up || series.count > count {
            self.schedule(&key, now);
        }
    }

    /// Schedules the write of a series, if any occurrence is not written.
    fn schedule(&mut self, key: &SeriesKey, now: Monotonic) {
        let Some(series) = self.series.get_mut(key) else { return };
        if series.count == series.written || !series.is_idle() {
            return;
        }
        let turn = (series.not_before.max(now), self.turns);
        self.turns += 1;
        series.turn = Some(turn);
        self.due.insert(turn, key.clone());
    }

    fn begin(&self, occurrence: Occurrence, now: Now, random: &mut Random) -> Series {
        let regarding = &occurrence.regarding;
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let name = format!("{}.{:016x}", cut_name(&regarding.name), random.bits());
        let event = ObjectRef::namespaced(&self.kind, namespace, &name);
        let manifest = manifest(&event, &self.controller, &self.instance, occurrence, now);
        Series {
            event,
            manifest: Arc::new(manifest),
            exists: false,
            count: 0,
            written: 0,
            last: now.monotonic,
            last_observed: micro_time(now),
            not_before: now.monotonic,
            failures: 0,
            under_way: None,
            turn: None,
        }
    }

    /// Drops the series that have ended. If that is not enough, drops the one with the oldest last occurrence, completely
    /// written ones first.
    fn make_room(&mut self, now: Monotonic) {
        if self.series.len() < SERIES_MAX {
            return;
        }
        self.series.retain(|_, series| !series.is_over(now));
        if self.series.len() >= SERIES_MAX {
            let silent = self.series.iter().min_by_key(|(_, series)| (!series.is_idle(), series.last));
            let silent = silent.map(|(key, _)| key.clone());
            let forgotten = silent.and_then(|key| self.series.remove(&key));
            forgotten.and_then(|series| series.turn).map(|turn| self.due.remove(&turn));
        }
    }
}

impl Series {
    /// Returns whether another occurrence begins a new series.
    fn is_over(&self, now: Monotonic) -> bool {
        self.is_idle() && now.since(self.last) >= SERIES_WINDOW
    }

    /// Returns whether no write is in flight or scheduled.
    fn is_idle(&self) -> bool {
        self.turn.is_none() && self.under_way.is_none()
    }

    /// Returns the action that writes all occurrences so far.
    fn write(&self) -> Action {
        let series = json!({ "count": self.count, "lastObservedTime": self.last_observed });
        let target = self.event.clone();
        if self.exists {
            let patch = Arc::new(json!({ "series": series }));
            return Action::Kube(KubeRequest::Patch { target, subresource: None, patch });
        }
        // The API calls it a series from the second occurrence on.
        if self.count == 1 {
            return Action::Kube(KubeRequest::Create { target, manifest: Arc::clone(&self.manifest) });
        }
        let mut manifest = Value::clone(&self.manifest);
        manifest["series"] = series;
        Action::Kube(KubeRequest::Create { target, manifest: Arc::new(manifest) })
    }

    /// Records that the write of a count failed. Returns whether it is not retried before the event happens again.
    fn failed(&mut self, failure: &Failure, count: u64, now: Monotonic) -> bool {
        self.failures += 1;
        let retry_after = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        self.not_before = now + RETRY_PAUSE.max(retry_after);
        let is_refused = match failure.class {
            // An earlier attempt, whose answer was lost, has created it. Its count is unknown, unless there was only one
            // occurrence.
            ErrorKind::AlreadyExists => {
                self.exists = true;
                self.written = u64::from(count == 1);
                false
            }
            // The server has dropped it, because Events expire, or the whole namespace is gone.
            ErrorKind::NotFound => !std::mem::take(&mut self.exists),
            // A new Event conflicts only with the deletion of its namespace.
            ErrorKind::Conflict => !self.exists,
            ErrorKind::Forbidden | ErrorKind::Invalid | ErrorKind::KindNotServed => true,
            ErrorKind::Gone | ErrorKind::Throttled | ErrorKind::Unavailable | ErrorKind::Unknown => false,
        };
        is_refused || self.failures >= ATTEMPTS
    }
}

/// Returns the Event of a first occurrence.
fn manifest(event: &ObjectRef, controller: &str, instance: &str, occurrence: Occurrence, now: Now) -> Value {
    let regarding = occurrence.regarding;
    json!({
        "apiVersion": event.kind.api_version(),
        "kind": event.kind.kind,
        "metadata": { "namespace": event.namespace, "name": event.name },
        "eventTime": micro_time(now),
        "reportingController": controller,
        "reportingInstance": instance,
        "type": match occurrence.severity { Severity::Normal => "Normal", Severity::Warning => "Warning" },
        "reason": occurrence.reason,
        "action": occurrence.action,
        "note": occurrence.note,
        "regarding": {
            "apiVersion": regarding.kind.api_version(),
            "kind": regarding.kind.kind,
            "namespace": regarding.namespace,
            "name": regarding.name,
            "uid": occurrence.uid,
        },
    })
}

/// Returns a time as `metav1.MicroTime`: six digits after the second.
pub(crate) fn micro_time(now: Now) -> String {
    format!("{:.6}", now.wall.timestamp())
}

/// Cuts an object's name for the name of its Event: a suffix of 17 characters follows, which begins with a dot, and a name has at
/// most 253. Before a dot there must be a letter or a digit.
fn cut_name(name: &str) -> &str {
    name[..name.floor_char_boundary(253 - 17)].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests;
