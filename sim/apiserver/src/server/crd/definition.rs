//! The content of a definition: defaults, status, and the resource that it describes.

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::approval;
use crate::schema::Schema;
use crate::server::discovery::priority;
use crate::server::meta;
use crate::server::registry::{Registry, Resource, Version};
use crate::server::store::TableId;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";
pub(crate) const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Returns whether a resource is that of CRDs themselves.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.is(GROUP, PLURAL)
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// Sets the names that follow from others, and no conversion.
pub(crate) fn apply_defaults(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    let spec = meta::map_at(definition, "spec");
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
}

/// Records the storage version, in which objects have been stored. A write of the status may remove versions from the list, but an
/// empty list gets the storage version.
pub(crate) fn prepare(definition: &mut Value, is_status: bool) {
    let storage = versions(definition)
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "/name").to_owned());
    let Some(storage) = storage else { return };
    let status = meta::map_at(definition, "status");
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if !stored.is_array() {
        *stored = json!([]);
    }
    let is_missing = |stored: &Vec<Value>| {
        if is_status { stored.is_empty() } else { !stored.iter().any(|name| *name == storage) }
    };
    if let Some(stored) = stored.as_array_mut().filter(|stored| is_missing(stored)) {
        stored.push(storage.into());
    }
    status.entry("acceptedNames").or_insert_with(|| json!({"kind": "", "plural": ""}));
    status.entry("conditions").or_insert(Value::Null);
}

/// Returns the warning of a deprecated version: its own, or one with the version to use instead.
pub(crate) fn deprecation(resource: &Resource, version: &Version, entry: &Value) -> Option<String> {
    let is_deprecated = |entry: &Value| entry.get("deprecated") == Some(&Value::Bool(true));
    if !is_deprecated(entry) {
        return None;
    }
    if let Some(own) = entry.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let Resource { group, kind, .. } = resource;
    let newer = resource
        .versions
        .iter()
        .filter(|other| other.served && !other.crd_entry().is_some_and(is_deprecated))
        .filter(|other| priority(&other.name) < priority(&version.name))
        .min_by_key(|other| priority(&other.name));
    let instead = newer.map(|newer| format!("; use {group}/{} {kind}", newer.name)).unwrap_or_default();
    Some(format!("{group}/{} {kind} is deprecated{instead}", version.name))
}

/// Returns whether no other definition uses the names.
pub(crate) fn accepts_names(registry: &Registry, definition: &Value) -> bool {
    let names = &definition["spec"]["names"];
    let plural = text(names, "/plural");
    let Some(group) = registry.groups().get(text(definition, "/spec/group")) else { return true };
    group.values().filter(|other| other.plural != plural).all(|other| {
        let taken = |name: &str| {
            name == other.plural
                || name == other.singular
                || other.short_names.iter().any(|short| short == name)
        };
        let short = meta::strings(names.get("shortNames"));
        let kinds = [other.kind.as_str(), other.list_kind.as_str()];
        !taken(plural)
            && !taken(text(names, "/singular"))
            && !short.into_iter().any(taken)
            && !kinds.contains(&text(names, "/kind"))
            && !kinds.contains(&text(names, "/listKind"))
    })
}

/// Returns the status of a definition, with the conditions of the naming and establishing controllers.
pub(crate) fn status(definition: &Value, accepted: bool, now: Timestamp) -> Value {
    let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
    let (names, established) = if accepted {
        (
            ("True", "NoConflicts", "no conflicts found"),
            ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    } else {
        (
            ("False", "NamesConflict", "the names are in use by another definition"),
            ("False", "NotAccepted", "not all names are accepted"),
        )
    };
    if accepted {
        status["acceptedNames"] = definition["spec"]["names"].clone();
    }
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, (state, reason, message)) in [("NamesAccepted", names), ("Established", established)] {
        set_condition(&mut conditions, kind, [state, reason, message], &meta::timestamp(now));
    }
    if let Some(condition) = approval::condition(definition) {
        let kind = "KubernetesAPIApprovalPolicyConformant";
        set_condition(&mut conditions, kind, condition.each_ref().map(String::as_str), &meta::timestamp(now));
    }
    status["conditions"] = conditions.into();
    status
}

/// The progress of the deletion of a definition's objects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Termination {
    Pending,
    InProgress,
    Completed,
}

/// Returns a definition that starts to terminate: the server deletes its objects.
pub(crate) fn terminating(live: &Value, now: Timestamp) -> Value {
    let mut object = live.clone();
    let mut finalizers: Vec<String> = meta::finalizers(live).into_iter().map(str::to_owned).collect();
    if !finalizers.iter().any(|name| name == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    meta::set_finalizers(&mut object, &finalizers);
    set_terminating(&mut object, Termination::Pending, now);
    meta::set(&mut object, "deletionTimestamp", meta::timestamp(now));
    object
}

/// Sets the condition `Terminating` of a definition.
pub(crate) fn set_terminating(definition: &mut Value, termination: Termination, now: Timestamp) {
    let condition = match termination {
        Termination::Pending => [
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        ],
        Termination::InProgress => {
            ["True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"]
        }
        Termination::Completed => ["False", "InstanceDeletionCompleted", "removed all instances"],
    };
    let mut conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    set_condition(&mut conditions, "Terminating", condition, &meta::timestamp(now));
    definition["status"]["conditions"] = conditions.into();
}

/// Returns the resource that a definition describes.
pub(crate) fn resource(definition: &Value, table: TableId, since: u64) -> Resource {
    let strings = |pointer: &str| {
        meta::strings(definition.pointer(pointer)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let read = |version: &Value| {
        let schema = version.pointer("/schema/openAPIV3Schema");
        let schema = schema.and_then(|schema| Schema::from_crd(schema).ok());
        Version::custom(Arc::new(version.clone()), schema)
    };
    Resource {
        table,
        group: text(definition, "/spec/group").to_owned(),
        plural: text(definition, "/spec/names/plural").to_owned(),
        singular: text(definition, "/spec/names/singular").to_owned(),
        kind: text(definition, "/spec/names/kind").to_owned(),
        list_kind: text(definition, "/spec/names/listKind").to_owned(),
        short_names: strings("/spec/names/shortNames"),
        categories: strings("/spec/names/categories"),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        versions: versions(definition).map(read).collect(),
        since,
        object_kind: OnceLock::new(),
    }
}

/// Sets a condition. Its transition time changes only with its status.
fn set_condition(conditions: &mut Vec<Value>, kind: &str, [status, reason, message]: [&str; 3], now: &str) {
    let index = conditions.iter().position(|condition| text(condition, "/type") == kind);
    let before =
        index.map(|index| conditions[index].clone()).filter(|before| text(before, "/status") == status);
    let since = before.map_or_else(|| now.into(), |before| before["lastTransitionTime"].clone());
    let mut condition = Map::new();
    for (key, value) in [("type", kind), ("status", status), ("reason", reason), ("message", message)] {
        condition.insert(key.to_owned(), value.into());
    }
    condition.insert("lastTransitionTime".to_owned(), since);
    match index {
        Some(index) => conditions[index] = condition.into(),
        None => conditions.push(condition.into()),
    }
}
