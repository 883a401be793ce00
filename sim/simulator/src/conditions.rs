//! The conditions in the status of an object.

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
