//! The dependencies between the keywords of a schema.

use serde_json::{Map, Value};

use super::document::{EMBEDDED, PRESERVE, entries, flag, is_convertible, text};
use crate::cause::Cause;
use crate::schema::node::DEPTH_MAX;
use crate::schema::path::{Brackets, resolve};

/// The restrictions at a position in the schema.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    is_root: bool,
    in_metadata: bool,
    /// The top-level field that must not have defaults.
    no_defaults: Option<&'a str>,
}

impl Scope<'_> {
    pub(super) fn root() -> Self {
        Self { is_root: true, in_metadata: false, no_defaults: None }
    }
}

/// Checks a node and all below it.
pub(super) fn check(
    schema: &Map<String, Value>,
    path: &str,
    scope: Scope<'_>,
    depth: usize,
    causes: &mut Vec<Cause>,
) {
    if depth > DEPTH_MAX {
        return;
    }
    unsupported(schema, path, scope, causes);
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        causes.push(Cause::forbidden(format!("{path}.uniqueItems"), detail));
    }
    let inner = Scope { is_root: false, ..scope };
    let extra = schema.get("additionalProperties").filter(|extra| !extra.is_null());
    if let Some(extra) = extra {
        if entries(schema, "properties").next().is_some() && *extra != Value::Bool(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            causes.push(Cause::forbidden(format!("{path}.additionalProperties"), detail));
        }
        if let Some(extra) = extra.as_object() {
            check(extra, &format!("{path}.additionalProperties"), inner, depth + 1, causes);
        }
    }
    for (name, property) in entries(schema, "properties") {
        let is_meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let mut inner = inner;
        if is_meta && (scope.is_root || flag(schema, EMBEDDED)) {
            inner.in_metadata = true;
            inner.no_defaults = inner.no_defaults.or(scope.is_root.then_some(name.as_str()));
        }
        check(property, &format!("{path}.properties[{name}]"), inner, depth + 1, causes);
    }
    if let Some(not) = schema.get("not").and_then(Value::as_object) {
        check(not, &format!("{path}.not"), inner, depth + 1, causes);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, alternative) in
            schema.get(key).and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            if let Some(alternative) = alternative.as_object() {
                check(alternative, &format!("{path}.{key}[{index}]"), inner, depth + 1, causes);
            }
        }
    }
    if let Some(items) = schema.get("items").and_then(Value::as_object) {
        check(items, &format!("{path}.items"), inner, depth + 1, causes);
    }
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        causes.push(Cause::invalid(
            format!("{path}.{PRESERVE}"),
            &Value::from(false),
            "must be true or undefined",
        ));
    }
    map_type(schema, path, causes);
    list_type(schema, path, causes);
    list_map(schema, path, causes);
    rules(schema, path, causes);
}

fn unsupported(schema: &Map<String, Value>, path: &str, scope: Scope<'_>, causes: &mut Vec<Cause>) {
    const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        causes.push(Cause::unsupported(format!("{path}.type"), &Value::from(kind), &TYPES));
    }
    if let (Some(name), true) =
        (scope.no_defaults, schema.get("default").is_some_and(|default| !default.is_null()))
    {
        causes.push(Cause::forbidden(
            format!("{path}.default"),
            &format!("must not be set in top-level {name}"),
        ));
    }
    for key in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.get(key).is_some_and(|value| !value.is_null()) {
            causes.push(Cause::forbidden(format!("{path}.{key}"), &format!("{key} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        causes.push(Cause::forbidden(format!("{path}.type"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        causes.push(Cause::forbidden(
            format!("{path}.items"),
            "items must be a schema object and not an array",
        ));
    }
    if scope.in_metadata && flag(schema, EMBEDDED) {
        causes
            .push(Cause::forbidden(format!("{path}.{EMBEDDED}"), "must not be used inside of resource meta"));
    }
}

/// Checks that `type` matches an extension.
fn typed_for(schema: &Map<String, Value>, path: &str, wanted: &str, extension: &str) -> Option<Cause> {
    let kind = text(schema, "type");
    let detail = format!("must be {wanted} if {extension} is specified");
    match kind {
        kind if kind == wanted => None,
        "" => Some(Cause::required(format!("{path}.type"), &detail)),
        kind => Some(Cause::invalid(format!("{path}.type"), &Value::from(kind), &detail)),
    }
}

fn map_type(schema: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let Some(map) = schema.get("x-kubernetes-map-type") else { return };
    causes.extend(typed_for(schema, path, "object", "x-kubernetes-map-type"));
    if map != "atomic" && map != "granular" {
        causes.push(Cause::unsupported(
            format!("{path}.x-kubernetes-map-type"),
            map,
            &["atomic", "granular"],
        ));
    }
}

