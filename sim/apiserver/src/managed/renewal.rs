//! The usual update: it changes values of fields that its manager already owns alone. Then only the time of its entry changes,
//! and no entry has to be decoded.

use serde_json::{Map, Value};

use super::compare::Changes;
use super::entries::{self, UPDATE};
use super::manager::Manager;
use super::ownership::{UPDATE_ENTRIES_MAX, never_owned};
use super::set::Set;
use super::typed;
use crate::schema::Schema;

/// Records such an update of a custom resource. Returns whether it was one: if not, `new` is as before.
///
/// The stored object must have been written with this schema, so that it fits it, and its managed fields do.
pub(super) fn renew(schema: &Schema, old: &Value, new: &mut Value, manager: Manager<'_>) -> bool {
    let Some(listed) = take(new) else { return false };
    let is_same = entries::listed(old).is_some_and(|before| !before.is_empty() && *before == listed);
    let fits =
        is_same && listed.len() <= UPDATE_ENTRIES_MAX && typed::check(schema.root(), new, true).is_ok();
    put(new, listed);
    if !fits {
        return false;
    }
    let Changes { removed, modified, added } =
        Changes::between(schema.root(), old, new).ignoring(&Set::of(manager.reset));
    let changed = modified.union(&added).difference(never_owned());
    if !removed.is_empty() || !is_owned_alone(entries::listed(old), &changed, manager) {
        return false;
    }
    if !changed.is_empty() {
        let mut listed = take(new).unwrap_or_default();
        for entry in listed.iter_mut().filter(|entry| is_of(entry, manager)) {
            entry["time"] = manager.time.into();
        }
        entries::sort(&mut listed);
        put(new, listed);
    }
    true
}

fn take(object: &mut Value) -> Option<Vec<Value>> {
    match object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")? {
        Value::Array(listed) => Some(listed),
        other => {
            object["metadata"]["managedFields"] = other;
            None
        }
    }
}

fn put(object: &mut Value, listed: Vec<Value>) {
    object["metadata"]["managedFields"] = Value::Array(listed);
}

/// Returns whether the manager's entry has all of these fields, and no other entry has any.
fn is_owned_alone(listed: Option<&Vec<Value>>, fields: &Set, manager: Manager<'_>) -> bool {
    let is_in_version = |entry: &Value| entry["apiVersion"] == manager.api_version;
    listed.into_iter().flatten().all(|entry| {
        let is_own = is_of(entry, manager);
        is_in_version(entry) && each(fields, &entry["fieldsV1"], &|is_owned| is_owned == is_own)
    }) && (fields.is_empty() || listed.into_iter().flatten().any(|entry| is_of(entry, manager)))
}

fn is_of(entry: &Value, manager: Manager<'_>) -> bool {
    entry["manager"] == manager.name
        && entry["operation"] == UPDATE
        && entry.get("subresource").and_then(Value::as_str) == manager.subresource
}

/// Returns whether the ownership of each field by an entry is as expected.
fn each(fields: &Set, owned: &Value, is_expected: &impl Fn(bool) -> bool) -> bool {
    fields.steps().all(|(step, is_member, below)| {
        let owned = owned.get(step.serialize()).unwrap_or(&Value::Null);
        let is_owned =
            owned.as_object().is_some_and(|owned: &Map<_, _>| owned.is_empty() || owned.contains_key("."));
        (!is_member || is_expected(is_owned)) && below.is_none_or(|below| each(below, owned, is_expected))
    })
}
