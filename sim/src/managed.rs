//! Field ownership: `metadata.managedFields` and server-side apply.
//!
//! Every write is compared with what was there, by the type of the object. Changed and new fields go to the writer's
//! entry and leave all others; removed fields leave everyone's. An apply merges a configuration, removes what the
//! manager applied formerly and no one else owns, and refuses to change what others own unless forced.
//!
//! Expected flow: the caller decodes (prune, drop nulls, default), calls [`track_update`] or [`apply`], and only then
//! resets fields and fills in what the server itself decides (generation, status, allocated values), so that no
//! manager comes to own that; last, [`ignore_timestamps`] keeps a write that changes nothing from becoming one.

mod compare;
mod configuration;
mod entries;
mod merge;
mod ownership;
mod path;
mod set;
mod typed;
mod value;

use serde_json::Value;

use crate::schema::Schema;

/// The annotation that client-side `kubectl apply` keeps its last configuration in.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Who writes, and when.
#[derive(Debug, Clone, Copy)]
pub struct Manager<'a> {
    /// The field manager's name.
    pub name: &'a str,
    /// The API version that the request speaks.
    pub api_version: &'a str,
    /// The subresource written through, if any.
    pub subresource: Option<&'a str>,
    /// The wall time as an RFC 3339 string in whole seconds.
    pub time: &'a str,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApplyError {
    /// Other managers own fields that the configuration sets to other values: (manager description, field path).
    /// Each is a cause with reason `FieldManagerConflict`, message `conflict with <description>` and that field.
    Conflicts(Vec<(String, String)>),
    /// The configuration can't be read by the schema: 500.
    Invalid(String),
    /// The configuration is no such thing: 400.
    BadRequest(String),
}

/// The message of a status that reports conflicts, as [`ApplyError::Conflicts`] lists them.
pub fn conflict_message(conflicts: &[(String, String)]) -> String {
    if let [(manager, path)] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {manager}: {path}");
    }
    let mut lines: Vec<String> = Vec::new();
    let mut last = None;
    for (manager, path) in conflicts {
        if last != Some(manager) {
            lines.push(format!("conflicts with {manager}:"));
            last = Some(manager);
        }
        lines.push(format!("- {path}"));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// Recomputes `new`'s managed fields after a create, update or (non-apply) patch.
pub fn track_update(schema: &Schema, old: Option<&Value>, new: &mut Value, manager: Manager<'_>) {
    let live = || entries::decode(old).unwrap_or_default();
    let mut owners = if manager.subresource.is_some() {
        live()
    } else {
        match entries::listed(new).map(Vec::as_slice) {
            // An explicitly empty list asks for a fresh start.
            Some([]) => entries::Entries::new(),
            Some([only]) if only.as_object().is_some_and(serde_json::Map::is_empty) => {
                entries::Entries::new()
            }
            _ => match entries::decode(Some(new)) {
                Ok(owners) if !owners.is_empty() => owners,
                _ => live(),
            },
        }
    };
    let is_create = !old.is_some_and(|old| old.pointer("/metadata/uid").is_some_and(|uid| uid != ""));
    let stripped = configuration::without_managed(new);
    let before = old
        .map_or_else(|| schema.empty_object(), |old| schema.completed(&configuration::without_managed(old)));
    // What does not fit the type loses its owners fields, and so does what never had any.
    let fits = typed::check(schema.root(), &stripped, true).is_ok()
        && typed::check(schema.root(), &before, true).is_ok();
    if !fits {
        owners.clear();
    } else if is_create || !owners.is_empty() {
        ownership::update(schema, &before, &schema.completed(&stripped), &mut owners, manager);
    }
    *new = stripped;
    entries::encode(new, &owners);
}

/// Merges an applied configuration into the live object and returns the result with its managed fields.
pub fn apply(
    schema: &Schema,
    live: Option<&Value>,
    config: &Value,
    manager: Manager<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    configuration::apply(schema, live, config, manager, force)
}

/// An object as messages name it: `namespace/name; group/version, Kind=kind`.
pub fn name(object: &Value) -> String {
    configuration::name(object)
}

/// Takes back the times of managed fields if nothing else differs from the stored object.
pub fn ignore_timestamps(old: &Value, new: &mut Value) {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let managed = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
        for entry in managed.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        object
    };
    if timeless(old) == timeless(new)
        && let (Some(old), Some(managed)) = (entries::listed(old), new.pointer_mut("/metadata/managedFields"))
    {
        *managed = Value::Array(old.clone());
    }
}

#[cfg(test)]
mod tests;