fn list_type(schema: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    const FIELD: &str = "x-kubernetes-list-type";
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .is_some_and(|keys| !keys.is_empty());
    let Some(list) = schema.get(FIELD) else {
        if keys {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            causes.push(Cause::required(format!("{path}.{FIELD}"), detail));
        }
        return;
    };
    match typed_for(schema, path, "array", FIELD) {
        Some(cause) => causes.push(cause),
        None if list == "set" => {
            let items = schema.get("items").and_then(Value::as_object);
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            let items_list = items.and_then(|items| items.get(FIELD));
            match items.map(|items| text(items, "type")) {
                Some("array") if items_list.is_some_and(|list| list != "atomic") => {
                    let value = items_list.unwrap_or(&Value::Null);
                    causes.push(Cause::invalid(format!("{path}.items.{FIELD}"), value, detail));
                }
                Some("object")
                    if items.is_some_and(|items| text(items, "x-kubernetes-map-type") != "atomic") =>
                {
                    let value = items_list.unwrap_or(&Value::Null);
                    causes.push(Cause::invalid(format!("{path}.items.x-kubernetes-map-type"), value, detail));
                }
                _ => {}
            }
        }
        None => {}
    }
    if list != "atomic" && list != "set" && list != "map" {
        causes.push(Cause::unsupported(format!("{path}.{FIELD}"), list, &["atomic", "set", "map"]));
    }
    if keys && list != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        causes.push(Cause::invalid(format!("{path}.{FIELD}"), list, detail));
    }
}

fn list_map(schema: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    let list = text(schema, "x-kubernetes-list-type");
    let items = schema.get("items").and_then(Value::as_object);
    let no_keys = Value::Array(Vec::new());
    let keys = schema.get("x-kubernetes-list-map-keys").unwrap_or(&no_keys);
    let names: Vec<&str> = keys.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if list == "map" {
        map_items(items, keys, &names, path, causes);
    }
    let Some(items) = items.filter(|_| list == "map" || list == "set") else { return };
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list}");
        causes.push(Cause::forbidden(format!("{path}.items.nullable"), &detail));
    }
    if list == "set" {
        return;
    }
    let required: Vec<&str> = items
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for name in names {
        let property =
            items.get("properties").and_then(|properties| properties.get(name)).and_then(Value::as_object);
        let Some(property) = property else { continue };
        let field = format!("{path}.items.properties[{name}]");
        if !required.contains(&name) && property.get("default").is_none_or(Value::is_null) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(format!("{field}.default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(format!("{field}.nullable"), detail));
        }
    }
}

fn map_items(
    items: Option<&Map<String, Value>>,
    keys: &Value,
    names: &[&str],
    path: &str,
    causes: &mut Vec<Cause>,
) {
    let keys_field = format!("{path}.x-kubernetes-list-map-keys");
    if names.is_empty() {
        causes
            .push(Cause::required(keys_field.clone(), "must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(items) = items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        causes.push(Cause::required(format!("{path}.items"), detail));
        return;
    };
    let kind = Value::from(text(items, "type"));
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(format!("{path}.items.type"), &kind, detail));
        return;
    }
    for (index, name) in names.iter().enumerate() {
        match items.get("properties").and_then(|properties| properties.get(*name)) {
            Some(property) if property["type"] == "array" || property["type"] == "object" => {
                let field = format!("{path}.items.properties[{name}].type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                causes.push(Cause::invalid(field, &kind, detail));
            }
            Some(_) => {}
            None => {
                causes.push(Cause::invalid(
                    keys_field.clone(),
                    keys,
                    "entries must all be names of item properties",
                ));
            }
        }
        if names[..index].contains(name) {
            causes.push(Cause::invalid(keys_field.clone(), keys, "must not contain duplicate entries"));
        }
    }
}

fn rules(schema: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let Some(rule) = rule.as_object() else { continue };
        let field = |name: &str| format!("{path}.x-kubernetes-validations[{index}].{name}");
        let (source, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if source.is_empty() {
            causes.push(Cause::required(field("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            causes.push(Cause::invalid(
                field("message"),
                &Value::from(message),
                "must be non-empty if specified",
            ));
        } else if message.trim().contains('\n') {
            causes.push(Cause::invalid(
                field("message"),
                &Value::from(message),
                "must not contain line breaks",
            ));
        } else if source.contains('\n') && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            causes.push(Cause::required(field("message"), detail));
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            causes.push(Cause::required(field("messageExpression"), detail));
        }
        if let Some(reason) =
            rule.get("reason").filter(|reason| !REASONS.iter().any(|known| *reason == known))
        {
            causes.push(Cause::unsupported(field("reason"), reason, &REASONS));
        }
        let below = text(rule, "fieldPath");
        if !below.is_empty() && below.trim().is_empty() {
            let detail = "must be non-empty if specified";
            causes.push(Cause::invalid(field("fieldPath"), &Value::from(below), detail));
        }
        if below.contains(['\n', '\r']) {
            let detail = "must not contain line breaks";
            causes.push(Cause::invalid(field("fieldPath"), &Value::from(below), detail));
        }
        let is_path = || resolve(schema, below, Brackets::Allowed).is_ok();
        if !below.is_empty() && !is_path() && is_convertible(&Value::Object(schema.clone()), 0) {
            causes.push(Cause::invalid(field("fieldPath"), &Value::from(below), "must be a valid path"));
        }
    }
}
