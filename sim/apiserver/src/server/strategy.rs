//! The differences between kinds in the handling of objects: defaults, fields to reset, and changes that increment the
//! generation.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::crd::{definition, rules};
use super::registry::{Origin, Resource};
use super::scope::Scope;
use super::{meta, namespace};
use crate::builtin::{self, Source};
use crate::cause::Cause;

/// Decodes an object to the stored form, and returns the paths of unknown fields. The error says why it can't be decoded.
/// Metadata of a custom resource that are the same as in the live object have this form.
pub(super) fn read(
    scope: &Scope,
    object: &mut Value,
    live: Option<&Value>,
    source: Source,
) -> Result<Vec<String>, String> {
    let version = scope.version();
    if let Some(resource) = version.builtin_resource() {
        return read_builtin(resource, object, source).map_err(|error| {
            let (_, why) = error.split_once(" cannot be handled as a ").unwrap_or(("", &error));
            why.split_once(": ").map_or(why, |(_, why)| why).to_owned()
        });
    }
    let metadata =
        object.get("metadata").filter(|metadata| live.is_none_or(|live| live["metadata"] != **metadata));
    let typed = metadata.map(builtin::read_metadata).transpose()?;
    let Some(schema) = version.schema() else {
        settle(object, typed);
        return Ok(Vec::new());
    };
    for (path, metadata) in schema.embedded_metadata(object) {
        builtin::read_metadata(&metadata)
            .map_err(|why| format!("{path}: Invalid value: {metadata}: {why}"))?;
    }
    let unknown = schema.prune(object);
    settle(object, typed);
    schema.drop_nulls(object);
    Ok(unknown)
}

/// Decodes a built-in kind. An explicit empty list belongs to the client that set it, although it is stored like an absent one.
fn read_builtin(
    resource: &builtin::Resource,
    object: &mut Value,
    source: Source,
) -> Result<Vec<String>, String> {
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let fields = object.as_object().into_iter().flatten();
    let empty: Vec<String> =
        fields.filter(|(_, value)| is_empty(value)).map(|(key, _)| key.clone()).collect();
    let forgets_managers = meta::field(object, "managedFields").is_some_and(is_empty);
    let unknown = builtin::normalise(resource, object, source)?;
    for key in empty {
        if object.get(&key).is_some_and(Value::is_null) {
            object[key] = Value::Array(Vec::new());
        }
    }
    if forgets_managers {
        meta::set(object, "managedFields", Value::Array(Vec::new()));
    }
    Ok(unknown)
}

/// Converts a custom resource after an apply, merged into the live object, to the stored form.
pub(super) fn settle_applied(object: &mut Value) -> Result<(), String> {
    let typed = object.get("metadata").map(builtin::read_metadata).transpose()?;
    settle(object, typed);
    Ok(())
}

/// Normalises the metadata of a custom resource as its type does: without nulls and empty lists and maps.
fn settle(object: &mut Value, metadata: Option<Value>) {
    // An empty list of managed fields resets the ownership.
    let forgets_managers = meta::field(object, "managedFields")
        .is_some_and(|managed| managed.as_array().is_some_and(Vec::is_empty));
    if let Some(metadata) = metadata {
        object["metadata"] = metadata;
    }
    if forgets_managers {
        meta::set(object, "managedFields", Value::Array(Vec::new()));
    }
}

/// Converts a valid object to the form in which etcd returns it: in custom resources, floats without a fraction are integers.
/// Before that they are floats, which a rule on an int-or-string refuses.
pub(super) fn encode(scope: &Scope, object: &mut Value) {
    if scope.resource.is_custom() {
        whole_numbers(object);
    }
}

pub(super) fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.is_f64().then(|| builtin::whole(number)).flatten() {
                *value = whole.into();
            }
        }
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        Value::Array(list) => list.iter_mut().for_each(whole_numbers),
        _ => {}
    }
}

pub(super) fn apply_defaults(scope: &Scope, object: &mut Value) {
    match &scope.version().origin {
        Origin::Builtin(resource) => {
            builtin::apply_defaults(resource, object);
            if definition::is_definition(&scope.resource) {
                definition::apply_defaults(object);
            }
        }
        Origin::Custom(_) => {
            if let Some(schema) = scope.version().schema() {
                schema.apply_defaults(object);
            }
        }
    }
}

/// Returns the fields that the endpoint never changes, and so never owns.
pub(super) fn reset_fields(scope: &Scope) -> &'static [&'static str] {
    match &scope.version().origin {
        Origin::Builtin(resource) => builtin::reset_fields(resource, scope.tracked_subresource()),
        Origin::Custom(_) if scope.subresource == "status" => &["metadata", "spec"],
        Origin::Custom(_) if scope.version().has_subresource("status") => &["status"],
        Origin::Custom(_) => &[],
    }
}

