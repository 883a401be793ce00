//! Reading and writing `metadata` of untyped objects.

use serde_json::{Map, Value, json};

/// The finalizer with which foreground deletion waits for dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer with which dependents are released before the owner is removed.
pub(crate) const ORPHAN: &str = "orphan";

/// Returns the string at `metadata.<key>`, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    field(object, key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the value at `metadata.<key>`.
pub(crate) fn field<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(key)
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "resourceVersion")
}

pub(crate) fn generation(object: &Value) -> i64 {
    field(object, "generation").and_then(Value::as_i64).unwrap_or_default()
}

/// Returns whether the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    field(object, "deletionTimestamp").is_some_and(|value| !value.is_null())
}

/// Returns the finalizers, in order.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    strings(field(object, "finalizers"))
}

/// Returns the strings of a list.
pub(crate) fn strings(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Returns `metadata` for writing; created if absent, replaced if it is not a map.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, "metadata")
}

/// Returns the map at `key` for writing; created if absent, replaced if it is not a map.
pub(crate) fn map_at<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = json!({});
    }
    let outer = object.as_object_mut().expect("made an object above");
    let inner = outer.entry(key).or_insert_with(|| json!({}));
    if !inner.is_object() {
        *inner = json!({});
    }
    inner.as_object_mut().expect("made an object above")
}

/// Sets `metadata.<key>`.
pub(crate) fn set(object: &mut Value, key: &str, value: impl Into<Value>) {
    metadata_mut(object).insert(key.to_owned(), value.into());
}

/// Removes `metadata.<key>`.
pub(crate) fn remove(object: &mut Value, key: &str) {
    metadata_mut(object).remove(key);
}

/// Sets `metadata.finalizers`, leaving the field out when the list is empty.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        remove(object, "finalizers");
    } else {
        set(object, "finalizers", finalizers.to_vec());
    }
}

/// Copies `metadata.<key>` from another object, absence included.
pub(crate) fn copy(from: &Value, to: &mut Value, key: &str) {
    match field(from, key) {
        Some(value) => set(to, key, value.clone()),
        None => remove(to, key),
    }
}

/// Formats a time as Kubernetes does: RFC 3339 in UTC and whole seconds.
pub(crate) fn timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
