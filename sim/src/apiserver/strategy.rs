//! What differs between kinds in the life of an object: defaults, what is reset, what counts as a new generation.

use std::sync::Arc;

use serde_json::Value;

use super::registry::{Origin, Resource};
use super::scope::Scope;
use super::{crd, meta};
use crate::builtin;
use crate::cause::Cause;

/// Drops nulls where a Go type can't tell them from absence: everywhere in built-in kinds, else in `metadata`.
pub(super) fn drop_nulls(scope: &Scope, object: &mut Value) {
    if scope.version().builtin_resource().is_some() {
        without_nulls(object);
    } else if let Some(metadata) = object.get_mut("metadata") {
        without_nulls(metadata);
        if metadata.is_null() {
            *metadata = Value::Object(serde_json::Map::new());
        }
    }
    let metadata = meta::metadata_mut(object);
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let empty = match metadata.get(key) {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            _ => false,
        };
        if empty {
            metadata.remove(key);
        }
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

pub(super) fn apply_defaults(scope: &Scope, object: &mut Value) {
    match &scope.version().origin {
        Origin::Builtin(resource) => builtin::apply_defaults(resource, object),
        Origin::Custom(_) => {
            if let Some(schema) = scope.version().schema() {
                schema.apply_defaults(object);
            }
        }
    }
}

/// Takes out of a new object what the endpoint does not set, before its fields get managers.
pub(super) fn reset_create(scope: &Scope, object: &mut Value) {
    if scope.version().has_subresource("status") && scope.resource.is_custom() {
        remove(object, "status");
    }
    meta::remove(object, "generation");
}

/// Takes back what the endpoint does not change, before the changed fields get a manager.
pub(super) fn reset_update(scope: &Scope, new: &mut Value, live: &Value) {
    if !scope.resource.is_custom() {
        return;
    }
    if scope.subresource == "status" {
        let status = new.get_mut("status").map(Value::take);
        let version = meta::resource_version(new).to_owned();
        let managed = meta::field(new, "managedFields").cloned();
        let api_version = new["apiVersion"].take();
        *new = live.clone();
        new["apiVersion"] = api_version;
        meta::set(new, "resourceVersion", version);
        match managed {
            Some(managed) => meta::set(new, "managedFields", managed),
            None => meta::remove(new, "managedFields"),
        }
        match status {
            Some(status) => new["status"] = status,
            None => remove(new, "status"),
        }
    } else if scope.version().has_subresource("status") {
        match live.get("status") {
            Some(status) => new["status"] = status.clone(),
            None => remove(new, "status"),
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
            if crd::is_definition(&scope.resource) {
                crd::prepare(object);
            }
        }
        Origin::Custom(_) => meta::set(object, "generation", 1),
    }
}

pub(super) fn prepare_update(scope: &Scope, new: &mut Value, live: &Value) {
    match &scope.version().origin {
        Origin::Builtin(resource) => {
            let subresource = Some(scope.subresource.as_str()).filter(|name| !name.is_empty());
            builtin::prepare_update(resource, subresource, new, live);
            if crd::is_definition(&scope.resource) {
                crd::prepare(new);
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

/// Whether two custom objects differ outside `metadata`, and outside `status` if that is a subresource.
fn differs(new: &Value, live: &Value, has_status: bool) -> bool {
    let ignored = |key: &str| key == "metadata" || key == "apiVersion" || (key == "status" && has_status);
    let fields = |object: &Value| -> Vec<(String, Value)> {
        let map = object.as_object().into_iter().flatten();
        map.filter(|(key, _)| !ignored(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    fields(new) != fields(live)
}

pub(super) fn validate(scope: &Scope, object: &Value, old: Option<&Arc<Value>>) -> Vec<Cause> {
    let old = old.map(AsRef::as_ref);
    let mut causes = scope.version().schema().map(|schema| schema.validate(object, old)).unwrap_or_default();
    if let Origin::Builtin(resource) = &scope.version().origin {
        let subresource = Some(scope.subresource.as_str()).filter(|name| !name.is_empty());
        causes.extend(builtin::validate(resource, subresource, object, old));
        if crd::is_definition(&scope.resource) {
            causes.extend(crd::validate(object, old));
        }
    }
    causes
}

/// The object in the version that is stored.
pub(super) fn to_storage(scope: &Scope, mut object: Value) -> Value {
    object["apiVersion"] = scope.resource.api_version(scope.resource.storage_version()).into();
    object
}

/// Whether an object under deletion has nothing left to wait for.
pub(super) fn is_finished(resource: &Resource, object: &Value) -> bool {
    let grace = meta::field(object, "deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or_default();
    meta::is_deleting(object)
        && meta::finalizers(object).is_empty()
        && grace == 0
        && !(resource.is("", "namespaces") && super::namespace::has_finalizers(object))
}

/// Whether a PUT may leave the resource version out.
pub(super) fn allows_unconditional_update(resource: &Resource) -> bool {
    let conditional = matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("coordination.k8s.io" | "apiextensions.k8s.io" | "admissionregistration.k8s.io", _)
            | ("policy", "poddisruptionbudgets")
            | ("node.k8s.io", "runtimeclasses")
            | ("storage.k8s.io", "csidrivers" | "csinodes" | "csistoragecapacities" | "volumeattachments")
            | ("certificates.k8s.io", "clustertrustbundles")
    );
    !conditional && !resource.is_custom()
}

/// Whether a PUT to a missing name creates the object.
pub(super) fn allows_create_on_update(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("", "limitranges" | "events" | "services" | "endpoints")
            | ("rbac.authorization.k8s.io" | "coordination.k8s.io", _)
            | ("node.k8s.io", "runtimeclasses")
    )
}

/// Whether a deletion is answered with the object instead of a status.
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
