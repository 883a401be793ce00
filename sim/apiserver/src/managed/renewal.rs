//! The usual update: it changes values of fields that its manager already owns alone. Then only the time of its entry changes,
//! and no entry has to be decoded.

use serde_json::{Map, Value};

use super::compare::Changes;
use super::entries::{self, UPDATE};
use super::manager::Manager;
use super::ownership::never_owned;
use super::set::Set;
use super::typed;
use crate::schema::Schema;

/// Records such an update of a custom resource. Returns whether it was one: if not, `new` is as before.
///
/// The stored object must have been written with this schema, so that it fits it, and its managed fields do.
pub(super) fn renew(schema: &Schema, old: &Value, new: &mut Value, manager: Manager<'_>) -> bool {
    let Some(mut listed) = take(new) else { return false };
    // An empty list resets the ownership.
    let changed = if !listed.is_empty() && entries::listed(old) == Some(&listed) {
        changed(schema, old, new, manager).filter(|changed| is_owned_alone(&listed, changed, manager))
    } else {
        None
    };
    if changed.as_ref().is_some_and(|changed| !changed.is_empty()) {
        for entry in listed.iter_mut().filter(|entry| is_of(entry, manager)) {
            entry["time"] = manager.time.into();
        }
        entries::sort(&mut listed);
    }
    new["metadata"]["managedFields"] = Value::Array(listed);
    changed.is_some()
}

/// Returns the changed fields that managers own; none if fields were removed, or if the object does not match its type.
fn changed(schema: &Schema, old: &Value, new: &Value, manager: Manager<'_>) -> Option<Set> {
    typed::check(schema.root(), new, true).ok()?;
    let changes = Changes::between(schema.root(), old, new).ignoring(&Set::of(manager.reset));
    let removed = changes.removed.difference(never_owned());
    removed.is_empty().then(|| changes.modified.union(&changes.added).difference(never_owned()))
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

/// Returns whether the manager's entry has all of these fields, and no other entry has any.
fn is_owned_alone(listed: &[Value], fields: &Set, manager: Manager<'_>) -> bool {
    let is_in_version = |entry: &Value| entry["apiVersion"] == manager.api_version;
    listed.iter().all(|entry| {
        let is_own = is_of(entry, manager);
        is_in_version(entry) && each(fields, &entry["fieldsV1"], &|is_owned| is_owned == is_own)
    }) && (fields.is_empty() || listed.iter().any(|entry| is_of(entry, manager)))
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
