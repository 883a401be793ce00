//! Worlds as JSON: objects under the fields of a document, with what an API server would insist on, and something secret.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_core::object::{Kind, ObjectRef, metadata};
use serde_json::{Value, json};

/// What nothing may show. Its bytes are a multiple of three, so that base64 that begins with it is known by that.
pub(super) const SECRET: &str = "hunter2!!";

/// The same as a number.
const SECRET_NUMBER: u64 = 5_337_533_753;

/// Whether a text shows it, as it is or in base64.
pub(super) fn shows_secret(text: &str) -> bool {
    let forms = [SECRET.to_owned(), STANDARD.encode(SECRET), SECRET_NUMBER.to_string()];
    forms.iter().any(|form| text.contains(form))
}

/// The objects that stand under a field of a document: one, or a list of them.
pub(super) fn objects(document: &Value, field: &str) -> Vec<Value> {
    match &document[field] {
        Value::Null => Vec::new(),
        Value::Array(objects) => objects.clone(),
        object => vec![object.clone()],
    }
}

/// The object of a kind that an API server would let in: with the name that is asked for, as far as it may be one.
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

/// The closest name of an object (RFC 1123) of at most so many bytes.
pub(super) fn name(text: &str, max_bytes: usize) -> String {
    let letters = text.chars().map(|letter| letter.to_ascii_lowercase());
    let kept: String = letters.filter(|letter| matches!(letter, 'a'..='z' | '0'..='9' | '-' | '.')).collect();
    let parts = kept[..kept.len().min(max_bytes)].split('.').map(|part| part.trim_matches('-'));
    let joined = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".");
    if joined.is_empty() { "some".to_owned() } else { joined }
}

/// Makes data of the texts of a Secret, as an API server does, after something was hidden in those of which a copy is
/// returned.
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

/// Puts the secret at the beginning of all strings, and in the place of numbers; what is base64 stays so.
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
