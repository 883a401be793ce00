//! The kinds that Kubernetes brings along: their schemas, and the defaulting and validation that the real server
//! holds in code.

use serde_json::Value;

use crate::cause::Cause;
use crate::schema::Schema;

/// One resource as discovery tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories for kubectl, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Subresources that the model serves, such as `status` and `scale`.
    pub subresources: &'static [&'static str],
}

/// Every built-in resource that the model serves, in discovery's order.
pub fn resources() -> &'static [Resource] {
    &[]
}

/// The type of a built-in kind.
pub fn schema(_resource: &Resource) -> Option<Schema> {
    None
}

/// Fills in what the real server defaults in code.
pub fn apply_defaults(_resource: &Resource, _object: &mut Value) {}

/// What the registry's strategy does to a new object before validation (for example: clear `status`).
pub fn prepare_create(_resource: &Resource, _object: &mut Value) {}

/// What the registry's strategy does to an update before validation, `subresource` included.
pub fn prepare_update(_resource: &Resource, _subresource: Option<&str>, _new: &mut Value, _old: &Value) {}

/// The verdict of the real server's code on a new object (`old` is none) or an update.
pub fn validate(
    _resource: &Resource,
    _subresource: Option<&str>,
    _object: &Value,
    _old: Option<&Value>,
) -> Vec<Cause> {
    Vec::new()
}

/// One column of a server-side table: name, type, format, description, priority.
pub type Column = (&'static str, &'static str, &'static str, &'static str, i64);

/// The table columns that `kubectl get` shows for a kind.
pub fn columns(_resource: &Resource) -> Vec<Column> {
    Vec::new()
}

/// The cells of one row, in the order of [`columns`]; `now` in seconds since the epoch, for ages.
pub fn cells(_resource: &Resource, _object: &Value, _now: i64) -> Vec<Value> {
    Vec::new()
}

/// The OpenAPI v3 document of one group version (`api/v1`, `apis/apps/v1`).
pub fn open_api(_path: &str) -> Option<Value> {
    None
}
