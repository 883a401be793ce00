//! Defaults of a schema, and the nulls that they replace.

use serde_json::Value;

use super::node::{At, DEPTH_MAX, Extra};

/// Sets absent fields, and nulls where null is not a value, to their defaults, recursively.
pub(super) fn apply(at: At<'_>, value: &mut Value, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, &id) in &at.node().fields {
                let field = at.to(id).node();
                let Some(default) = &field.default else { continue };
                match map.get_mut(name) {
                    None => {
                        map.insert(name.clone(), default.clone());
                    }
                    Some(old) if old.is_null() && !field.nullable => *old = default.clone(),
                    Some(_) => {}
                }
            }
            for (name, value) in map.iter_mut() {
                if let Some(field) = at.field(name) {
                    apply(field, value, depth + 1);
                } else if let Extra::Of(id) = at.node().extra {
                    item(at.to(id), value, depth);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = at.items() {
                for value in list {
                    item(items, value, depth);
                }
            }
        }
        _ => {}
    }
}

fn item(at: At<'_>, value: &mut Value, depth: usize) {
    if value.is_null() && !at.node().nullable {
        *value = at.node().default.clone().unwrap_or(Value::Null);
    }
    apply(at, value, depth + 1);
}

/// Removes nulls of fields that can't be null and have no default.
pub(super) fn drop_nulls(at: At<'_>, value: &mut Value, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let field = match at.field(name) {
                Some(field) => field,
                None => match at.node().extra {
                    Extra::Of(id) => at.to(id),
                    _ => return true,
                },
            };
            if value.is_null() {
                return !at.arena.built_in && (field.node().nullable || field.node().default.is_some());
            }
            drop_nulls(field, value, depth + 1);
            true
        }),
        Value::Array(list) => {
            if let Some(items) = at.items() {
                for value in list {
                    drop_nulls(items, value, depth + 1);
                }
            }
        }
        _ => {}
    }
}

/// Returns whether a default equals the zero value of the server's structs.
fn is_zero(default: &Value) -> bool {
    match default {
        Value::Object(map) => map.is_empty(),
        Value::String(string) => string.is_empty(),
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Bool(bool) => !bool,
        Value::Null | Value::Array(_) => false,
    }
}

/// Adds the fields that the server's structs always have: zero values, and null for required ones without a zero value.
pub(super) fn complete(at: At<'_>, value: &mut Value, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, &id) in &at.node().fields {
                if let Some(default) = at.to(id).node().default.as_ref().filter(|default| is_zero(default)) {
                    map.entry(name.clone()).or_insert_with(|| default.clone());
                }
            }
            for name in at.node().required() {
                map.entry(name.clone()).or_insert(Value::Null);
            }
            for (name, value) in map.iter_mut() {
                if let Some(child) = at.child(name) {
                    complete(child, value, depth + 1);
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = at.items() {
                for value in list {
                    complete(items, value, depth + 1);
                }
            }
        }
        _ => {}
    }
}
