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
