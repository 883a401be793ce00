//! Server-side apply: merges the configuration of a manager, and removes what is no longer in it.

use std::borrow::Cow;

use serde_json::Value;

use super::compare::Changes;
use super::differences::Differences;
use super::entries::{self, Entries, Entry};
use super::manager::Manager;
use super::merge::merge;
use super::ownership::{self, Conflict, Refusal};
use super::path::show_path;
use super::prune::pruned;
use super::set::Set;
use super::typed::{check, fields};
use super::value::equal;
use super::versioned::Versioned;
use crate::cause::text;
use crate::schema::Schema;

/// The annotation in which client-side `kubectl apply` keeps its last configuration.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager of the fields from before the first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Maximum size of all annotations together, in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Describes why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields that the configuration sets to other values: (manager description, field path). Each is a cause
    /// with reason `FieldManagerConflict`, message `conflict with <description>` and that field.
    Conflicts(Vec<(String, String)>),
    /// The schema can't parse the configuration: 500.
    Invalid(String),
    /// The request is not a valid configuration: 400.
    BadRequest(String),
}

/// Applies a configuration.
pub(super) fn apply(
    schema: &Schema,
    live: Option<&Value>,
    config: &Value,
    manager: Manager<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    let mut owners = entries::decode(live)
        .map_err(|error| ApplyError::Invalid(format!("failed to decode managed fields: {error}")))?;
    let live_value = live.map_or_else(|| bare(config), Value::clone);
    if let (Some(live), true) = (live, owners.is_empty()) {
        own_existing(schema, live, &mut owners, manager).map_err(|why| {
            ApplyError::Invalid(format!("failed to create manager for existing fields: {why}"))
        })?;
    }
    if entries::listed(config).is_some() {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let typed = |what: &str, value: &Value, duplicates: bool| {
        check(schema.root(), value, duplicates).map_err(|error| {
            ApplyError::Invalid(format!("failed to create typed {what} object ({}): {error}", name(value)))
        })
    };
    typed("patch", config, false)?;
    typed("live", &live_value, true)?;

    let attempt = |force: bool| merged(schema, &live_value, config, owners.clone(), manager, force);
    let outcome = match attempt(force) {
        Err(Refusal::Conflicts(conflicts)) if manager.name == "kubectl" => {
            let allowed = allowed_by_last_applied(schema, &live_value, manager);
            let left: Vec<Conflict> =
                conflicts.into_iter().filter(|conflict| !allowed.contains(&conflict.path)).collect();
            if left.is_empty() { attempt(true) } else { Err(Refusal::Conflicts(left)) }
        }
        outcome => outcome,
    };
    let (mut object, owners) = outcome.map_err(|refusal| match refusal {
        Refusal::Conflicts(conflicts) => ApplyError::Conflicts(described(&conflicts)),
        Refusal::Mismatch(why) => ApplyError::Invalid(why),
    })?;
    if manager.name == "kubectl" {
        update_last_applied(&mut object, config);
    }
    entries::encode(&mut object, &owners);
    Ok(object)
}

/// Makes a manager the owner of all fields of an object that no manager owns.
fn own_existing(
    schema: &Schema,
    live: &Value,
    owners: &mut Entries,
    manager: Manager<'_>,
) -> Result<(), String> {
    let manager = Manager { name: BEFORE_FIRST_APPLY, ..manager };
    let existing = schema.completed(without_managed(live));
    check(schema.root(), &existing, true)
        .map_err(|why| format!("failed to convert new object ({}) to smd typed: {why}", name(live)))?;
    let updated = ownership::update(schema, &schema.empty_object(), &existing, owners, manager);
    updated.map_err(|why| format!("failed to update ManagedFields ({}): {why}", name(live)))
}

/// Merges the configuration and moves ownership; refuses on conflicts.
fn merged(
    schema: &Schema,
    live: &Value,
    config: &Value,
    mut owners: Entries,
    manager: Manager<'_>,
    force: bool,
) -> Result<(Value, Entries), Refusal> {
    let root = schema.root();
    let reset = Set::of(manager.reset);
    let mut entry = Entry {
        manager: if manager.name.is_empty() { "unknown".to_owned() } else { manager.name.to_owned() },
        applies: true,
        api_version: manager.api_version.to_owned(),
        subresource: manager.subresource.unwrap_or_default().to_owned(),
        time: None,
        set: fields(root, config).without(&reset),
    };
    let id = entry.id();
    let stored = live;
    let live = schema.completed(live.clone());
    let typed = Versioned::of_request(schema, Cow::Borrowed(&live), manager);
    ownership::reconcile(&typed, &mut owners, manager.versions).map_err(Refusal::Mismatch)?;
    let last = owners.get(&id).cloned();
    entry.time = last.as_ref().and_then(|last| last.time.clone());
    let combined = merge(root, Some(&live), Some(config), 0).unwrap_or(Value::Null);
    owners.insert(id.clone(), entry);
    let mut object = match last {
        Some(last) if !last.set.is_empty() => pruned(&typed.with(combined), &owners, &last, manager.versions)
            .map_err(|why| Refusal::Mismatch(format!("failed to prune fields: {why}")))?,
        _ => combined,
    };
    let new = Versioned { object: Cow::Borrowed(&object), ..typed.clone() };
    let mut differences = Differences::between(typed, new, manager.versions);
    ownership::disown(&mut owners, &mut differences, &id, force)?;

    let is_write = !equal(&live, &object);
    if let Some(entry) = owners.remove(&id)
        && let Some(mut entry) = ownership::strip(entry)
    {
        if is_write {
            entry.time = Some(manager.time.to_owned());
        }
        owners.insert(id, entry);
    }
    if is_write {
        schema.settle(&mut object);
        Ok((object, owners))
    } else {
        Ok((stored.clone(), owners))
    }
}

/// Returns the initial object of an apply that creates it.
fn bare(config: &Value) -> Value {
    let keys = ["apiVersion", "kind"];
    let entries = keys.iter().filter_map(|key| Some(((*key).to_owned(), config.get(*key)?.clone())));
    Value::Object(entries.collect())
}

pub(super) fn without_managed(object: &Value) -> Value {
    // The managed fields are often the largest part of an object, so they are not copied first.
    let metadata = |metadata: &Value| match metadata {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(key, _)| *key != "managedFields");
            Value::Object(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
        }
        other => other.clone(),
    };
    let Value::Object(fields) = object else { return object.clone() };
    let fields = fields
        .iter()
        .map(|(key, value)| (key.clone(), if key == "metadata" { metadata(value) } else { value.clone() }));
    Value::Object(fields.collect())
}

