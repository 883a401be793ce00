//! What one open page shows, and what of it has changed since the last message.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lockstep_engine::object::ObjectRef;
use lockstep_engine::recording::redact::Redactor;
use serde_json::{Map, Value, json};

use super::detail;
use super::feed::{Feed, lock, millis};
use super::objects::{End, Entry};
use super::query::Query;

/// The maximum number of entries of a timeline in one message, and of requests in flight.
const MOMENTS_MAX: usize = 100;
const PENDING_MAX: usize = 50;

/// The maximum length of a message of a condition in a row, in characters.
pub(super) const MESSAGE_MAX: usize = 240;

/// The state of an open page.
pub(super) struct View {
    query: Query,
    /// What was sent last, by section.
    sent: BTreeMap<&'static str, Value>,
    /// The rows that the page has, with their revisions.
    rows: BTreeMap<String, u64>,
    /// For each controller: its revision, and the numbers of entries in its timelines.
    seen: Vec<Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    revision: u64,
    timeline: u64,
    decisions: u64,
}

/// What is collected from all controllers for one message.
#[derive(Default)]
struct Collected {
    controllers: Vec<Value>,
    kinds: BTreeMap<String, usize>,
    total: usize,
    matching: usize,
    problems: usize,
    order: Vec<String>,
    rows: Vec<Value>,
    revisions: BTreeMap<String, u64>,
    pending: Vec<(i64, Value)>,
    timeline: Vec<Value>,
    decisions: Vec<Value>,
}

impl View {
    pub(super) fn new(query: Query) -> Self {
        Self { query, sent: BTreeMap::new(), rows: BTreeMap::new(), seen: Vec::new() }
    }

    /// Returns what has changed since the last message; `None` if nothing has. The first message contains everything.
    pub(super) fn message(&mut self, feeds: &[Arc<Mutex<Feed>>]) -> Option<Value> {
        let is_first = self.seen.is_empty();
        self.seen.resize(feeds.len(), Seen::default());
        let has_changed =
            feeds.iter().zip(&self.seen).any(|(feed, seen)| lock(feed).revision != seen.revision);
        if !is_first && !has_changed {
            return None;
        }
        let (mut collected, mut redactors) = (Collected::default(), Vec::new());
        for feed in feeds {
            let feed = lock(feed);
            self.collect(&feed, &mut collected);
            redactors.push(Arc::clone(&feed.redactor));
        }
        let detail = self.query.object.as_ref().map(|path| detail::detail(feeds, path));
        let mut message = self.changed(collected, detail);
        if is_first {
            message.insert("first".to_owned(), json!(true));
        }
        let mut message = Value::Object(message);
        redact(&mut message, &redactors);
        (is_first || message.as_object().is_some_and(|fields| !fields.is_empty())).then_some(message)
    }

    /// Returns the sections that differ from the last message.
    fn changed(&mut self, collected: Collected, detail: Option<Value>) -> Map<String, Value> {
        let Collected { controllers, kinds, total, matching, problems, order, rows, mut pending, .. } =
            collected;
        pending.sort_by_key(|(asked, _)| *asked);
        let requests: Vec<Value> =
            pending.into_iter().take(PENDING_MAX).map(|(_, request)| request).collect();
        let counts = json!({ "kinds": kinds, "total": total, "matching": matching, "problems": problems });
        let mut message = Map::new();
        let sections = [
            ("controllers", json!(controllers)),
            ("counts", counts),
            ("order", json!(order)),
            ("requests", json!(requests)),
            ("detail", detail.unwrap_or_default()),
        ];
        for (section, now) in sections {
            if self.sent.get(section) != Some(&now) {
                message.insert(section.to_owned(), now.clone());
                self.sent.insert(section, now);
            }
        }
        self.rows = collected.revisions;
        let lists = [("rows", rows), ("timeline", collected.timeline), ("decisions", collected.decisions)];
        for (section, fresh) in lists.into_iter().filter(|(_, fresh)| !fresh.is_empty()) {
            message.insert(section.to_owned(), json!(fresh));
        }
        message
    }

    fn collect(&mut self, feed: &Feed, collected: &mut Collected) {
        collected.controllers.push(controller(feed));
        for (object, entry) in feed.objects.iter() {
            self.collect_object(feed, object, entry, collected);
        }
        for pending in feed.pending.values() {
            let asked = millis(pending.asked);
            let path = pending.target.as_ref().map(|target| feed.path(target));
            let request =
                json!({ "controller": feed.title, "text": pending.text, "path": path, "asked": asked });
            collected.pending.push((asked, request));
        }
        let seen = &mut self.seen[feed.place];
        seen.revision = feed.revision;
        let (timeline, count) = feed.timeline.after(seen.timeline, MOMENTS_MAX);
        seen.timeline = count;
        let (decisions, count) = feed.decisions.after(seen.decisions, MOMENTS_MAX);
        seen.decisions = count;
        collected.timeline.extend(timeline);
        collected.decisions.extend(decisions);
    }

    fn collect_object(&self, feed: &Feed, object: &ObjectRef, entry: &Entry, collected: &mut Collected) {
        collected.total += 1;
        match collected.kinds.get_mut(&object.kind.kind) {
            Some(count) => *count += 1,
            None => {
                collected.kinds.insert(object.kind.kind.clone(), 1);
            }
        }
        let is_problem = entry.is_problem();
        collected.problems += usize::from(is_problem);
        let is_of_kind = self.query.kind.as_ref().is_none_or(|kind| *kind == object.kind.kind);
        if !is_of_kind || self.query.problems && !is_problem || !entry.matches(&self.query.words) {
            return;
        }
        collected.matching += 1;
        if collected.order.len() >= self.query.rows {
            return;
        }
        let id = format!("{}.{}", feed.place, entry.id);
        collected.order.push(id.clone());
        if self.rows.get(&id) != Some(&entry.revision) {
            collected.rows.push(row(feed, object, entry, &id));
        }
        collected.revisions.insert(id, entry.revision);
    }
}

/// Hides the secrets of all controllers in a value.
pub(super) fn redact(value: &mut Value, redactors: &[Arc<Redactor>]) {
    for redactor in redactors {
        redactor.redact(value);
    }
}

fn controller(feed: &Feed) -> Value {
    let queues =
        feed.workload.queues.iter().map(
            |queue| json!({ "name": queue.name, "waiting": queue.waiting, "running": queue.running.len() }),
        );
    json!({
        "name": feed.title,
        "leading": feed.is_leading,
        "ended": feed.is_ended,
        "steps": feed.taken,
        "objects": feed.objects.len(),
        "requests": feed.pending.len(),
        "concurrency": feed.workload.concurrency,
        "queues": queues.collect::<Vec<_>>(),
    })
}

fn row(feed: &Feed, object: &ObjectRef, entry: &Entry, id: &str) -> Value {
    let summary = entry.summary.as_ref();
    let message = summary.map(|row| cut(&row.message));
    let related = entry.links.iter().take(2).map(|link| link.brief(object));
    json!({
        "id": id,
        "path": feed.path(object),
        "type": object.kind.kind,
        "namespace": object.namespace,
        "name": object.name,
        "ready": summary.map(|row| &row.ready),
        "reason": summary.map(|row| &row.reason),
        "message": message,
        "phase": entry.phase,
        "deleting": entry.is_deleting,
        "problem": entry.is_problem(),
        "related": related.collect::<Vec<_>>(),
        "due": entry.end.as_ref().and_then(End::due),
    })
}

/// Returns a message with a bounded length. The mark at its end makes the redactor remove the beginning of a secret before it.
fn cut(message: &str) -> String {
    match message.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}
