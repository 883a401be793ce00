//! Compares objects with the manifests of classes.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::object::annotation;
use lockstep_namespaceclass::names::ADOPTION_POLICY_ANNOTATION;
use serde_json::Value;

use super::classes::value;
use super::operations::{ADDED, THEIR_PORT, THEIRS};

/// The keys that other controllers write to objects of a class.
const OF_OTHERS: [&str; 6] =
    [".dockerconfigjson", "id_rsa.pub", "ssh-publickey", "super-admin.conf", "admin.conf", "other.conf"];
/// What begins the name of a variable, and what is replaced by it.
const START: &str = "${";
const ESCAPED: &str = "$${";

/// Returns a manifest of the simulation's classes with the values that its variables have in a namespace; `None` if one has none.
pub(super) fn filled(manifest: &Value, namespace: &Value) -> Option<Value> {
    let fill = |value: &Value| filled(value, namespace);
    Some(match manifest {
        Value::String(text) => Value::String(filled_text(text, namespace)?),
        Value::Array(items) => Value::Array(items.iter().map(fill).collect::<Option<_>>()?),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Some((key.clone(), fill(value)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
        other => other.clone(),
    })
}

fn filled_text(text: &str, namespace: &Value) -> Option<String> {
    let mut parts = Vec::new();
    for part in text.split(ESCAPED) {
        let mut filled = part.to_owned();
        for variable in ["team", "note", "mark", "home"] {
            let placeholder = format!("{START}{variable}}}");
            if filled.contains(&placeholder) {
                filled = filled.replace(&placeholder, &value(variable, namespace)?);
            }
        }
        parts.push(filled);
    }
    Some(parts.join(START))
}

/// Returns whether a resource differs between namespaces.
pub(super) fn is_varied(manifest: &Value) -> bool {
    match manifest {
        Value::String(text) => is_varied_text(text),
        Value::Array(items) => items.iter().any(is_varied),
        Value::Object(fields) => fields.values().any(is_varied),
        _ => false,
    }
}

fn is_varied_text(text: &str) -> bool {
    text.replace(ESCAPED, "").contains(START)
}

/// Returns whether an entry of a class keeps an object that existed before.
pub(super) fn keeps_adopted(manifest: &Value) -> bool {
    annotation(manifest, ADOPTION_POLICY_ANNOTATION) != Some("Delete")
}

/// Returns whether an object matches a manifest without variables: it has everything in the manifest, and nothing from an earlier
/// manifest.
pub(super) fn is_as_wanted(object: &Value, manifest: &Value) -> bool {
    compare(object, manifest, |found, wanted| found == wanted)
}

/// Like [`is_as_wanted`] for an entry of a class. In place of a variable the object may have any text.
pub(super) fn is_from_entry(object: &Value, entry: &Value) -> bool {
    compare(object, entry, |found, wanted| {
        let texts = found.as_str().zip(wanted.as_str());
        texts.map_or(found == wanted, |(found, wanted)| {
            if is_varied_text(wanted) {
                found.starts_with(wanted.split(START).next().unwrap_or_default())
            } else {
                found == wanted.replace(ESCAPED, START)
            }
        })
    })
}

fn compare(object: &Value, manifest: &Value, is_same: fn(&Value, &Value) -> bool) -> bool {
    let (mut found, wanted) = (fields(object), fields(manifest));
    found.retain(|field, value| wanted.contains_key(field) || !is_of_others(field, value));
    found.len() == wanted.len()
        && wanted.iter().all(|(field, wanted)| found.get(field).is_some_and(|found| is_same(found, wanted)))
}

/// Returns everything that classes set, by a path in which keys take the place of indices.
fn fields(object: &Value) -> BTreeMap<String, Value> {
    let mut fields = BTreeMap::new();
    let entries = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (key, text) in entries(&object["data"]) {
        fields.insert(format!("data.{key}"), text);
    }
    for (key, text) in entries(&object["stringData"]) {
        fields.insert(format!("data.{key}"), STANDARD.encode(text.as_str().unwrap_or_default()).into());
    }
    if let Some(of) = annotation(object, "example.com/of") {
        fields.insert("of".to_owned(), of.into());
    }
    for item in items(&object["secrets"]) {
        fields.insert(format!("secrets.{}", item["name"]), true.into());
    }
    for (index, item) in items(&object["imagePullSecrets"]).iter().enumerate() {
        fields.insert(format!("imagePullSecrets.{index}"), item["name"].clone());
    }
    for item in items(&object["spec"]["tags"]) {
        fields.insert(format!("tags.{item}"), true.into());
    }
    for item in items(&object["spec"]["parts"]) {
        fields.insert(format!("parts.{}", item["name"]), item["size"].clone());
    }
    let spec = if object["spec"]["ports"].is_array() { &object["spec"] } else { &Value::Null };
    for (key, value) in entries(&spec["selector"]) {
        fields.insert(format!("selector.{key}"), value);
    }
    for item in items(&spec["ports"]) {
        let protocol = item["protocol"].as_str().unwrap_or("TCP");
        fields.insert(format!("ports.{}.{protocol}", item["port"]), item["name"].clone());
    }
    fields
}

/// Returns whether another client or controller has added this.
fn is_of_others(field: &str, value: &Value) -> bool {
    let is_port = || field == format!("ports.{THEIR_PORT}.TCP");
    let is_key = |key: &str| field.strip_prefix("data.") == Some(key);
    *value == THEIRS
        || field.contains(THEIRS)
        || is_port()
        || is_key(ADDED)
        || OF_OTHERS.into_iter().any(is_key)
}
