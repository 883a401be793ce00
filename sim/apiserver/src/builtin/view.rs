//! Access to fields of an object in its normalised form.

use serde_json::{Map, Value};

/// Returns a text, empty if absent.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a whole number, none if absent.
pub(super) fn integer(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

/// Returns whether a flag is set.
pub(super) fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// Returns a list, empty if absent.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the entries of a map, none if absent.
pub(super) fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Returns a field that is present, even if it is empty.
pub(super) fn given<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// Returns a field, or null.
pub(super) fn part<'a>(value: &'a Value, field: &str) -> &'a Value {
    value.get(field).unwrap_or(&Value::Null)
}
