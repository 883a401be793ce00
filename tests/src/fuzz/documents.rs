//! Clusters as JSON: the objects of the model, under the fields of a document, with the fields that an API server requires, and
//! with a secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::object::{Kind, ObjectRef, metadata};
use serde_json::{Value, json};

/// The secret that must appear in no output. Its length is a multiple of three bytes, so base64 that begins with it has a fixed
/// prefix.
pub(super) const SECRET: &str = "hunter2!!";

/// The secret as a number.
const SECRET_NUMBER: u64 = 5_337_533_753;

/// Returns whether a text contains the secret, plain or in base64.
pub(super) fn shows_secret(text: &str) -> bool {
    let forms = [SECRET.to_owned(), STANDARD.encode(SECRET), SECRET_NUMBER.to_string()];
    forms.iter().any(|form| text.contains(form))
}

/// Returns the objects under a field of a document: one, or a list of them.
pub(super) fn objects(document: &Value, field: &str) -> Vec<Value> {
    match &document[field] {
        Value::Null => Vec::new(),
        Value::Array(objects) => objects.clone(),
        object => vec![object.clone()],
    }
}

/// Returns the reference to an object of a kind that an API server would accept, with the closest valid name.
pub(super) fn named(kind: &Arc<Kind>, object: &Value) -> ObjectRef {
    let name = name(metadata(object, "name"), 253);
    let namespace = name_of_namespace(metadata(object, "namespace"));
    if kind.namespaced {
        ObjectRef::namespaced(kind, &namespace, &name)
    } else {
        ObjectRef::cluster(kind, &name)
    }
}

fn name_of_namespace(text: &str) -> String {
    name(&text.replace('.', "-"), 63)
}

/// Returns the closest valid name of an object (RFC 1123) of at most this many bytes.
pub(super) fn name(text: &str, max_bytes: usize) -> String {
    let letters = text.chars().map(|letter| letter.to_ascii_lowercase());
    let kept: String = letters.filter(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '.')).collect();
    let parts = kept[..kept.len().min(max_bytes)].split('.').map(|part| part.trim_matches('-'));
    let joined = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    if joined.is_empty() { "some".to_owned() } else { joined }
}

/// Converts the `stringData` of a Secret to `data`, as an API server does. `hidden` returns a value with a hidden secret, or
/// `None` to keep the value.
pub(super) fn fill(secret: &mut Value, hidden: impl Fn(&str, &str) -> Option<String>) {
    let Some(texts) = secret.get_mut("stringData").map(Value::take) else { return };
    for (key, text) in texts.as_object().into_iter().flatten() {
        let Some(text) = text.as_str() else { continue };
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        let hidden = hidden(key, text);
        secret["data"][key] = json!(STANDARD.encode(hidden.as_deref().unwrap_or(text)));
    }
}

/// Inserts the secret at the beginning of all strings, and replaces numbers with it; base64 stays base64.
pub(super) fn plant(value: &mut Value) {
    match value {
        Value::String(text) if text.is_empty() => {}
        Value::String(text) => {
            let is_data = STANDARD.decode(&*text).is_ok();
            text.insert_str(0, &if is_data { STANDARD.encode(SECRET) } else { SECRET.to_owned() });
        }
        Value::Array(items) => items.iter_mut().for_each(plant),
        Value::Object(fields) => fields.values_mut().for_each(plant),
        Value::Number(number) => *number = SECRET_NUMBER.into(),
        Value::Null | Value::Bool(_) => {}
    }
}
