//! The conditions in the status of an object.

use jiff::Timestamp;
use serde_json::Value;

/// Returns all conditions of an object.
pub fn all(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["conditions"].as_array().into_iter().flatten()
}

/// Returns the condition of a type.
pub fn find<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    all(object).find(|condition| condition["type"] == name)
}

/// Returns whether the condition of a type has a status.
pub fn is(object: &Value, name: &str, status: &str) -> bool {
    find(object, name).is_some_and(|condition| condition["status"] == status)
}

/// Returns whether the condition of a type has a reason.
pub fn is_because(object: &Value, name: &str, reason: &str) -> bool {
    find(object, name).is_some_and(|condition| condition["reason"] == reason)
}

/// Returns a status without times, and with its conditions in the order of their types.
pub fn untimed(status: &Value) -> Value {
    let mut status = status.clone();
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
        conditions.sort_by_cached_key(|condition| condition["type"].to_string());
    }
    remove_times(&mut status);
    status
}

fn remove_times(value: &mut Value) {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_ok() => *value = Value::Null,
        Value::Array(elements) => elements.iter_mut().for_each(remove_times),
        Value::Object(fields) => fields.values_mut().for_each(remove_times),
        _ => {}
    }
}
