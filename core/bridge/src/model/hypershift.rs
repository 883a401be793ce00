//! The conditions of HostedClusters and NodePools.

use lockstep_engine::object::text;
use serde_json::Value;

/// Returns a condition of an object of HyperShift.
pub fn condition<'a>(object: &'a Value, condition: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|entry| entry["type"] == condition)
}

/// Returns whether such a condition has a status.
pub fn is(object: &Value, name: &str, status: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition["status"] == status)
}

/// Returns the reason and message of such a condition.
pub fn describe(object: &Value, name: &str) -> String {
    let Some(condition) = condition(object, name) else { return format!("{name} is not reported yet") };
    let reason = condition["reason"].as_str().unwrap_or_default();
    match text(condition, "/message") {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    }
}
