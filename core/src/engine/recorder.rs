//! Kubernetes Events: what happened to an object, told where people look for it.
//!
//! An event that happens again within [`SERIES_WINDOW`] is counted on the first one rather than written anew, and at most
//! once in [`SERIES_PAUSE`]: what repeats must not flood the cluster. Events are told as well as can be; nothing depends
//! on their arrival. One that could not be written is written when it happens again, with all that was counted until then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::action::{Action, ActionId, Class, Outcome, Request};
use super::conditions::cut;
use super::pairs;
use crate::object::{Kind, ObjectRef};
use crate::random::Random;
use crate::time::{Monotonic, Now};

/// How long after its last occurrence an event is still the same series (as in client-go).
pub const SERIES_WINDOW: Duration = Duration::from_mins(6);
/// How long a series is left unwritten after each count.
pub const SERIES_PAUSE: Duration = Duration::from_secs(30);
/// How many series are remembered; the longest silent is forgotten first.
const SERIES_MAX: usize = 4096;
/// The longest note that the API admits, in bytes.
const NOTE_MAX_BYTES: usize = 1024;

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

/// Remembers what was told lately.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorder {
    kind: Arc<Kind>,
    controller: String,
    instance: String,
    #[serde(with = "pairs")]
    series: BTreeMap<SeriesKey, Series>,
    unsent: Vec<(SeriesKey, Action)>,
    #[serde(with = "pairs")]
    in_flight: BTreeMap<ActionId, SeriesKey>,
}

/// The object's uid, the reason and the note.
type SeriesKey = (String, String, String);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Series {
    event: ObjectRef,
    /// The first occurrence, as the API writes times.
    began: String,
    /// Whether the event is known to exist.
    exists: bool,
    count: u64,
    last: Monotonic,
    /// When the count was last written; none if that failed.
    written: Option<Monotonic>,
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
            unsent: Vec::new(),
            in_flight: BTreeMap::new(),
        }
    }

    /// Takes an occurrence in. What is to be written because of it is in the next [`Recorder::requests`].
    pub fn record(&mut self, mut occurrence: Occurrence, now: Now, random: &mut Random) {
        let at = now.monotonic;
        occurrence.note = cut(occurrence.note, NOTE_MAX_BYTES);
        let key = (occurrence.uid.clone(), occurrence.reason.clone(), occurrence.note.clone());
        if self.series.get(&key).is_none_or(|series| at.since(series.last) >= SERIES_WINDOW) {
            self.make_room(at);
            let series = self.begin(&occurrence.regarding, now, random);
            self.series.insert(key.clone(), series);
        }
        let Some(series) = self.series.get_mut(&key) else { return };
        series.count += 1;
        series.last = at;
        if series.written.is_some_and(|written| at.since(written) < SERIES_PAUSE) {
            return;
        }
        series.written = Some(at);
        let action = if series.exists {
            let patch = Arc::new(json!({ "series": series.counted(now) }));
            Action::Patch { target: series.event.clone(), subresource: None, patch }
        } else {
            let target = series.event.clone();
            let manifest = Arc::new(manifest(series, &self.controller, &self.instance, occurrence, now));
            Action::Create { target, manifest }
        };
        self.unsent.push((key, action));
    }

    /// What is to be written since the last call, under the ids that `number` gives.
    pub fn requests(&mut self, mut number: impl FnMut(Action) -> Request) -> Vec<Request> {
        let mut requests = Vec::new();
        for (key, action) in self.unsent.drain(..) {
            let request = number(action);
            self.in_flight.insert(request.id, key);
            requests.push(request);
        }
        requests
    }

    /// An action was answered; those of others are ignored.
    pub fn finished(&mut self, id: ActionId, outcome: &Outcome) {
        let Some(series) = self.in_flight.remove(&id).and_then(|key| self.series.get_mut(&key)) else {
            return;
        };
        match outcome {
            Ok(_) => series.exists = true,
            Err(failure) => {
                series.written = None;
                match failure.class {
                    // An earlier try, whose answer was lost, has created it.
                    Class::AlreadyExists => series.exists = true,
                    // It never came, or the server has dropped it: events don't live long.
                    Class::NotFound => series.exists = false,
                    Class::Conflict
                    | Class::Invalid
                    | Class::Forbidden
                    | Class::Gone
                    | Class::Throttled
                    | Class::Unavailable
                    | Class::Unknown => {}
                }
            }
        }
    }

    fn begin(&self, regarding: &ObjectRef, now: Now, random: &mut Random) -> Series {
        let namespace = regarding.namespace.as_deref().unwrap_or("default");
        let name = format!("{}.{:016x}", cut_name(&regarding.name), random.bits());
        Series {
            event: ObjectRef::namespaced(&self.kind, namespace, &name),
            began: micro_time(now),
            exists: false,
            count: 0,
            last: now.monotonic,
            written: None,
        }
    }

    fn make_room(&mut self, now: Monotonic) {
        if self.series.len() < SERIES_MAX {
            return;
        }
        self.series.retain(|_, series| now.since(series.last) < SERIES_WINDOW);
        if self.series.len() >= SERIES_MAX {
            let silent = self.series.iter().min_by_key(|(_, series)| series.last).map(|(key, _)| key.clone());
            silent.map(|key| self.series.remove(&key));
        }
    }
}

impl Series {
    /// How often it has happened, in the words of the API.
    fn counted(&self, now: Now) -> Value {
        json!({ "count": self.count, "lastObservedTime": micro_time(now) })
    }
}

fn manifest(series: &Series, controller: &str, instance: &str, occurrence: Occurrence, now: Now) -> Value {
    let (event, regarding) = (&series.event, occurrence.regarding);
    let mut manifest = json!({
        "apiVersion": event.kind.api_version(),
        "kind": event.kind.kind,
        "metadata": { "namespace": event.namespace, "name": event.name },
        "eventTime": series.began,
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
    });
    // The API calls it a series from the second occurrence on.
    if series.count > 1 {
        manifest["series"] = series.counted(now);
    }
    manifest
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
