//! Formats objects and rejections as text.

use kube::core::Status;
use serde_json::Value;

/// Sets the field at a path, such as `dpuClusterRef.name`, or removes it. Missing parents are created.
pub fn set(object: &mut Value, field: &str, value: Option<Value>) {
    let (place, name) = match field.rsplit_once('.') {
        Some((parents, name)) => (parents.split('.').fold(object, |place, parent| &mut place[parent]), name),
        None => (object, field),
    };
    match (value, place.as_object_mut()) {
        (Some(value), _) => place[name] = value,
        (None, Some(fields)) => drop(fields.remove(name)),
        (None, None) => {}
    }
}

/// Returns the JSON of a value. A long run of one character is replaced by its length.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    let longest = text.split(|c: char| !c.is_alphanumeric()).max_by_key(|run| run.len()).unwrap_or_default();
    if longest.len() <= 48 {
        return text;
    }
    let length = match value.as_str() {
        Some(text) => format!("{} characters", text.chars().count()),
        None => format!("{} bytes", text.len()),
    };
    format!("{}… ({length})", text.chars().take(12).collect::<String>())
}

/// Returns the code and reason of a rejection and its causes, a line for each. The causes are sorted, because a real server
/// lists them in any order.
pub fn refusal(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut lines: Vec<String> =
        causes.map(|cause| format!("{}: {} ({})", cause.field, cause.message, cause.reason)).collect();
    if lines.is_empty() {
        lines.push(status.message.clone());
    }
    lines.sort();
    format!("{} {}\n        {}", status.code, status.reason, lines.join("\n        "))
}
