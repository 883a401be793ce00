//! Reduces an OpenAPI document to what programs read: the schemas, and of each operation its action, its kind, its names for
//! generators of clients, its parameters with their types and the media types of its body. Descriptions are removed.

use serde_json::{Map, Value, json};

/// Reduces a document.
pub(super) fn reduce(document: &mut Value) {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::values_mut);
    for item in paths.filter_map(Value::as_object_mut) {
        for (key, value) in item.iter_mut() {
            *value = if key == "parameters" { parameters(value) } else { operation(value) };
        }
    }
    let components = std::mem::take(&mut document["components"]["schemas"]);
    document["components"] = components;
    // Every group has these options; the real server lists all groups, the model only the core group.
    if let Some(options) =
        document["components"].get_mut("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    {
        options["x-kubernetes-group-version-kind"] = Value::Null;
    }
    without_prose(&mut document["components"]);
}

/// Reduces a document of version 2 to the paths and definitions with these beginnings.
pub(super) fn reduce_v2(document: &mut Value, beginnings: &[String]) {
    let part = |document: &mut Value, key: &str| {
        let mut part = document[key].as_object_mut().map(std::mem::take).unwrap_or_default();
        part.retain(|name, _| beginnings.iter().any(|beginning| name.starts_with(beginning)));
        part
    };
    let shared = document["parameters"].take();
    let mut paths = part(document, "paths");
    for item in paths.values_mut().filter_map(Value::as_object_mut) {
        for (key, value) in item.iter_mut() {
            *value = if key == "parameters" {
                parameters_v2(value, &shared)
            } else {
                let action = &value["x-kubernetes-action"];
                // Other operations take any type on the real server, if they name one at all.
                let mut bodies = value["consumes"].as_array().cloned().unwrap_or_default();
                bodies.sort_by_cached_key(Value::to_string);
                bodies.retain(|_| action == "patch");
                json!({
                    "action": action,
                    "id": value["operationId"],
                    "tags": value["tags"],
                    "kind": value["x-kubernetes-group-version-kind"],
                    "parameters": parameters_v2(&value["parameters"], &shared),
                    "bodies": bodies,
                })
            };
        }
    }
    let mut definitions = Value::Object(part(document, "definitions"));
    without_prose(&mut definitions);
    *document = json!({"paths": paths, "definitions": definitions});
}

fn parameters_v2(parameters: &Value, shared: &Value) -> Value {
    let described = parameters.as_array().into_iter().flatten().map(|parameter| {
        let name = parameter["$ref"].as_str().and_then(|text| text.strip_prefix("#/parameters/"));
        let parameter = name.map_or(parameter, |name| &shared[name]);
        let text = |key: &str| parameter[key].as_str().unwrap_or_default();
        format!("{} in {}: {}{}", text("name"), text("in"), text("type"), parameter["schema"])
    });
    let mut described = described.collect::<Vec<_>>();
    described.sort_unstable();
    described.into()
}

fn operation(operation: &Value) -> Value {
    let bodies = operation.pointer("/requestBody/content").and_then(Value::as_object);
    json!({
        "action": operation["x-kubernetes-action"],
        "id": operation["operationId"],
        "tags": operation["tags"],
        "kind": operation["x-kubernetes-group-version-kind"],
        "parameters": parameters(&operation["parameters"]),
        "bodies": bodies.map(|types| types.keys().collect::<Vec<_>>()),
    })
}

fn parameters(parameters: &Value) -> Value {
    let described = parameters.as_array().into_iter().flatten().map(|parameter| {
        let text = |pointer: &str| parameter.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        format!("{} in {}: {}", text("/name"), text("/in"), text("/schema/type"))
    });
    let mut described = described.collect::<Vec<_>>();
    described.sort_unstable();
    described.into()
}

fn without_prose(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, value| key != "description" || !value.is_string());
            fields.values_mut().for_each(without_prose);
        }
        Value::Array(items) => items.iter_mut().for_each(without_prose),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
