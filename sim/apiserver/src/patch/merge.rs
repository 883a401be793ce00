//! RFC 7386, as the server implements it: a new value keeps the nulls inside its lists.

use serde_json::{Map, Value};

/// Merges a patch into a document.
pub(super) fn apply(current: &Value, patch: &Value) -> Value {
    match (current, patch) {
        (Value::Object(current), Value::Object(patch)) => {
            let mut merged = current.clone();
            into_map(&mut merged, patch);
            Value::Object(merged)
        }
        (_, patch) => without_nulls(patch),
    }
}

fn into_map(current: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (current.get_mut(key), value) {
            (_, Value::Null) => {
                current.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(patch)) => into_map(current, patch),
            (Some(Value::Object(_)), Value::Array(_)) => {
                current.insert(key.clone(), value.clone());
            }
            _ => {
                current.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        scalar => scalar.clone(),
    }
}
