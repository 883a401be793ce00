//! Defaulting by type: the rules of a type apply wherever it occurs in an object, the outer ones first.

mod fields;
mod rules;
mod tables;

use serde_json::Value;

use super::resource::Resource;
use super::types::{self, Definition, Shape};

/// Sets the defaults of a normalised object.
pub(super) fn apply(resource: &Resource, object: &mut Value) {
    if let Some(name) = types::of_resource(resource) {
        visit_named(name, object);
    }
}

fn visit(shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Pointer(inner), value) => visit(inner, value),
        (Shape::Named(name), value) => visit_named(name, value),
        (Shape::List(item), Value::Array(items)) => items.iter_mut().for_each(|value| visit(item, value)),
        (Shape::Map { value: entry, .. }, Value::Object(entries)) => {
            entries.values_mut().for_each(|value| visit(entry, value));
        }
        _ => {}
    }
}

fn visit_named(name: &'static str, value: &mut Value) {
    match types::lookup(name) {
        Some(Definition::Struct(fields)) => {
            let Some(object) = value.as_object_mut() else { return };
            rules::apply(name, object);
            for (field, default) in tables::of_type(name) {
                let is_pointer =
                    fields.get(field).is_some_and(|field| matches!(field.shape, Shape::Pointer(_)));
                // An empty string counts as a value only behind a pointer.
                if !is_pointer || object.get(*field).is_none_or(Value::is_null) {
                    fields::set(object, field, default.value());
                }
            }
            for (key, field) in fields {
                if let Some(child) = object.get_mut(*key) {
                    visit(&field.shape, child);
                }
            }
        }
        Some(Definition::Alias(shape)) => {
            if types::short(name) == "ResourceList" {
                rules::round_resource_list(value);
            }
            visit(shape, value);
        }
        Some(Definition::Custom) | None => {}
    }
}
