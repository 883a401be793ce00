//! Access to the fields of one struct in an object.

use serde_json::{Map, Value};

/// The fields of one struct in an object.
pub(super) type Fields = Map<String, Value>;

/// Sets a field that is absent.
pub(super) fn set(object: &mut Fields, field: &str, value: Value) {
    if is_unset(object, field) {
        object.insert(field.to_owned(), value);
    }
}

/// Returns whether a field is absent or empty.
pub(super) fn is_unset(object: &Fields, field: &str) -> bool {
    object.get(field).is_none_or(|value| value.is_null() || value == "")
}

/// Returns a struct field, which is added if it is absent.
pub(super) fn nested<'a>(object: &'a mut Fields, field: &str) -> &'a mut Fields {
    if !object.get(field).is_some_and(Value::is_object) {
        object.insert(field.to_owned(), Value::Object(Map::new()));
    }
    object.get_mut(field).and_then(Value::as_object_mut).expect("the field was just made an object")
}

/// Returns a text, empty if absent.
pub(super) fn text<'a>(object: &'a Fields, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}
