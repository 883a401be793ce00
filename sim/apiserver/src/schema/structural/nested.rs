//! Value validations under `allOf`, `anyOf`, `oneOf` and `not` may narrow the structure, but not extend it.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::document::{entries, text};
use crate::cause::Cause;
use crate::schema::node::DEPTH_MAX;

/// The positions at which `anyOf: [integer, string]` is the idiom for values of both types.
#[derive(Clone, Copy, Default)]
pub(super) struct Skip {
    any_of: bool,
    first_all_of: bool,
}

impl Skip {
    pub(super) fn of(schema: &Map<String, Value>) -> Self {
        let is_idiom =
            |any_of: Option<&Value>| any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]));
        let first = schema.get("allOf").and_then(|all_of| all_of.get(0));
        Self {
            any_of: is_idiom(schema.get("anyOf")),
            first_all_of: is_idiom(first.and_then(|first| first.get("anyOf"))),
        }
    }
}

/// Checks the value validations of a node.
pub(super) fn value_validations(
    schema: &Map<String, Value>,
    skip: Skip,
    path: &str,
    depth: usize,
    causes: &mut Vec<Cause>,
) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skip.any_of {
            continue;
        }
        for (index, alternative) in alternatives(schema, key) {
            let any_of = key == "allOf" && index == 0 && skip.first_all_of;
            let skip = Skip { any_of, first_all_of: false };
            nested(alternative, skip, &format!("{path}.{key}[{index}]"), depth + 1, causes);
        }
    }
    if let Some(not) = schema.get("not").and_then(Value::as_object) {
        nested(not, Skip::default(), &format!("{path}.not"), depth + 1, causes);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = Regex::new(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(format!("{path}.pattern"), &Value::from(pattern), &detail));
    }
}

fn nested(schema: &Map<String, Value>, skip: Skip, path: &str, depth: usize, causes: &mut Vec<Cause>) {
    const FORBIDDEN: [(&str, &str); 12] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
    ];
    if depth > DEPTH_MAX {
        return;
    }
    value_validations(schema, skip, path, depth, causes);
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        nested(items, Skip::default(), &format!("{path}.items"), depth + 1, causes);
    }
    for (name, property) in entries(schema, "properties") {
        nested(property, Skip::default(), &format!("{path}.properties[{name}]"), depth + 1, causes);
    }
    for (key, detail) in FORBIDDEN {
        let is_set = schema.get(key).is_some_and(|value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Bool(bool) => *bool || key == "additionalProperties",
            Value::Array(list) => !list.is_empty(),
            Value::Null => false,
            _ => true,
        });
        if is_set {
            causes.push(Cause::forbidden(format!("{path}.{key}"), detail));
        }
    }
    if schema.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty())
    {
        let field = format!("{path}.x-kubernetes-validations");
        causes.push(Cause::forbidden(field, "must be empty to be structural"));
    }
    if schema.get("properties").is_some_and(|properties| properties.get("metadata").is_some()) {
        let field = format!("{path}.properties[metadata]");
        causes.push(Cause::forbidden(field, "must not be specified in a nested context"));
    }
}

/// Checks that value validations refer only to declared fields.
pub(super) fn completeness(
    validations: &Map<String, Value>,
    structure: &Map<String, Value>,
    structure_path: &str,
    path: &str,
    depth: usize,
    causes: &mut Vec<Cause>,
) {
    if depth > DEPTH_MAX {
        return;
    }
    let mut each = |nested: &Map<String, Value>, path: &str| {
        nested_completeness(nested, structure, structure_path, path, depth + 1, causes);
    };
    if let Some(not) = validations.get("not").and_then(Value::as_object) {
        each(not, &format!("{path}.not"));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, alternative) in alternatives(validations, key) {
            each(alternative, &format!("{path}.{key}[{index}]"));
        }
    }
}

fn nested_completeness(
    nested: &Map<String, Value>,
    structure: &Map<String, Value>,
    structure_path: &str,
    path: &str,
    depth: usize,
    causes: &mut Vec<Cause>,
) {
    completeness(nested, structure, structure_path, path, depth, causes);
    let mut below = |nested: &Map<String, Value>, structure: Option<&Value>, step: &str| {
        let (structure_path, path) = (format!("{structure_path}{step}"), format!("{path}{step}"));
        match structure.and_then(Value::as_object) {
            Some(structure) => {
                nested_completeness(nested, structure, &structure_path, &path, depth + 1, causes);
            }
            None => causes.push(Cause::required(structure_path, &format!("because it is defined in {path}"))),
        }
    };
    if let Some(items) = nested.get("items").and_then(Value::as_object) {
        below(items, structure.get("items"), ".items");
    }
    for (name, property) in entries(nested, "properties") {
        let declared = structure.get("properties").and_then(|properties| properties.get(name));
        below(property, declared, &format!(".properties[{name}]"));
    }
}

fn alternatives<'v>(
    schema: &'v Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (usize, &'v Map<String, Value>)> {
    let list = schema.get(key).and_then(Value::as_array);
    list.into_iter().flatten().enumerate().filter_map(|(index, value)| Some((index, value.as_object()?)))
}
