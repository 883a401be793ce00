//! The server's requirements for the schema of a custom resource definition.
//!
//! First the invariants of structural schemas (types are given, and value validations only narrow what the structure declares),
//! then defaults, then the keywords one by one, last the rules. Each stage runs only if the previous one found no error.

mod compile;
mod document;
mod keywords;
mod nested;

use serde_json::{Map, Value};

use super::node::{At, DEPTH_MAX, UNTYPED};
use super::{prune, read, rules, validate};
use crate::cause::Cause;
use document::{EMBEDDED, INT_OR_STRING, PRESERVE, entries, flag, is_convertible, text};

/// The position of a node in a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns every reason for which a schema can't be used; fields start with `path`.
pub(super) fn check(schema: &Value, path: &str) -> Vec<Cause> {
    let Some(map) = schema.as_object() else {
        return vec![Cause::required(path, "")];
    };
    let mut causes = Vec::new();
    if flag(map, "nullable") {
        causes.push(Cause::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let mut found = Vec::new();
    keywords::check(map, path, keywords::Scope::root(), 0, &mut found);
    // With keywords that can't be converted, there is no structure to check.
    if is_convertible(schema, 0) {
        let mut structure = Vec::new();
        invariants(map, Level::Root, path, 0, &mut structure);
        nested::completeness(map, map, path, path, 0, &mut structure);
        structure.sort_by_key(ToString::to_string);
        if structure.is_empty() {
            let read = read::custom_resource(schema);
            defaults(At { arena: &read, id: read.root }, path, 0, &mut structure);
        }
        if structure.is_empty() {
            let broken = compile::check(map, path, &found);
            found.extend(broken);
        }
        causes.extend(structure);
    }
    causes.extend(found);
    causes
}

fn invariants(schema: &Map<String, Value>, level: Level, path: &str, depth: usize, causes: &mut Vec<Cause>) {
    if depth > DEPTH_MAX {
        return;
    }
    let kind = text(schema, "type");
    let items = schema.get("items").and_then(Value::as_object);
    if kind == "array" && items.is_none() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(items, Level::Item, &format!("{path}.items"), depth + 1, causes);
    }
    for (name, property) in entries(schema, "properties") {
        invariants(property, Level::Field, &format!("{path}.properties[{name}]"), depth + 1, causes);
    }
    let extra = schema.get("additionalProperties").filter(|extra| !extra.is_null());
    if extra.is_some() && level == Level::Root {
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), "must not be used at the root"));
    }
    if let Some(extra) = extra.and_then(Value::as_object) {
        invariants(extra, Level::Field, &format!("{path}.additionalProperties"), depth + 1, causes);
    }
    extensions(schema, path, causes);
    nested::value_validations(schema, nested::Skip::of(schema), path, depth, causes);
    types(schema, level, path, causes);
    if flag(schema, EMBEDDED) && extra.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(format!("{path}.additionalProperties"), detail));
    }
    metadata(schema, level, path, causes);
    if flag(schema, EMBEDDED) && !flag(schema, PRESERVE) && entries(schema, "properties").next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(format!("{path}.properties"), detail));
    }
}

fn extensions(schema: &Map<String, Value>, path: &str, causes: &mut Vec<Cause>) {
    for extension in [PRESERVE, EMBEDDED] {
        if flag(schema, INT_OR_STRING) && flag(schema, extension) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            causes.push(Cause::invalid(format!("{path}.{extension}"), &Value::from(true), detail));
        }
    }
}

fn types(schema: &Map<String, Value>, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let field = format!("{path}.type");
    let kind = text(schema, "type");
    if flag(schema, EMBEDDED) && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(if kind.is_empty() {
            Cause::required(field.clone(), detail)
        } else {
            Cause::invalid(field.clone(), &Value::from(kind), detail)
        });
    } else if kind.is_empty() && !flag(schema, INT_OR_STRING) && !flag(schema, PRESERVE) {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(Cause::required(field.clone(), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        causes.push(Cause::invalid(field, &Value::from(kind), "must be object at the root"));
    }
}

fn metadata(schema: &Map<String, Value>, level: Level, path: &str, causes: &mut Vec<Cause>) {
    let is_object = level == Level::Root || flag(schema, EMBEDDED);
    for (name, property) in entries(schema, "properties") {
        let path = format!("{path}.properties[{name}]");
        let kind = text(property, "type");
        match name.as_str() {
            "kind" | "apiVersion" if is_object && kind != "string" => {
                causes.push(Cause::invalid(format!("{path}.type"), &Value::from(kind), "must be string"));
            }
            "metadata" => {
                if is_object && kind != "object" {
                    causes.push(Cause::invalid(format!("{path}.type"), &Value::from(kind), "must be object"));
                }
                let allowed = ["type", "default", "properties", "description"];
                let known = |name: &String| name == "name" || name == "generateName";
                let says_more = property.keys().any(|key| !allowed.contains(&key.as_str()))
                    || property.contains_key("description")
                    || entries(property, "properties").any(|(name, _)| !known(name));
                if level == Level::Root && says_more {
                    let detail = "must not specify anything other than name and generateName, but metadata is \
                                  implicitly specified";
                    causes.push(Cause::forbidden(path, detail));
                }
            }
            _ => {}
        }
    }
}

/// Checks that defaults are valid values of the schema.
fn defaults(at: At<'_>, path: &str, depth: usize, causes: &mut Vec<Cause>) {
    if depth > DEPTH_MAX {
        return;
    }
    if let Some(default) = &at.node().default {
        let field = format!("{path}.default");
        let mut pruned = default.clone();
        prune::below(at, &mut pruned);
        if pruned != *default {
            causes.push(Cause::invalid(field.clone(), default, "must not have unknown fields"));
        }
        let mut found = validate::under(at, default, &field);
        if found.is_empty() {
            found = rules::broken(at, default, None);
        }
        causes.extend(found);
    }
    if let Some(items) = at.items().filter(|items| items.id > UNTYPED) {
        defaults(items, &format!("{path}.items"), depth + 1, causes);
    }
    for name in at.node().fields.keys() {
        if let Some(field) = at.declared(name) {
            defaults(field, &format!("{path}.properties[{name}]"), depth + 1, causes);
        }
    }
}

#[cfg(test)]
mod tests;
