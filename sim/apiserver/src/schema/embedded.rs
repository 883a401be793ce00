//! Embedded objects must have a type.

use serde_json::Value;

use super::node::{At, DEPTH_MAX};
use super::place::Place;
use crate::cause::Cause;

/// Returns what is wrong with the types of embedded objects.
pub(super) fn causes(root: At<'_>, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    visit(root, object, Place::Root, 0, &mut |embedded, path| type_meta(embedded, path, &mut causes));
    causes
}

/// Returns the metadata of embedded objects, with their paths.
pub(super) fn metadata(root: At<'_>, object: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    visit(root, object, Place::Root, 0, &mut |embedded, path| {
        let metadata = embedded.get("metadata").filter(|metadata| !metadata.is_null());
        found.extend(metadata.map(|metadata| (format!("{path}.metadata"), metadata.clone())));
    });
    found
}

/// Visits every object inside of another.
fn visit(at: At<'_>, value: &Value, path: Place<'_>, depth: usize, look: &mut impl FnMut(&Value, Place<'_>)) {
    if depth > DEPTH_MAX || !at.arena.has_embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if at.node().embedded && depth > 0 {
                look(value, path);
            }
            for (key, value) in map {
                let Some(child) = at.declared(key) else { continue };
                visit(child, value, at.place_of(&path, key), depth + 1, look);
            }
        }
        Value::Array(list) => {
            let Some(items) = at.items() else { return };
            for (index, item) in list.iter().enumerate() {
                visit(items, item, Place::Item(&path, index), depth + 1, look);
            }
        }
        _ => {}
    }
}

fn type_meta(object: &Value, path: Place<'_>, causes: &mut Vec<Cause>) {
    let field = |name: &str| format!("{path}.{name}");
    for name in ["apiVersion", "kind"] {
        match object.get(name) {
            None => causes.push(Cause::required(field(name), "")),
            Some(Value::String(text)) if text.is_empty() => {
                causes.push(Cause::invalid(field(name), &Value::from(""), "must not be empty"));
            }
            Some(value @ Value::String(text)) => {
                let problem = if name == "kind" { kind_problem(text) } else { version_problem(text) };
                if let Some(problem) = problem {
                    causes.push(Cause::invalid(field(name), value, &problem));
                }
            }
            Some(other) => causes.push(Cause::invalid(field(name), other, "must be a string")),
        }
    }
}

fn version_problem(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

fn kind_problem(kind: &str) -> Option<String> {
    let kind = kind.to_lowercase();
    let prefix = "may have mixed case, but should otherwise match: ";
    if kind.len() > 63 {
        return Some(format!("{prefix}must be no more than 63 characters"));
    }
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = kind.starts_with(|char: char| char.is_ascii_lowercase())
        && !kind.ends_with('-')
        && kind.bytes().all(inner);
    (!fits).then(|| {
        format!(
            "{prefix}a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used \
             for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
        )
    })
}