/// Removes the fields of a new object that the endpoint does not set.
pub(super) fn reset_create(scope: &Scope, object: &mut Value) {
    match &scope.version().origin {
        Origin::Builtin(resource) if builtin::keeps_new_status(resource) => {}
        Origin::Builtin(resource) => {
            for field in builtin::reset_fields(resource, None) {
                take(object, field);
            }
        }
        Origin::Custom(_) if scope.version().has_subresource("status") => remove(object, "status"),
        Origin::Custom(_) => {}
    }
    meta::remove(object, "generation");
}

/// Restores the fields that the endpoint does not change.
pub(super) fn reset_update(scope: &Scope, new: &mut Value, live: &Value) {
    match &scope.version().origin {
        Origin::Builtin(_) => {
            for field in reset_fields(scope) {
                put_back(new, live, field);
            }
        }
        Origin::Custom(_) if scope.subresource == "status" => {
            put_all_back(new, live, &["apiVersion", "metadata", "status"]);
            put_all_back(&mut new["metadata"], &live["metadata"], &["managedFields", "resourceVersion"]);
        }
        Origin::Custom(_) if scope.version().has_subresource("status") => put_back(new, live, "status"),
        Origin::Custom(_) => {}
    }
}

/// Removes the field at a dotted path.
fn take(object: &mut Value, path: &str) {
    match path.split_once('.') {
        None => remove(object, path),
        Some((key, rest)) => {
            if let Some(inner) = object.get_mut(key) {
                take(inner, rest);
            }
        }
    }
}

/// Sets the field at a dotted path to its value in the live object.
fn put_back(new: &mut Value, live: &Value, path: &str) {
    if path == "metadata" {
        for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
            put_back(new, live, &format!("metadata.{key}"));
        }
        return;
    }
    match (path.split_once('.'), live) {
        (None, live) => match live.get(path) {
            Some(value) => {
                if let Some(new) = new.as_object_mut() {
                    new.insert(path.to_owned(), value.clone());
                }
            }
            None => remove(new, path),
        },
        (Some((key, rest)), live) => {
            meta::map_at(new, key);
            put_back(&mut new[key], &live[key], rest);
        }
    }
}

/// Sets all fields but these to their values in the live object. Most are equal already, and are not copied.
fn put_all_back(new: &mut Value, live: &Value, except: &[&str]) {
    let (Some(new), Some(live)) = (new.as_object_mut(), live.as_object()) else { return };
    let is_fixed = |key: &str| !except.contains(&key);
    new.retain(|key, _| !is_fixed(key) || live.contains_key(key));
    for (key, value) in live.iter().filter(|(key, _)| is_fixed(key)) {
        if new.get(key) != Some(value) {
            new.insert(key.clone(), value.clone());
        }
    }
}

fn remove(object: &mut Value, key: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(key);
    }
}

pub(super) fn prepare_create(scope: &Scope, object: &mut Value) {
    match &scope.version().origin {
        Origin::Builtin(resource) => {
            builtin::prepare_create(resource, object);
            if builtin::tracks_generation(resource) {
                meta::set(object, "generation", 1);
            }
            if definition::is_definition(&scope.resource) {
                definition::prepare(object, false);
            }
        }
        Origin::Custom(_) => meta::set(object, "generation", 1),
    }
}

pub(super) fn prepare_update(scope: &Scope, new: &mut Value, live: &Value, now: Timestamp) {
    match &scope.version().origin {
        Origin::Builtin(resource) => {
            let subresource = Some(scope.subresource.as_str()).filter(|name| !name.is_empty());
            builtin::prepare_update(resource, subresource, new, live, now);
            if subresource.is_none() && builtin::generation_changes(resource, live, new) {
                meta::set(new, "generation", meta::generation(live) + 1);
            }
            if definition::is_definition(&scope.resource) {
                definition::prepare(new, subresource == Some("status"));
            }
        }
        Origin::Custom(_) => {
            let has_status = scope.version().has_subresource("status");
            if scope.subresource != "status" && differs(new, live, has_status) {
                meta::set(new, "generation", meta::generation(live) + 1);
            }
        }
    }
}

/// Returns whether two custom objects differ outside `metadata`, and outside `status` if that is a subresource.
fn differs(new: &Value, live: &Value, has_status: bool) -> bool {
    let ignored = |key: &str| key == "metadata" || key == "apiVersion" || (key == "status" && has_status);
    let fields = |object| Value::as_object(object).into_iter().flatten().filter(|(key, _)| !ignored(key));
    !fields(new).eq(fields(live))
}

