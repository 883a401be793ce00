//! Locates secrets: they are in manifests of the kind Secret, wherever such a manifest occurs.

use serde_json::{Map, Number, Value};

/// The context of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Anything.
    Plain,
    /// Values that no one interprets: the data of objects, annotations, the values of environment variables.
    Data,
}

impl Place {
    /// Returns the context of the value of a field.
    pub(super) fn below(self, field: &str) -> Self {
        match field {
            "data" | "binaryData" | "stringData" | "annotations" | "value" => Self::Data,
            _ => self,
        }
    }
}

/// Returns whether an object is a Secret. A reference to one has neither metadata nor data. A name of a kind in a wrong case
/// is a mistake that hides nothing.
pub(super) fn is_secret(object: &Map<String, Value>) -> bool {
    let named = object.get("kind").and_then(Value::as_str).is_some_and(is_kind);
    let whole = ["metadata", "data"].iter().any(|field| object.get(*field).is_some_and(Value::is_object));
    (named && whole) || object.contains_key("stringData")
}

/// Returns whether a field of a Secret contains values that must not be shown; an unknown field may be a misspelt one.
pub(super) fn is_hidden(field: &str) -> bool {
    !matches!(field, "apiVersion" | "kind" | "metadata" | "type" | "immutable")
}

/// Returns the fields whose objects are Secrets although they need not have a kind: those of a list of Secrets, of an event
/// about one, and of an action on one.
pub(super) fn fields_of_secrets(object: &Map<String, Value>) -> &'static [&'static str] {
    let kind = object.get("kind").or_else(|| object.get("target")?.get("kind"));
    match kind {
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("SecretList") => &["items"],
        Some(Value::Object(kind)) if kind.get("kind").and_then(Value::as_str).is_some_and(is_kind) => {
            &["object", "manifest", "patch"]
        }
        _ => &[],
    }
}

fn is_kind(kind: &str) -> bool {
    kind.eq_ignore_ascii_case("Secret")
}

/// Returns the JSON in a text, if it is an object or a list.
pub(super) fn nested(text: &str) -> Option<Value> {
    let begins = text.trim_start().starts_with(['{', '[']);
    begins.then(|| serde_json::from_str(text).ok()).flatten()
}

/// One secret in the form in which it was found.
pub(super) enum Found<'a> {
    /// In `data`.
    Data(&'a str),
    /// Anywhere else.
    Text(&'a str),
    /// A number where a text is expected.
    Number(&'a Number),
}

/// Calls `found` with every secret in an object, which may be known to be a Secret itself.
pub(super) fn visit_known(object: &Value, known: bool, mut found: impl FnMut(Found<'_>)) {
    if known { visit_secrets(object, &mut found) } else { visit(object, &mut found) }
}

fn visit(value: &Value, found: &mut impl FnMut(Found<'_>)) {
    match value {
        Value::Object(fields) => visit_object(fields, false, found),
        Value::Array(items) => items.iter().for_each(|item| visit(item, found)),
        Value::String(text) => {
            if let Some(inner) = nested(text) {
                visit(&inner, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn visit_object(fields: &Map<String, Value>, known: bool, found: &mut impl FnMut(Found<'_>)) {
    let secret = known || is_secret(fields);
    let of_secrets = fields_of_secrets(fields);
    for (field, value) in fields {
        if secret && is_hidden(field) {
            visit_hidden(value, field == "data", found);
        } else if of_secrets.contains(&field.as_str()) {
            visit_secrets(value, found);
        } else {
            visit(value, found);
        }
    }
}

fn visit_secrets(value: &Value, found: &mut impl FnMut(Found<'_>)) {
    match value {
        Value::Object(fields) => visit_object(fields, true, found),
        Value::Array(items) => items.iter().for_each(|item| visit_secrets(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn visit_hidden(value: &Value, base64: bool, found: &mut impl FnMut(Found<'_>)) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| visit_hidden(value, base64, found)),
        Value::Array(items) => items.iter().for_each(|item| visit_hidden(item, base64, found)),
        Value::String(text) if base64 => found(Found::Data(text)),
        Value::String(text) => found(Found::Text(text)),
        Value::Number(number) => found(Found::Number(number)),
        Value::Null | Value::Bool(_) => {}
    }
}
