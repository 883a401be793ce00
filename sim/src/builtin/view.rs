//! Reading fields of an object in its normal form.

use serde_json::{Map, Value};

/// A text, empty if absent.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A whole number, none if absent.
pub(super) fn integer(value: &Value, field: &str) -> Option<i64> {
    value.get(field).and_then(Value::as_i64)
}

/// Whether a flag is set.
pub(super) fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// A list, empty if absent.
pub(super) fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of a map, none if absent.
pub(super) fn entries<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.get(field).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// A field that is there, even if it holds nothing.
pub(super) fn given<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

/// A field, or null.
pub(super) fn part<'a>(value: &'a Value, field: &str) -> &'a Value {
    value.get(field).unwrap_or(&Value::Null)
}