pub(super) fn validate(scope: &Scope, object: &Value, old: Option<&Arc<Value>>) -> Vec<Cause> {
    let old = old.map(AsRef::as_ref);
    match (&scope.version().origin, scope.version().schema()) {
        (Origin::Builtin(resource), _) => {
            // Whichever endpoint creates an object, it is validated as a whole.
            let subresource = scope.tracked_subresource().filter(|_| old.is_some());
            let mut causes = builtin::validate(resource, subresource, object, old);
            // A write of the status changes nothing that the rules are about.
            if definition::is_definition(&scope.resource) && subresource != Some("status") {
                causes.extend(rules::validate(object, old));
            }
            causes
        }
        (Origin::Custom(_), Some(schema)) => match old {
            Some(old) if scope.subresource == "status" => schema.validate_status(object, old),
            _ => schema.validate(object, old),
        },
        (Origin::Custom(_), None) => Vec::new(),
    }
}

/// Returns the warning for every request to a deprecated resource or version.
pub(super) fn deprecation(scope: &Scope) -> Option<String> {
    if let Some(entry) = scope.version().crd_entry() {
        return definition::deprecation(&scope.resource, scope.version(), entry);
    }
    match (scope.resource.group.as_str(), scope.resource.plural.as_str()) {
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
        }
        _ => None,
    }
}

/// Returns the warnings for an object that [`validate`] accepts.
pub(super) fn warnings(scope: &Scope, object: &Value, old: Option<&Arc<Value>>) -> Vec<String> {
    match &scope.version().origin {
        Origin::Builtin(resource) if scope.subresource.is_empty() || old.is_none() => {
            builtin::warnings(resource, object, old.map(AsRef::as_ref))
        }
        Origin::Custom(_) if scope.subresource.is_empty() => new_finalizers(object, old),
        Origin::Builtin(_) | Origin::Custom(_) => Vec::new(),
    }
}

/// Returns warnings for new finalizers of a custom resource with names that may conflict with others.
fn new_finalizers(object: &Value, old: Option<&Arc<Value>>) -> Vec<String> {
    let known = old.map(|old| meta::finalizers(old)).unwrap_or_default();
    let mut new: Vec<&str> =
        meta::finalizers(object).into_iter().filter(|finalizer| !known.contains(finalizer)).collect();
    new.sort_unstable();
    new.dedup();
    let doubtful = new
        .into_iter()
        .filter(|name| !name.contains('/') && !["kubernetes", meta::ORPHAN, meta::FOREGROUND].contains(name));
    let advice = |name: &str| {
        let form = if name.contains('.') { "name including a path (/)" } else { "name" };
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer {form} to avoid accidental conflicts with other finalizer writers"
        )
    };
    doubtful.map(advice).collect()
}

/// Returns whether an object that is being deleted has no finalizers left.
pub(super) fn is_finished(resource: &Resource, object: &Value) -> bool {
    let grace = meta::field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && grace == 0
        && !(resource.is("", "namespaces") && namespace::has_finalizers(object))
}

/// Returns whether a PUT may leave the resource version out.
pub(super) fn allows_unconditional_update(scope: &Scope) -> bool {
    scope.version().builtin_resource().is_some_and(builtin::allows_unconditional_update)
}

/// Returns whether a PUT to a missing name creates the object. A PUT of a status follows the strategy of the kind.
pub(super) fn allows_create_on_update(scope: &Scope) -> bool {
    let is_object = scope.subresource.is_empty() || scope.subresource == "status";
    is_object && scope.version().builtin_resource().is_some_and(builtin::creates_on_update)
}

/// Returns whether an apply to a missing name creates the object. An apply of a status does so for few kinds.
pub(super) fn allows_create_on_apply(scope: &Scope) -> bool {
    scope.subresource.is_empty()
        || allows_create_on_update(scope)
        || (scope.subresource == "status"
            && scope.resource.is("admissionregistration.k8s.io", "validatingadmissionpolicies"))
}

/// Returns whether a deletion without a policy orphans the dependents.
pub(super) fn orphans_by_default(resource: &Resource) -> bool {
    resource.is("batch", "jobs") || resource.is("", "replicationcontrollers")
}

/// Returns whether a deletion is answered with the object instead of a status.
pub(super) fn returns_deleted_object(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "",
            "resourcequotas"
                | "persistentvolumes"
                | "persistentvolumeclaims"
                | "serviceaccounts"
                | "namespaces"
                | "pods"
                | "services"
                | "podtemplates"
        ) | (
            "storage.k8s.io",
            "csidrivers" | "storageclasses" | "volumeattachments" | "csinodes" | "volumeattributesclasses"
        ) | ("resource.k8s.io", _)
    )
}
