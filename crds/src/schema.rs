//! Schema fragments that schemars can't derive.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{Schema, SchemaGenerator, json_schema};

/// A list of whole Kubernetes objects: each has an `apiVersion` and a `kind`, everything else is kept as it is.
pub(crate) fn embedded_resources(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
        "x-kubernetes-list-type": "atomic",
    })
}

/// Conditions, one for each type, so that several writers can each own theirs.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    let condition = generator.subschema_for::<Condition>();
    json_schema!({
        "type": "array",
        "items": condition,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

/// A duration as Go writes it, such as `1h30m`, positive.
pub(crate) fn duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 32,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('1ms')",
            "message": "must be a duration of at least 1ms, such as 500ms, 10s, 30m or 1h30m",
        }],
    })
}

/// An object of which everything is kept as it is.
pub(crate) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A free object for each name, written as a whole.
pub(crate) fn map_of_free_objects(generator: &mut SchemaGenerator) -> Schema {
    atomic_map(&free_object(generator))
}

/// A list of free objects for each name, written as a whole.
pub(crate) fn map_of_lists_of_free_objects(generator: &mut SchemaGenerator) -> Schema {
    let list = json_schema!({ "type": "array", "items": free_object(generator), "x-kubernetes-list-type": "atomic" });
    atomic_map(&list)
}

/// A point in time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// A point in time for each name, written as a whole.
pub(crate) fn map_of_times(generator: &mut SchemaGenerator) -> Schema {
    atomic_map(&time(generator))
}

fn atomic_map(of: &Schema) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": of, "x-kubernetes-map-type": "atomic" })
}
