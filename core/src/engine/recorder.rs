//! Kubernetes Events: what happened to an object, told where people look for it.
//!
//! An event that happens again within [`SERIES_WINDOW`] is counted on the first one rather than written anew, and at most
//! once in [`SERIES_PAUSE`]: what repeats must not flood the cluster. Events are told as well as can be; nothing depends
//! on their arrival.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::action::Action;
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
    series: BTreeMap<(String, String, String), Series>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Series {
    event: ObjectRef,
    count: u64,
    last: Monotonic,
    written: Monotonic,
}

impl Recorder {
    /// A recorder for a controller and the instance of it that runs here.
    pub fn new(controller: &str, instance: String) -> Self {
        let kind = Kind::known("events.k8s.io", "v1", "Event", "events", true);
        Self { kind, controller: controller.to_owned(), instance, series: BTreeMap::new() }
    }

    /// Takes an occurrence in; returns what is to be written, if anything is.
    pub fn record(&mut self, mut occurrence: Occurrence, now: Now, random: &mut Random) -> Option<Action> {
        let at = now.monotonic;
        occurrence.note = cut(occurrence.note, NOTE_MAX_BYTES);
        let key = (occurrence.uid.clone(), occurrence.reason.clone(), occurrence.note.clone());
        if let Some(series) = self.series.get_mut(&key)
            && at.since(series.last) < SERIES_WINDOW
        {
            series.count += 1;
            series.last = at;
            if at.since(series.written) < SERIES_PAUSE {
                return None;
            }
            series.written = at;
            let observed = micro_time(now);
            let patch = json!({ "series": { "count": series.count, "lastObservedTime": observed } });
            return Some(Action::Patch {
                target: series.event.clone(),
                subresource: None,
                patch: Arc::new(patch),
            });
        }
        self.make_room(at);
        let namespace = occurrence.regarding.namespace.as_deref().unwrap_or("default");
        let stem = cut_name(&occurrence.regarding.name);
        let event = ObjectRef::namespaced(&self.kind, namespace, &format!("{stem}.{:016x}", random.bits()));
        let manifest = Arc::new(self.manifest(&event, occurrence, now));
        self.series.insert(key, Series { event: event.clone(), count: 1, last: at, written: at });
        Some(Action::Create { target: event, manifest })
    }

    fn manifest(&self, event: &ObjectRef, occurrence: Occurrence, now: Now) -> serde_json::Value {
        let regarding = occurrence.regarding;
        json!({
            "apiVersion": self.kind.api_version(),
            "kind": self.kind.kind,
            "metadata": { "namespace": event.namespace, "name": event.name },
            "eventTime": micro_time(now),
            "reportingController": self.controller,
            "reportingInstance": self.instance,
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

/// `metav1.MicroTime`: six digits after the second.
pub(crate) fn micro_time(now: Now) -> String {
    format!("{:.6}", now.wall.timestamp())
}

/// An event's name is its object's and a suffix of 17 characters, within the 253 of a name.
fn cut_name(name: &str) -> &str {
    &name[..name.floor_char_boundary(253 - 17)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Wall;

    fn at(seconds: u64) -> Now {
        let wall = Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH);
        Now { wall, monotonic: Monotonic::START + Duration::from_secs(seconds) }
    }

    fn occurrence(note: &str) -> Occurrence {
        let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
        Occurrence {
            regarding: ObjectRef::cluster(&kind, "team"),
            uid: "1".to_owned(),
            severity: Severity::Warning,
            reason: "ClassNotFound".to_owned(),
            action: "Bind",
            note: note.to_owned(),
        }
    }

    #[test]
    fn what_repeats_is_counted_and_rarely_written() {
        let mut recorder = Recorder::new("namespaceclass", "here".to_owned());
        let mut random = Random::from_seed(1);
        let mut written = Vec::new();
        for second in 0..65 {
            written.extend(recorder.record(occurrence("no such class"), at(second), &mut random));
        }
        let counts: Vec<_> = written
            .iter()
            .map(|action| match action {
                Action::Patch { patch, .. } => patch["series"]["count"].as_u64(),
                _ => None,
            })
            .collect();
        assert_eq!(counts, [None, Some(31), Some(61)]);
    }

    #[test]
    fn after_a_long_silence_it_is_a_new_event() {
        let mut recorder = Recorder::new("namespaceclass", "here".to_owned());
        let mut random = Random::from_seed(1);
        recorder.record(occurrence("no such class"), at(0), &mut random);
        let again = recorder.record(occurrence("no such class"), at(400), &mut random);
        assert!(matches!(again, Some(Action::Create { .. })));
        assert_eq!(recorder.series.len(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recorder = Recorder::new("namespaceclass", "here".to_owned());
        let mut random = Random::from_seed(1);
        for number in 0..SERIES_MAX + 10 {
            recorder.record(occurrence(&number.to_string()), at(0), &mut random);
        }
        assert_eq!(recorder.series.len(), SERIES_MAX);
    }
}
