//! Field ownership: `metadata.managedFields` and server-side apply.

use serde_json::Value;

use crate::schema::Schema;

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
    Conflicts(Vec<(String, String)>),
    /// The configuration can't be read by the schema.
    Invalid(String),
}

/// Recomputes `new`'s managed fields after a create, update or (non-apply) patch.
pub fn track_update(_schema: &Schema, _old: Option<&Value>, _new: &mut Value, _manager: Manager<'_>) {}

/// Merges an applied configuration into the live object and returns the result with its managed fields.
pub fn apply(
    _schema: &Schema,
    _live: Option<&Value>,
    config: &Value,
    _manager: Manager<'_>,
    _force: bool,
) -> Result<Value, ApplyError> {
    Ok(config.clone())
}
