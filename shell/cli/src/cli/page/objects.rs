//! The objects that a controller watches, with the parts that the page shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_crds::sentinel::LastCycle;
use lockstep_engine::duration;
use lockstep_engine::machine::ReconcileResult;
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting};
use lockstep_engine::time::Now;
use serde_json::{Value, json};

use super::super::explain::explanation::POLL_INTERVAL;
use super::super::get::row::Row;
use super::relations::{self, Link};

/// The objects, those of the controller's own kinds first.
pub(super) struct Objects {
    own: Vec<Arc<Kind>>,
    entries: BTreeMap<Key, Entry>,
    /// The kinds that are being listed again, with the revision at the start.
    lists: BTreeMap<Arc<Kind>, u64>,
    revision: u64,
    created: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    is_other: bool,
    object: ObjectRef,
}

/// An object.
pub(super) struct Entry {
    /// Unique among the objects of the controller, also over time.
    pub(super) id: u64,
    /// Increases with each change.
    pub(super) revision: u64,
    /// The revision of its last watch event.
    seen: u64,
    /// The state, reduced by [`slim`].
    pub(super) state: Arc<Value>,
    /// The condition that sums up the others.
    pub(super) summary: Option<Row>,
    pub(super) links: Vec<Link>,
    pub(super) phase: Option<String>,
    /// The counts of the last cycle, of a Sentinel.
    pub(super) last_cycle: Option<String>,
    pub(super) is_deleting: bool,
    /// The end of its last reconcile.
    pub(super) end: Option<End>,
    /// The text that filters search, in lower case.
    search: String,
}

/// The end of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    name: &'static str,
    /// The failure, or an empty text.
    reason: String,
    /// Milliseconds since 1970.
    pub(super) at: i64,
    after: Option<std::time::Duration>,
}

impl End {
    pub(super) fn of(result: &ReconcileResult, now: Now) -> Self {
        let (reason, after) = match result {
            ReconcileResult::Failed { reason, retry_after, .. } => (reason.clone(), Some(*retry_after)),
            ReconcileResult::Requeued { after } => (String::new(), Some(*after)),
            ReconcileResult::Converged | ReconcileResult::Abandoned => (String::new(), None),
        };
        Self { name: result.name(), reason, at: now.wall.timestamp().as_millisecond(), after }
    }

    pub(super) fn is_failure(&self) -> bool {
        !self.reason.is_empty()
    }

    /// Returns the time of the next reconcile, in milliseconds since 1970.
    pub(super) fn due(&self) -> Option<i64> {
        let after = i64::try_from(self.after?.as_millis()).ok()?;
        self.at.checked_add(after)
    }

    pub(super) fn text(&self) -> String {
        let after =
            self.after.map_or_else(String::new, |after| format!(", again after {}", duration::show(after)));
        let reason = if self.is_failure() { format!(": {}", self.reason) } else { String::new() };
        format!("{}{after}{reason}", self.name)
    }
}

/// Returns the parts of an object that explanations need.
pub(super) fn slim(object: &Value) -> Arc<Value> {
    let metadata = &object["metadata"];
    let mut slim = json!({ "metadata": { "namespace": metadata["namespace"], "name": metadata["name"] } });
    if let Some(conditions) = object.pointer("/status/conditions") {
        slim["status"] = json!({ "conditions": conditions });
    }
    if let Some(interval) = object.pointer(POLL_INTERVAL) {
        slim["spec"] = json!({ "pollInterval": interval });
    }
    Arc::new(slim)
}

/// Returns the counts of the last cycle of a Sentinel in one line.
fn last_cycle(object: &Value) -> Option<String> {
    let LastCycle { resources, published, skipped_ready, skipped_not_ready, failed, malformed } =
        serde_json::from_value(object.pointer("/status/lastCycle")?.clone()).ok()?;
    let skipped = skipped_ready + skipped_not_ready;
    Some(format!(
        "{resources} resources, {published} published, {skipped} skipped, {failed} given up, {malformed} malformed"
    ))
}

