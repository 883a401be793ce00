//! The kinds that Kubernetes brings along: their schemas, and the defaulting and validation that the real server
//! holds in code.
//!
//! A request passes through in this order: [`decode_error`] and [`normalise`] (reading), [`apply_defaults`], field
//! ownership, for Services [`services::Allocations::allocate`], [`prepare_create`] or [`prepare_update`],
//! [`validate`]; what comes out is stored and returned as it is.

pub(crate) mod autoscaling;
mod codec;
mod data;
mod defaults;
mod encoding;
pub mod field;
pub(crate) mod json_syntax;
pub mod names;
pub mod quantity;
pub mod services;
mod strategy;
mod table;
mod time;
mod types;
mod validate;
mod view;
mod warnings;

use std::borrow::Cow;

use serde_json::Value;

pub use self::codec::Source;
pub(crate) use self::codec::whole;
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

/// The kind that is written to `serviceaccounts/token`, and nowhere else.
pub static TOKEN_REQUEST: Resource = Resource {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenRequest",
    plural: "tokenrequests",
    singular: "tokenrequest",
    short_names: &[],
    categories: &[],
    namespaced: true,
    subresources: &[],
};

/// Every built-in resource that the model serves, in discovery's order.
pub fn resources() -> &'static [Resource] {
    data::resources()
}

/// The entries of a group version's `APIResourceList` as the real server lists them; `path` as in [`open_api`].
pub fn api_resources(path: &str) -> Option<Vec<Value>> {
    data::api_resources(path)
}

/// The type of a built-in kind.
pub fn schema(resource: &Resource) -> Option<Schema> {
    Schema::from_open_api(data::components(), types::of_resource(resource)?)
}

/// What the server answers (400) if the object can't be read into the Go type of the kind.
pub fn decode_error(resource: &Resource, object: &Value, source: Source) -> Option<String> {
    let error = codec::round_trip(resource, object, source)?.error?;
    let Resource { kind, version, .. } = resource;
    Some(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}"))
}

/// Brings an object into the form that reading and writing through the Go types gives, and returns the paths of the
/// unknown fields that got lost.
///
/// Nulls, empty lists, maps and strings vanish where Go omits them, structs appear, quantities and times become
/// canonical. Every stored and returned object is in this form.
pub fn normalise(resource: &Resource, object: &mut Value, source: Source) -> Vec<String> {
    let Some(decoded) = codec::round_trip(resource, object, source) else { return Vec::new() };
    *object = decoded.object;
    decoded.unknown
}

/// Metadata as its Go type reads and writes it, or why it can't be read; of custom resources only that has a type.
pub fn read_metadata(metadata: &Value) -> Result<Value, String> {
    codec::metadata(metadata)
}

/// Fills in what the real server defaults in code; the object has been [normalised](normalise).
pub fn apply_defaults(resource: &Resource, object: &mut Value) {
    defaults::apply(resource, object);
    strategy::complete(resource, object);
}

/// What the registry's strategy does to a new object before validation (for example: clear `status`).
///
/// `metadata.uid`, `name` and `creationTimestamp` have been set; managed fields have been tracked before.
pub fn prepare_create(resource: &Resource, object: &mut Value) {
    strategy::create(resource, object);
}

/// What the registry's strategy does to an update before validation, `subresource` included.
pub fn prepare_update(resource: &Resource, subresource: Option<&str>, new: &mut Value, old: &Value) {
    strategy::update(resource, subresource, new, old);
}

/// The fields (`spec`, `metadata.labels`) that a write through the main resource or a subresource never changes, and
/// so never comes to own.
pub fn reset_fields(resource: &Resource, subresource: Option<&str>) -> &'static [&'static str] {
    strategy::reset_fields(resource, subresource)
}

/// The metadata of an object as it is shown without the rest.
pub fn metadata_alone(object: &Value) -> Cow<'_, Value> {
    strategy::metadata_alone(object)
}

/// Whether an object may be created with a status.
pub fn keeps_new_status(resource: &Resource) -> bool {
    strategy::keeps_new_status(resource)
}

/// Whether a PUT to a name that does not exist creates the object.
pub fn creates_on_update(resource: &Resource) -> bool {
    strategy::creates_on_update(resource)
}

/// Whether a PUT may leave out the resource version.
pub fn allows_unconditional_update(resource: &Resource) -> bool {
    strategy::allows_unconditional_update(resource)
}

/// Whether the server counts generations for the kind, from 1 on creation.
pub fn tracks_generation(resource: &Resource) -> bool {
    strategy::tracks_generation(resource)
}

/// Whether an update of the main resource counts as a new generation.
pub fn generation_changes(resource: &Resource, old: &Value, new: &Value) -> bool {
    strategy::generation_changes(resource, old, new)
}

/// The verdict of the real server's code on a new object (`old` is none) or an update, metadata apart.
pub fn validate(
    resource: &Resource,
    subresource: Option<&str>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    validate::object(resource, subresource, object, old)
}

/// What the real server's code warns of in a new object (`old` is none) or an update that [`validate`] lets pass.
pub fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    warnings::object(resource, object, old)
}

/// What is wrong with the name of a new object of this kind.
pub fn validate_name(resource: &Resource, name: &str) -> Vec<String> {
    validate::name(resource, name, false)
}

/// One column of a server-side table: name, type, format, description, priority.
pub type Column = (&'static str, &'static str, &'static str, &'static str, i64);

/// The table columns that `kubectl get` shows for a kind.
pub fn columns(resource: &Resource) -> Vec<Column> {
    data::columns(resource)
}

/// The cells of one row, in the order of [`columns`]; `now` in seconds since the epoch, for ages.
pub fn cells(resource: &Resource, object: &Value, now: i64) -> Vec<Value> {
    table::cells(resource, object, now)
}

/// The OpenAPI v3 document of one group version (`api/v1`, `apis/apps/v1`).
pub fn open_api(path: &str) -> Option<Value> {
    data::open_api(path)
}

#[cfg(test)]
mod tests;
