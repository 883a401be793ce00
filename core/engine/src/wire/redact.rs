//! Keeps the values of Secrets out of messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::action::KubeRequest;

/// The maximum length of a message, in bytes.
const LONGEST: usize = 1024;

/// Prepares a server's message for logs and conditions: values of a Secret in the request are masked, and a message of more
/// than 1 KiB is cut.
pub(super) fn message(request: &KubeRequest, text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(manifest) = secret(request) {
        let mut values = Vec::new();
        for (field, value) in manifest.as_object().into_iter().flatten() {
            if !matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "type") {
                leaves(value, &mut values);
            }
        }
        // A server that refuses a Secret may quote its data.
        if let Some(data) = manifest["data"].as_object() {
            let texts = data.values().filter_map(|value| STANDARD.decode(value.as_str()?).ok());
            values.extend(
                texts.filter_map(|text| String::from_utf8(text).ok()).filter(|text| !text.is_empty()),
            );
        }
        // Longest first, so that a value within another is masked completely.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            text = text.replace(&value, "***");
        }
    }
    cut(&text)
}

/// Cuts a text at 1 KiB.
pub fn cut(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn secret(request: &KubeRequest) -> Option<&Value> {
    let (target, manifest) = match request {
        KubeRequest::Apply { target, manifest }
        | KubeRequest::Create { target, manifest }
        | KubeRequest::CreateSecret { target, manifest, .. }
        | KubeRequest::Update { target, manifest } => (target, manifest),
        KubeRequest::Patch { target, patch, .. } => (target, patch),
        KubeRequest::Discover { .. }
        | KubeRequest::Get { .. }
        | KubeRequest::GetLengths { .. }
        | KubeRequest::List { .. }
        | KubeRequest::Delete { .. } => return None,
    };
    (target.kind.group.is_empty() && target.kind.kind == "Secret").then_some(manifest)
}

fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| leaves(value, found)),
        Value::Array(items) => items.iter().for_each(|value| leaves(value, found)),
        Value::String(text) if !text.is_empty() => found.push(text.clone()),
        Value::Number(number) => found.push(number.to_string()),
        Value::String(_) | Value::Bool(_) | Value::Null => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::object::{Kind, ObjectRef};
    use serde_json::json;

    use super::*;

    fn apply(kind: &str, manifest: Value) -> KubeRequest {
        let kind = Kind::known("", "v1", kind, "widgets", true);
        KubeRequest::Apply { target: ObjectRef::namespaced(&kind, "ns", "a"), manifest: Arc::new(manifest) }
    }

    #[test]
    fn values_of_secrets_are_masked() {
        let manifest = json!({"kind": "Secret", "metadata": {"name": "a"}, "data": {"pin": 4711}, "stringData": {"p": "hunter2"}});
        let text = ".data.pin: expected string, got &value.valueUnstructured{Value:4711}; hunter2 in a";
        let masked = ".data.pin: expected string, got &value.valueUnstructured{Value:***}; *** in a";
        assert_eq!(message(&apply("Secret", manifest.clone()), text), masked);
        assert_eq!(message(&apply("ConfigMap", manifest), text), text);
    }

    #[test]
    fn what_the_data_of_a_secret_says_is_masked_in_either_form() {
        let manifest = json!({"kind": "Secret", "data": {"password": "aHVudGVyMg==", "key": "/w=="}});
        let text = "password 'hunter2' (aHVudGVyMg==) is too weak";
        assert_eq!(message(&apply("Secret", manifest), text), "password '***' (***) is too weak");
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let cut = message(&apply("ConfigMap", json!({})), &"ä".repeat(1000));
        assert_eq!(cut.len(), 1024 + "…".len());
    }
}
