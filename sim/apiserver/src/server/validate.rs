//! The rules for `metadata` of every kind.

use serde_json::{Map, Value};

use super::names::{self, NameRule};
use super::status::quote;
use super::{meta, registry::Resource};
use crate::cause::Cause;

/// Maximum total size of annotations, keys and values, in bytes.
const ANNOTATIONS_SIZE_MAX_BYTES: usize = 256 * 1024;

pub(crate) fn invalid(field: impl Into<String>, value: &str, why: &str) -> Cause {
    Cause {
        reason: "FieldValueInvalid",
        field: field.into(),
        message: format!("Invalid value: {value}: {why}"),
    }
}

fn required(field: &str, why: &str) -> Cause {
    Cause { reason: "FieldValueRequired", field: field.to_owned(), message: format!("Required value: {why}") }
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause { reason: "FieldValueForbidden", field: field.to_owned(), message: format!("Forbidden: {why}") }
}

/// Validates the metadata of a new object.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = object_meta(resource, object, NameRule::of(&resource.group, &resource.plural));
    if has_standard_finalizers(resource) {
        causes.extend(standard_finalizers(object));
    }
    causes
}

/// Validates the metadata of an update.
pub(crate) fn update(resource: &Resource, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = object_meta(resource, new, NameRule::PathSegment);
    let changes = changes(new, old);
    causes.extend(changes.iter().cloned());
    // The code of the kinds checks the same again, so each cause occurs twice.
    causes.extend(changes);
    if has_standard_finalizers(resource) {
        causes.extend(standard_finalizers(new));
    }
    causes
}

/// Checks the changes of metadata that an update must not make.
fn changes(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if meta::is_deleting(old) {
        causes.extend(no_new_finalizers(new, old));
    }
    for key in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
        if meta::field(new, key) != meta::field(old, key) {
            let value = meta::field(new, key).and_then(Value::as_str).map_or("null".to_owned(), quote);
            causes.push(invalid(format!("metadata.{key}"), &value, "field is immutable"));
        }
    }
    let key = "deletionGracePeriodSeconds";
    if meta::field(new, key) != meta::field(old, key) {
        let value = meta::field(new, key).map_or("null".to_owned(), ToString::to_string);
        causes.push(invalid(format!("metadata.{key}"), &value, "field is immutable"));
    }
    causes.extend(labels(new));
    causes.extend(annotations(new));
    causes.extend(owner_references(new));
    causes
}

fn object_meta(resource: &Resource, object: &Value, rule: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();
    let generate = meta::text(object, "generateName");
    if !generate.is_empty() {
        let problems = rule.check(generate, true);
        causes.extend(problems.iter().map(|why| invalid("metadata.generateName", &quote(generate), why)));
    }
    let name = meta::name(object);
    if name.is_empty() {
        causes.push(required("metadata.name", "name or generateName is required"));
    } else {
        let problems = rule.check(name, false);
        causes.extend(problems.iter().map(|why| invalid("metadata.name", &quote(name), why)));
    }
    let namespace = meta::namespace(object);
    if !resource.namespaced && !namespace.is_empty() {
        causes.push(forbidden("metadata.namespace", "not allowed on this type"));
    } else if resource.namespaced {
        let problems = names::label(namespace);
        causes.extend(problems.iter().map(|why| invalid("metadata.namespace", &quote(namespace), why)));
    }
    causes.extend(labels(object));
    causes.extend(annotations(object));
    causes.extend(owner_references(object));
    causes.extend(finalizers(object));
    causes
}

