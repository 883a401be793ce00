//! The built-in kinds of Kubernetes: their schemas, and the defaulting and validation that the real server implements in code.
//!
//! A request is processed in this order: [`normalise`] (decoding), [`apply_defaults`], field ownership, for
//! Services [`services::Allocations::allocate`], [`prepare_create`] or [`prepare_update`], [`validate`]. The result is stored and
//! returned without further changes.

pub(crate) mod autoscaling;
mod codec;
mod data;
mod defaults;
mod encoding;
pub mod field;
pub(crate) mod json_syntax;
pub mod names;
pub mod quantity;
mod resource;
pub mod services;
mod strategy;
mod table;
mod time;
mod types;
mod validate;
mod view;
mod warnings;

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::Value;

pub use self::codec::Source;
pub(crate) use self::codec::whole;
pub use self::data::Column;
pub use self::resource::{Resource, SCALE, TOKEN_REQUEST};
use crate::cause::Cause;
use crate::schema::Schema;

/// Returns every built-in resource of the model, in discovery's order.
pub fn resources() -> &'static [Resource] {
    data::resources()
}

/// Returns the entries of a group version's `APIResourceList` as the real server lists them; `path` as in [`open_api`].
pub fn api_resources(path: &str) -> Option<Vec<Value>> {
    data::api_resources(path)
}

/// Returns the type of a built-in kind.
pub fn schema(resource: &Resource) -> Option<Schema> {
    Schema::from_open_api(data::components(), types::of_resource(resource)?)
}

/// Converts an object to the form that decoding and encoding with the Go types gives, and returns the paths of the removed
/// unknown fields. The error is the server's answer (400) if the object can't be decoded to the Go type of the kind.
///
/// Nulls, empty lists, maps and strings are removed where Go omits them, structs are added, quantities and times become
/// canonical. Every stored and returned object is in this form.
pub fn normalise(resource: &Resource, object: &mut Value, source: Source) -> Result<Vec<String>, String> {
    let Some(decoded) = codec::round_trip(resource, object, source) else { return Ok(Vec::new()) };
    *object = decoded.object;
    let Resource { kind, version, .. } = resource;
    match decoded.error {
        Some(error) => Err(format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}")),
        None => Ok(decoded.unknown),
    }
}

/// Decodes and encodes metadata as its Go type does, or returns why it can't be decoded. Of custom resources, only the metadata
/// has a Go type.
pub fn read_metadata(metadata: &Value) -> Result<Value, String> {
    codec::metadata(metadata)
}

/// Completes an object without content as its Go type does, without defaults.
pub(crate) fn complete_empty(resource: &Resource, object: &mut Value) {
    // Metadata alone can always be decoded.
    let _ = normalise(resource, object, Source::Document);
    strategy::complete(resource, object);
    if ["Deployment", "ReplicaSet", "StatefulSet"].contains(&resource.kind) {
        // The server's internal form has a number here, not a pointer.
        object["spec"]["replicas"] = 0.into();
    }
}

/// Sets the defaults that the real server sets in code; the object has been [normalised](normalise).
pub fn apply_defaults(resource: &Resource, object: &mut Value) {
    defaults::apply(resource, object);
    strategy::complete(resource, object);
}

/// Prepares a new object before validation, as the registry's strategy does (for example: clear `status`).
///
/// `metadata.uid`, `name` and `creationTimestamp` have been set; managed fields have been tracked before.
pub fn prepare_create(resource: &Resource, object: &mut Value) {
    strategy::create(resource, object);
}

/// Prepares an update before validation, as the registry's strategy does, including `subresource`.
pub fn prepare_update(
    resource: &Resource,
    subresource: Option<&str>,
    new: &mut Value,
    old: &Value,
    now: Timestamp,
) {
    strategy::update(resource, subresource, new, old, now);
}

/// Returns the fields (`spec`, `metadata.labels`) that a write through the main resource or a subresource never changes, and so
/// never owns.
pub fn reset_fields(resource: &Resource, subresource: Option<&str>) -> &'static [&'static str] {
    strategy::reset_fields(resource, subresource)
}

/// Returns the metadata of an object for responses with metadata only.
pub fn metadata_alone(object: &Value) -> Cow<'_, Value> {
    strategy::metadata_alone(object)
}

/// Returns whether an object may be created with a status.
pub fn keeps_new_status(resource: &Resource) -> bool {
    strategy::keeps_new_status(resource)
}

/// Returns whether a PUT to a name that does not exist creates the object.
pub fn creates_on_update(resource: &Resource) -> bool {
    strategy::creates_on_update(resource)
}

/// Returns whether a PUT may leave out the resource version.
pub fn allows_unconditional_update(resource: &Resource) -> bool {
    strategy::allows_unconditional_update(resource)
}

/// Returns whether the server counts generations for the kind, from 1 on creation.
pub fn tracks_generation(resource: &Resource) -> bool {
    strategy::tracks_generation(resource)
}

/// Returns whether an update of the main resource increments the generation.
pub fn generation_changes(resource: &Resource, old: &Value, new: &Value) -> bool {
    strategy::generation_changes(resource, old, new)
}

/// Validates a new object (`old` is none) or an update as the real server's code does, without its metadata.
pub fn validate(
    resource: &Resource,
    subresource: Option<&str>,
    object: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    validate::object(resource, subresource, object, old)
}

/// Returns the real server's warnings for a new object (`old` is none) or an update that [`validate`] accepts.
pub fn warnings(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    warnings::object(resource, object, old)
}

/// Returns what is wrong with the name of a new object of this kind.
pub fn validate_name(resource: &Resource, name: &str) -> Vec<String> {
    validate::name(resource, name, false)
}

/// Returns the table columns of a kind in `kubectl get`.
pub fn columns(resource: &Resource) -> Vec<Column> {
    data::columns(resource)
}

/// Returns the cells of one row, in the order of [`columns`]; `now` in seconds since the epoch, for ages.
pub fn cells(resource: &Resource, object: &Value, now: i64) -> Vec<Value> {
    table::cells(resource, object, now)
}

/// Returns the OpenAPI v3 document of one group version (`api/v1`, `apis/apps/v1`).
pub fn open_api(path: &str) -> Option<Value> {
    data::open_api(path)
}

#[cfg(test)]
mod tests;
