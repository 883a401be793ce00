//! Kubernetes Events: what happened to an object, shown where people look for it.
//!
//! An event that happens again within [`SERIES_WINDOW`] is counted on the first one instead of being written as a new one.
//! The first and the second occurrence are written at once, as client-go does; after that the count of a series is written
//! at most once in [`SERIES_PAUSE`], because what repeats must not flood the cluster. The pause ends by a timer
//! ([`Recorder::next_due`]): the count on the server catches up although nothing happens any more. A write that failed is
//! tried again after [`RETRY_PAUSE`], [`ATTEMPTS`] times in a row, and again when the event happens again. What the API server
//! refuses is tried again only then: no Event can be created in a namespace that is being deleted. Nothing depends on
//! the arrival of an Event; counts that are not yet written when the process dies are lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::action::{Action, ActionId, Class, Failure, Outcome, Request};
use super::backoff::RETRY_AFTER_MAX;
use super::conditions::cut;
use super::pairs;
use crate::object::{Kind, ObjectRef};
use crate::random::Random;
use crate::time::{Monotonic, Now};

/// How long after its last occurrence an event is still the same series (as in client-go).
pub const SERIES_WINDOW: Duration = Duration::from_mins(6);
/// How long a series is left unwritten after a count of two or more was written.
pub const SERIES_PAUSE: Duration = Duration::from_secs(30);
/// How long a series is left unwritten after a write that failed (as in client-go); longer if the server asks for it.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// After how many failures in a row a write is given up until the event happens again (as in client-go).
pub const ATTEMPTS: u32 = 12;
/// How many series are remembered; the longest silent is forgotten first.
const SERIES_MAX: usize = 4096;
/// The longest note that the API admits, in bytes.
pub(super) const NOTE_MAX_BYTES: usize = 1024;

/// Whether an event is good or bad news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Someone should look.
    Warning,
}

/// One occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// What it is about.
    pub regarding: ObjectRef,
    /// The uid of that object.
    pub uid: String,
    /// Good or bad news.
    pub severity: Severity,
    /// Why, for machines: `CamelCase`.
    pub reason: String,
    /// What was being done, for machines: `CamelCase`.
    pub action: &'static str,
    /// What happened, for people.
    pub note: String,
}

/// Remembers the events of the last minutes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorder {
    kind: Arc<Kind>,
    controller: String,
    instance: String,
    #[serde(with = "pairs")]
    series: BTreeMap<SeriesKey, Series>,
    /// The series that hold occurrences which are not written yet, by when they may be.
    #[serde(with = "pairs")]
    due: BTreeMap<Turn, SeriesKey>,
    /// How many turns were given so far.
    turns: u64,
    #[serde(with = "pairs")]
    in_flight: BTreeMap<ActionId, SeriesKey>,
}

/// The object's uid, the reason and the note.
type SeriesKey = (String, String, String);

/// When a series is to be written; of two at the same time the one that asked first.
type Turn = (Monotonic, u64);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Series {
    event: ObjectRef,
    /// The Event of the first occurrence.
    manifest: Arc<Value>,
    /// Whether the event is known to exist.
    exists: bool,
    count: u64,
    /// How many of them the server is known to have counted.
    written: u64,
    last: Monotonic,
    /// The last occurrence, as the API writes times.
    last_observed: String,
    /// Until then it is not written.
    not_before: Monotonic,
    /// Writes in a row that failed.
    failures: u32,
    /// The write that is under way, and the count that it holds.
    under_way: Option<(ActionId, u64)>,
    turn: Option<Turn>,
}

impl Recorder {
    /// A recorder for a controller and the instance of it that runs here.
    pub fn new(controller: &str, instance: String) -> Self {
        let kind = Kind::known("events.k8s.io", "v1", "Event", "events", true);
        Self {
            kind,
            controller: controller.to_owned(),
            instance,
            series: BTreeMap::new(),
            due: BTreeMap::new(),
            turns: 0,
            in_flight: BTreeMap::new(),
        }
    }

    /// Takes an occurrence in. What is to be written because of it is in the next [`Recorder::requests`] whose time has come.
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

    /// What is to be written by now, under the ids that `number` gives.
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

    /// When the next write may be made that waits; none if nothing waits.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// An action was answered; those of others are ignored.
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

    /// Gives a series its turn, if anything of it is not written.
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

    /// Forgets what is over. If that does not suffice, the longest silent is forgotten, what is all written first.
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
    /// Whether another occurrence begins a new series.
    fn is_over(&self, now: Monotonic) -> bool {
        self.is_idle() && now.since(self.last) >= SERIES_WINDOW
    }

    /// Whether no write is under way or waits for its turn.
    fn is_idle(&self) -> bool {
        self.turn.is_none() && self.under_way.is_none()
    }

    /// Writes all occurrences until now.
    fn write(&self) -> Action {
        let series = json!({ "count": self.count, "lastObservedTime": self.last_observed });
        let target = self.event.clone();
        if self.exists {
            let patch = Arc::new(json!({ "series": series }));
            return Action::Patch { target, subresource: None, patch };
        }
        // The API calls it a series from the second occurrence on.
        if self.count == 1 {
            return Action::Create { target, manifest: Arc::clone(&self.manifest) };
        }
        let mut manifest = Value::clone(&self.manifest);
        manifest["series"] = series;
        Action::Create { target, manifest: Arc::new(manifest) }
    }

    /// The write of a count failed. Returns whether it is not tried again before the event happens again.
    fn failed(&mut self, failure: &Failure, count: u64, now: Monotonic) -> bool {
        self.failures += 1;
        let wish = failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
        self.not_before = now + RETRY_PAUSE.max(wish);
        let is_refused = match failure.class {
            // An earlier try, whose answer was lost, has created it; no one knows with what count, unless there was one.
            Class::AlreadyExists => {
                self.exists = true;
                self.written = u64::from(count == 1);
                false
            }
            // The server has dropped it, because events don't live long, or the whole namespace is gone.
            Class::NotFound => !std::mem::take(&mut self.exists),
            Class::Forbidden | Class::Invalid => true,
            Class::Conflict | Class::Gone | Class::Throttled | Class::Unavailable | Class::Unknown => false,
        };
        is_refused || self.failures >= ATTEMPTS
    }
}

/// The Event of a first occurrence.
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

/// `metav1.MicroTime`: six digits after the second.
pub(crate) fn micro_time(now: Now) -> String {
    format!("{:.6}", now.wall.timestamp())
}

/// An event's name is its object's and a suffix of 17 characters, within the 253 of a name.
fn cut_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(253 - 17)]
}

#[cfg(test)]
mod tests;
