//! OpenAPI v3 documents: those of built-in groups as the real server has them, those of CRDs generated.

use serde_json::{Map, Value, json};

use super::registry::Resource;
use super::{ApiServer, discovery};
use crate::builtin;

const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl ApiServer {
    /// `/openapi/v3`: the documents there are. A document's URL changes with its content.
    pub(super) fn open_api_index(&self) -> Value {
        let mut paths = Map::new();
        for path in self.group_version_paths() {
            let hash = self.open_api_hash(&path);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths})
    }

    /// The resource versions of the definitions behind a document tell its content apart.
    fn open_api_hash(&self, path: &str) -> String {
        let (group, version) = split(path);
        let tables = discovery::custom_versions(self, group, version);
        let names = tables.iter().map(|(resource, _)| format!("{}.{}", resource.plural, resource.group));
        let versions: Vec<String> = names
            .filter_map(|name| self.find("apiextensions.k8s.io", "customresourcedefinitions", &name))
            .map(|definition| super::meta::resource_version(definition).to_owned())
            .collect();
        if versions.is_empty() { "BUILTIN".to_owned() } else { versions.join("-") }
    }

    /// One group version's document.
    pub(super) fn open_api_document(&self, path: &str) -> Option<Value> {
        if let Some(document) = builtin::open_api(path) {
            return Some(document);
        }
        let (group, version) = split(path);
        let resources = discovery::custom_versions(self, group, version);
        if resources.is_empty() {
            return None;
        }
        let mut schemas = Map::new();
        let mut paths = Map::new();
        for (resource, entry) in resources {
            let name = format!(
                "{}.{version}.{}",
                group.split('.').rev().collect::<Vec<_>>().join("."),
                resource.kind
            );
            let kind = json!({"group": group, "version": version, "kind": resource.kind});
            schemas.insert(name.clone(), schema(entry, &kind));
            add_paths(&mut paths, path, resource, &name, &kind);
        }
        add_metadata(&mut schemas);
        Some(json!({
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
            "paths": paths,
            "components": {"schemas": schemas},
        }))
    }
}

fn split(path: &str) -> (&str, &str) {
    let rest = path.strip_prefix("apis/").or_else(|| path.strip_prefix("api/")).unwrap_or(path);
    rest.rsplit_once('/').unwrap_or(("", rest))
}

/// The schema of a CRD version with the fields that every object has.
fn schema(entry: &Value, kind: &Value) -> Value {
    let mut schema =
        entry.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let properties = super::meta::map_at(&mut schema, "properties");
    properties.insert("apiVersion".into(), json!({"type": "string"}));
    properties.insert("kind".into(), json!({"type": "string"}));
    let metadata = json!({"allOf": [{"$ref": format!("#/components/schemas/{METADATA}")}]});
    properties.insert("metadata".into(), metadata);
    schema["x-kubernetes-group-version-kind"] = json!([kind]);
    schema
}

/// The type of `metadata` and what it refers to, from the core document.
fn add_metadata(schemas: &mut Map<String, Value>) {
    let core = builtin::open_api("api/v1").unwrap_or_default();
    let mut wanted = vec![METADATA.to_owned()];
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

fn add_paths(paths: &mut Map<String, Value>, path: &str, resource: &Resource, name: &str, kind: &Value) {
    let namespace = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("/{path}{namespace}/{}", resource.plural);
    let content = json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}});
    let operation = |action: &str, parameters: &[&str]| {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| {
                let schema = if *name == "force" { "boolean" } else { "string" };
                json!({"name": name, "in": "query", "schema": {"type": schema, "uniqueItems": true}})
            })
            .collect();
        json!({
            "parameters": parameters,
            "responses": {"200": {"description": "OK", "content": content}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind,
        })
    };
    let write = ["dryRun", "fieldManager", "fieldValidation"];
    let patch = ["dryRun", "fieldManager", "fieldValidation", "force"];
    paths.insert(
        collection.clone(),
        json!({
            "get": operation("list", &["labelSelector", "fieldSelector", "limit", "continue"]),
            "post": operation("post", &write),
            "delete": operation("deletecollection", &["dryRun"]),
        }),
    );
    paths.insert(
        format!("{collection}/{{name}}"),
        json!({
            "get": operation("get", &[]),
            "put": operation("put", &write),
            "patch": operation("patch", &patch),
            "delete": operation("delete", &["dryRun"]),
        }),
    );
}
