//! OpenAPI documents: those of built-in groups are from the real server, those of CRDs are generated.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use self::paths::{Described, META, SELECTABLE};
use super::registry::Registry;
use super::request::Request;
use super::state::ApiServer;
use super::status::Status;
use super::{discovery, meta};
use crate::builtin;

mod forms;
mod gnostic;
mod paths;
mod v2;

/// Returns `/openapi/v3`, the index of the documents. A document's URL changes with its content.
pub(super) fn index(server: &ApiServer) -> Value {
    let mut paths = Map::new();
    for path in discovery::group_version_paths(&server.registry) {
        let hash = hash(server, &path);
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// Returns the hash of a document's content: the resource versions of its definitions identify the content.
fn hash(server: &ApiServer, path: &str) -> String {
    let (group, version) = split(path);
    let tables = discovery::custom_versions(&server.registry, group, version);
    let names = tables.iter().map(|(resource, _)| format!("{}.{}", resource.plural, resource.group));
    let versions: Vec<String> = names
        .filter_map(|name| server.find("apiextensions.k8s.io", "customresourcedefinitions", &name))
        .map(|definition| meta::resource_version(definition).to_owned())
        .collect();
    if versions.is_empty() { "BUILTIN".to_owned() } else { versions.join("-") }
}

/// Returns `/openapi/v2`, the document about everything that the server serves, in the form that the client prefers.
pub(super) fn all(registry: &Registry, request: &Request<'_>) -> Result<http::Response<Bytes>, Status> {
    forms::answer(request, || older(registry))
}

fn older(registry: &Registry) -> Value {
    let paths = discovery::group_version_paths(registry);
    let documents = paths.iter().filter_map(|path| {
        let is_custom = builtin::open_api(path).is_none();
        document(registry, path).map(|document| (document, is_custom))
    });
    v2::document(documents)
}

/// Returns one group version's document of version 3.
pub(super) fn document(registry: &Registry, path: &str) -> Option<Value> {
    if let Some(document) = builtin::open_api(path) {
        return Some(document);
    }
    let (group, version) = split(path);
    let resources = discovery::custom_versions(registry, group, version);
    if resources.is_empty() {
        return None;
    }
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for (resource, entry) in resources {
        let name =
            format!("{}.{version}.{}", group.split('.').rev().collect::<Vec<_>>().join("."), resource.kind);
        let kind = json!({"group": group, "version": version, "kind": resource.kind});
        for (name, mut schema) in
            [(format!("{name}List"), list_schema(&name, &kind)), (name.clone(), schema(entry, &kind))]
        {
            add_selectable_fields(&mut schema, entry);
            schemas.insert(name, schema);
        }
        let has = |name| entry.get("subresources").is_some_and(|all| all.get(name).is_some());
        let subresources = ["status", "scale"].map(|name| (name, has(name)));
        Described { resource, schema: &name, kind: &kind, subresources }.add_paths(&mut paths, path);
    }
    let paths = Value::Object(paths);
    add_shared(&mut schemas, &paths);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

fn split(path: &str) -> (&str, &str) {
    let rest = path.strip_prefix("apis/").or_else(|| path.strip_prefix("api/")).unwrap_or(path);
    rest.rsplit_once('/').unwrap_or(("", rest))
}

/// Returns the schema of a CRD version with the fields that every object has.
fn schema(entry: &Value, kind: &Value) -> Value {
    let mut schema =
        entry.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    spell_out(&mut schema);
    add_object_fields(&mut schema);
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

fn list_schema(name: &str, kind: &Value) -> Value {
    let mut kind = kind.clone();
    kind["kind"] = format!("{}List", kind["kind"].as_str().unwrap_or_default()).into();
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata("ListMeta"),
            "items": {"type": "array", "items": {"$ref": format!("#/components/schemas/{name}")}},
        },
        "x-kubernetes-group-version-kind": [kind],
    })
}

fn metadata(name: &str) -> Value {
    json!({"allOf": [{"$ref": format!("#/components/schemas/{META}{name}")}]})
}

fn add_object_fields(schema: &mut Value) {
    let properties = meta::map_at(schema, "properties");
    properties.insert("apiVersion".into(), json!({"type": "string"}));
    properties.insert("kind".into(), json!({"type": "string"}));
    properties.insert("metadata".into(), metadata("ObjectMeta"));
}

fn add_selectable_fields(schema: &mut Value, entry: &Value) {
    let fields = entry.get("selectableFields").and_then(Value::as_array).filter(|fields| !fields.is_empty());
    let Some(fields) = fields else { return };
    let path = |field: &Value| {
        let path = field["jsonPath"].as_str().unwrap_or_default();
        json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)})
    };
    schema[SELECTABLE] = fields.iter().map(path).collect();
}

/// Translates the extensions of structural schemas to plain OpenAPI.
fn spell_out(schema: &mut Value) {
    let set = |schema: &Value, key: &str| schema.get(key).is_some_and(|value| *value == true);
    if set(schema, "x-kubernetes-embedded-resource") {
        add_object_fields(schema);
        schema["required"] = json!(["kind", "apiVersion"]);
    }
    if set(schema, "x-kubernetes-int-or-string") {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(spell_out);
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key).filter(|inner| inner.is_object()) {
            spell_out(inner);
        }
    }
}

/// Adds the types to which schemas and paths refer, from the core document.
fn add_shared(schemas: &mut Map<String, Value>, paths: &Value) {
    let core = builtin::open_api("api/v1").unwrap_or_default();
    let mut wanted = Vec::new();
    references(paths, &mut wanted);
    schemas.values().for_each(|schema| references(schema, &mut wanted));
    while let Some(name) = wanted.pop() {
        let Some(found) = core["components"]["schemas"].get(&name) else { continue };
        if schemas.insert(name, found.clone()).is_none() {
            references(found, &mut wanted);
        }
    }
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str().and_then(|text| text.strip_prefix("#/components/schemas/")) {
                    Some(name) if key == "$ref" => found.push(name.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}