impl Objects {
    pub(super) fn new(own: Vec<Arc<Kind>>) -> Self {
        Self { own, entries: BTreeMap::new(), lists: BTreeMap::new(), revision: 0, created: 0 }
    }

    /// Returns the kind of the controller's own objects with that name.
    pub(super) fn own_kind(&self, name: &str) -> Option<&Arc<Kind>> {
        self.own.iter().find(|kind| kind.to_string() == name)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectRef, &Entry)> {
        self.entries.iter().map(|(key, entry)| (&key.object, entry))
    }

    pub(super) fn get(&self, object: &ObjectRef) -> Option<&Entry> {
        self.entries.get(&self.key(object.clone()))
    }

    /// Handles the start of a list: objects that it does not contain no longer exist.
    pub(super) fn list_started(&mut self, kind: &Arc<Kind>) {
        self.lists.insert(Arc::clone(kind), self.revision);
    }

    pub(super) fn list_completed(&mut self, kind: &Arc<Kind>) {
        let Some(start) = self.lists.remove(kind) else { return };
        self.entries.retain(|key, entry| key.object.kind != *kind || entry.seen > start);
    }

    pub(super) fn applied(&mut self, kind: &Arc<Kind>, object: &Value) -> ObjectRef {
        self.revision += 1;
        let name = Name::of(object).object(kind);
        let key = self.key(name.clone());
        let before = self.entries.remove(&key);
        let id = before.as_ref().map_or(self.created, |before| before.id);
        self.created += u64::from(before.is_none());
        let has_conditions = object.pointer("/status/conditions").is_some();
        let row = Row::of(kind, object);
        let summary = (!key.is_other || has_conditions && row.reason != "NoStatus").then_some(row);
        let links = relations::links(kind, object);
        let phase = object.pointer("/status/phase").and_then(Value::as_str).map(str::to_owned);
        let entry = Entry {
            id,
            revision: self.revision,
            seen: self.revision,
            search: search(&name, summary.as_ref(), &links),
            state: slim(object),
            summary,
            links,
            phase,
            last_cycle: last_cycle(object),
            is_deleting: is_deleting(object),
            end: before.and_then(|before| before.end),
        };
        self.entries.insert(key, entry);
        name
    }

    pub(super) fn deleted(&mut self, kind: &Arc<Kind>, object: &Value) -> ObjectRef {
        self.revision += 1;
        let name = Name::of(object).object(kind);
        self.entries.remove(&self.key(name.clone()));
        name
    }

    /// Records the end of a reconcile. Returns whether it differs from the previous one.
    pub(super) fn ended(&mut self, object: &ObjectRef, end: End) -> bool {
        let Some(entry) = self.entries.get_mut(&self.key(object.clone())) else { return true };
        let is_new = entry.end.as_ref().is_none_or(|last| last.text() != end.text());
        self.revision += 1;
        entry.revision = self.revision;
        entry.end = Some(end);
        is_new
    }

    fn key(&self, object: ObjectRef) -> Key {
        Key { is_other: !self.own.contains(&object.kind), object }
    }
}

impl Entry {
    /// Returns whether people may have to act.
    pub(super) fn is_problem(&self) -> bool {
        self.summary.as_ref().is_some_and(|row| !row.is_ready())
            || self.end.as_ref().is_some_and(End::is_failure)
    }

    /// Returns whether all words, in lower case, occur.
    pub(super) fn matches(&self, words: &[String]) -> bool {
        words.iter().all(|word| self.search.contains(word.as_str()))
    }
}

fn search(object: &ObjectRef, summary: Option<&Row>, links: &[Link]) -> String {
    let mut text = object.to_string();
    if let Some(row) = summary {
        text = format!("{text} {} {} {}", row.ready, row.reason, row.message);
    }
    for link in links {
        text = format!("{text} {link}");
    }
    text.to_lowercase()
}