fn entries<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a str)> {
    let map: Option<&Map<String, Value>> = meta::field(object, key).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

fn labels(object: &Value) -> Vec<Cause> {
    let field = "metadata.labels";
    let mut causes = Vec::new();
    for (key, value) in entries(object, "labels") {
        causes.extend(names::qualified_name(key).iter().map(|why| invalid(field, &quote(key), why)));
        causes.extend(names::label_value(value).map(|why| invalid(field, &quote(value), &why)));
    }
    causes
}

fn annotations(object: &Value) -> Vec<Cause> {
    let field = "metadata.annotations";
    let mut causes = Vec::new();
    let mut size = 0;
    for (key, value) in entries(object, "annotations") {
        size += key.len() + value.len();
        let problems = names::qualified_name(&key.to_lowercase());
        causes.extend(problems.iter().map(|why| invalid(field, &quote(key), why)));
    }
    if size > ANNOTATIONS_SIZE_MAX_BYTES {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: field.to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS_SIZE_MAX_BYTES} bytes"),
        });
    }
    causes
}

fn owner_references(object: &Value) -> Vec<Cause> {
    let field = "metadata.ownerReferences";
    let mut causes = Vec::new();
    let mut controller: Option<String> = None;
    let references = meta::field(object, "ownerReferences");
    for reference in references.and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion").rsplit('/').next().unwrap_or_default().is_empty() {
            causes.push(invalid(
                format!("{field}.apiVersion"),
                &quote(text("apiVersion")),
                "version must not be empty",
            ));
        }
        for key in ["kind", "name", "uid"] {
            if text(key).is_empty() {
                causes.push(invalid(format!("{field}.{key}"), "\"\"", "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(invalid(field, &reference.to_string(), why));
        }
        if reference.get("controller") == Some(&Value::Bool(true)) {
            let name = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let all = references.map(ToString::to_string).unwrap_or_default();
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                causes.push(invalid(field, &all, &why));
            } else {
                controller = Some(name);
            }
        }
    }
    causes
}

fn finalizers(object: &Value) -> Vec<Cause> {
    let field = "metadata.finalizers";
    let all = meta::finalizers(object);
    let mut causes: Vec<Cause> = all
        .iter()
        .flat_map(|name| {
            names::qualified_name(name).into_iter().map(|why| invalid(field, &quote(name), &why))
        })
        .collect();
    if all.contains(&meta::ORPHAN) && all.contains(&meta::FOREGROUND) {
        let list = meta::field(object, "finalizers").map(ToString::to_string).unwrap_or_default();
        let why = format!("finalizer {} and {} cannot be both set", meta::FOREGROUND, meta::ORPHAN);
        causes.push(invalid(field, &list, &why));
    }
    causes
}

/// Returns whether the code of the kind checks finalizers beyond their syntax.
fn has_standard_finalizers(resource: &Resource) -> bool {
    let is_without = matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("admissionregistration.k8s.io" | "apiextensions.k8s.io" | "coordination.k8s.io", _)
            | ("", "events")
            | ("policy", "poddisruptionbudgets")
    );
    !resource.is_custom() && !is_without
}

/// Checks the finalizers of built-in kinds: they are qualified or well known.
fn standard_finalizers(object: &Value) -> Vec<Cause> {
    const STANDARD: [&str; 3] = ["kubernetes", meta::ORPHAN, meta::FOREGROUND];
    let mut causes = Vec::new();
    for (index, name) in meta::finalizers(object).into_iter().enumerate() {
        let field = format!("metadata.finalizers[{index}]");
        causes.extend(names::qualified_name(name).iter().map(|why| invalid(&field, &quote(name), why)));
        if !name.contains('/') && !STANDARD.contains(&name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(invalid(&field, &quote(name), why));
        }
    }
    causes
}

fn no_new_finalizers(new: &Value, old: &Value) -> Option<Cause> {
    let known = meta::finalizers(old);
    let mut added: Vec<&str> =
        meta::finalizers(new).into_iter().filter(|finalizer| !known.contains(finalizer)).collect();
    added.sort_unstable();
    added.dedup();
    (!added.is_empty()).then(|| {
        let list: Vec<String> = added.iter().map(|finalizer| quote(finalizer)).collect();
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        );
        forbidden("metadata.finalizers", &why)
    })
}
