//! Field ownership: `metadata.managedFields` and server-side apply.
//!
//! Every write is compared with the old object, by the type of the object. The writer becomes the only owner of changed and new
//! fields; removed fields have no owner any more. A manager owns fields of the version in which it wrote, so the objects are
//! also compared in the versions of the other managers. An apply merges a configuration and removes the fields that the manager applied
//! before and no other manager owns. It refuses to change fields of other managers unless forced.
//!
//! Expected flow: the caller decodes (prune, drop nulls, default) and calls [`track_update`] or [`apply`]. Only then does it
//! reset fields and set those that the server itself decides (generation, status, allocated values), so that no manager owns
//! them. Last, [`ignore_timestamps`] prevents a write without changes from storing a new version.

mod compare;
mod configuration;
mod differences;
mod entries;
mod manager;
mod merge;
mod ownership;
mod path;
mod prune;
mod reconcile;
mod renewal;
mod scale;
mod set;
mod typed;
mod value;
mod versioned;
mod versions;

use std::borrow::Cow;

use serde_json::Value;

pub use self::configuration::ApplyError;
pub use self::manager::Manager;
pub use self::scale::Replicas;
pub use self::versions::{Converted, OneVersion, Versions};
use crate::schema::Schema;

/// Returns the message of a status that reports conflicts, as [`ApplyError::Conflicts`] lists them.
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

/// Records an update of a custom resource that changes only values of fields that the manager already owns alone. Returns whether
/// it was one: if not, `new` is as before. The stored object must have been written with this schema.
pub fn track_renewal(schema: &Schema, old: &Value, new: &mut Value, manager: Manager<'_>) -> bool {
    renewal::renew(schema, old, new, manager)
}

/// Recomputes `new`'s managed fields after a create, update or (non-apply) patch.
pub fn track_update(schema: &Schema, old: Option<&Value>, new: &mut Value, manager: Manager<'_>) {
    let live = || entries::decode(old).unwrap_or_default();
    let mut owners = if manager.subresource.is_some() {
        live()
    } else {
        match entries::listed(new).map(Vec::as_slice) {
            // An explicitly empty list resets the ownership.
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
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    let before = old
        .map_or_else(|| schema.empty_object(), |old| schema.completed(configuration::without_managed(old)));
    // A value that does not match its type loses all owners of its fields, in each version in which a manager owns fields. So
    // does one that never had owners.
    let fits =
        typed::check(schema.root(), new, true).is_ok() && typed::check(schema.root(), &before, true).is_ok();
    if !fits {
        owners.clear();
    } else if is_create || !owners.is_empty() {
        let after = if schema.is_built_in() {
            Cow::Owned(schema.completed(new.clone()))
        } else {
            Cow::Borrowed(&*new)
        };
        if ownership::update(schema, &before, &after, &mut owners, manager).is_err() {
            owners.clear();
        }
    }
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

/// Sets the managed fields of a `Scale` to the owners of its object's replicas; `replicas` finds them by API version.
pub fn show_scale_owners(object: &Value, scale: &mut Value, replicas: impl Fn(&str) -> Replicas) {
    scale::from_parent(object, scale, replicas);
}

/// Updates the managed fields of an object to those of its changed `Scale`, which the object's `api_version` served.
pub fn take_scale_owners(
    object: &mut Value,
    scale: &Value,
    api_version: &str,
    replicas: impl Fn(&str) -> Replicas,
) {
    scale::to_parent(object, scale, api_version, replicas);
}

/// Returns the name of an object in messages: `namespace/name; group/version, Kind=kind`.
pub fn name(object: &Value) -> String {
    configuration::name(object)
}

/// Restores the times of managed fields if nothing else differs from the stored object.
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