fn described(conflicts: &[Conflict]) -> Vec<(String, String)> {
    conflicts.iter().map(|conflict| (conflict.owner.describe(), show_path(&conflict.path))).collect()
}

pub(super) fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("/apiVersion");
    let group_version =
        if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    format!(
        "{}/{}; {group_version}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind")
    )
}

/// Returns the fields that `kubectl apply` set last, by its annotation, and that have not changed since.
fn allowed_by_last_applied(schema: &Schema, live: &Value, manager: Manager<'_>) -> Set {
    let root = schema.root();
    let Some(annotation) = annotation(live) else { return Set::default() };
    let Ok(last) = serde_json::from_str::<Value>(annotation) else { return Set::default() };
    let same_version = last.get("apiVersion").and_then(Value::as_str) == Some(manager.api_version);
    if !same_version || check(root, &last, false).is_err() || check(root, live, false).is_err() {
        return Set::default();
    }
    let changes = Changes::between(root, &last, &schema.completed(live.clone()));
    fields(root, &last).difference(&changes.modified).difference(&changes.added).difference(&changes.removed)
}

fn annotation(object: &Value) -> Option<&str> {
    let annotation = object.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    (!annotation.is_empty()).then_some(annotation)
}

/// Updates the annotation of client-side `kubectl apply` to the configuration of a server-side apply.
fn update_last_applied(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
        if annotations.is_empty()
            && let Some(metadata) = config.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("annotations");
        }
    }
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.insert(LAST_APPLIED.to_owned(), Value::from(format!("{}\n", text::json(&config))));
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATIONS_BYTES_MAX {
        annotations.remove(LAST_APPLIED);
    }
}
