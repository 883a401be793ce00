//! The form of writes in which a forecast and what happens are compared.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use lockstep_engine::action::{Action, ErrorKind, KubeRequest};
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_sim::ApiServer;
use lockstep_sim::cluster::{Author, Change};
use lockstep_sim::dry_run::{Snapshot, Write};
use lockstep_sim::invariant::SECRET;
use serde_json::{Value, json};

/// The beginning of the key of an owner reference in managed fields.
const OWNER: &str = r#"k:{"uid":""#;

/// What happens to each object: the writes to it except those of its status, in order, and its state in the end.
pub(crate) type Effects = BTreeMap<String, (Vec<Value>, Value)>;

/// Returns what happens to each object.
pub(crate) fn effects(snapshot: &Snapshot, writes: &[Write], server: &ApiServer) -> Effects {
    let known = known(snapshot);
    let mut effects = Effects::new();
    for write in writes {
        for change in &write.changes {
            let is_status =
                matches!(&write.action, Some(Action::Kube(KubeRequest::Patch { subresource: Some(_), .. })));
            let mut state = server.object(&change.object).map_or(Value::Null, |object| Value::clone(object));
            normalise(&mut state, &known);
            let entry = effects.entry(change.object.to_string()).or_insert((Vec::new(), state));
            if !is_status {
                entry.0.push(compared(write, &known));
            }
        }
    }
    effects
}

/// Leaves out what the API server does to objects that no controller watches: those of other clients in a deleted namespace.
pub(crate) fn foreseeable(snapshot: &Snapshot, mut writes: Vec<Write>) -> Vec<Write> {
    let known = known(snapshot);
    let changes = writes.iter().flat_map(|write| &write.changes);
    let created: BTreeSet<ObjectRef> =
        changes.filter(|change| change.old.is_none()).map(|change| change.object.clone()).collect();
    let is_known = |change: &Change| {
        let was_known = change.old.as_ref().is_none_or(|old| known.contains(metadata(old, "uid")));
        was_known || created.contains(&change.object)
    };
    writes.retain(|write| write.by != Author::ControlPlane || write.changes.iter().any(is_known));
    writes
}

/// Leaves out the writes that the API server refused because the object had changed since. They have no effect, and whether there
/// are any depends on which pass is first.
pub(crate) fn effective(mut writes: Vec<Write>) -> Vec<Write> {
    let is_conflict =
        |write: &Write| write.failure.as_ref().is_some_and(|it| it.class == ErrorKind::Conflict);
    writes.retain(|write| !(write.changes.is_empty() && is_conflict(write)));
    writes
}

/// Returns all writes in order.
pub(crate) fn ordered(snapshot: &Snapshot, writes: &[Write]) -> Vec<Value> {
    let known = known(snapshot);
    writes.iter().map(|write| compared(write, &known)).collect()
}

/// Returns the uids and resource versions of the objects in a snapshot.
fn known(snapshot: &Snapshot) -> BTreeSet<String> {
    let fields = |object| ["uid", "resourceVersion"].map(|field| metadata(object, field).to_owned());
    snapshot.objects().flat_map(|(_, object)| fields(object)).collect()
}

/// Returns a request and its effects, without what two clusters never have in common: the uids and resource versions of new
/// objects, generated keys, and the time.
fn compared(write: &Write, known: &BTreeSet<String>) -> Value {
    let changes = write.changes.iter().map(|change| {
        json!({ "object": change.object.to_string(), "old": change.old.is_some(), "new": change.new.is_some() })
    });
    let mut value = json!({
        "by": format!("{:?}", write.by),
        "action": write.action,
        "changes": changes.collect::<Vec<_>>(),
        "failure": write.failure,
    });
    normalise(&mut value, known);
    value
}

fn normalise(value: &mut Value, known: &BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            // The managed fields of owner references have the uids of the owners as keys.
            let is_new = |field: &String| {
                field.strip_prefix(OWNER).is_some_and(|uid| !known.contains(uid.trim_end_matches("\"}")))
            };
            if let Some(field) = fields.keys().find(|field| is_new(field)).cloned() {
                let below = fields.remove(&field).unwrap_or_default();
                fields.insert("(new owner)".to_owned(), below);
            }
            for (field, value) in fields {
                match (field.as_str(), &*value) {
                    ("uid" | "resourceVersion" | "resource_version", Value::String(text))
                        if !known.contains(text) =>
                    {
                        *value = json!("(new)");
                    }
                    ("key", Value::String(text)) if text.starts_with(&STANDARD.encode(SECRET)) => {
                        *value = json!("(generated)");
                    }
                    _ => normalise(value, known),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, known)),
        Value::String(text) => *text = without_times_and_uids(text, known),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a text with the times and the uids of new objects replaced. They are words, or parts of messages and names.
fn without_times_and_uids(text: &str, known: &BTreeSet<String>) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | '.');
    let mut replaced = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        replaced.push_str(match word {
            _ if word.parse::<Timestamp>().is_ok() => "(time)",
            _ if is_uid(word) && !known.contains(word) => "(new)",
            _ => word,
        });
        let next = after.chars().next();
        replaced.extend(next);
        rest = &after[next.map_or(0, char::len_utf8)..];
    }
    replaced
}

fn is_uid(word: &str) -> bool {
    let lengths = word.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}
