//! Reduces an OpenAPI document to what programs read: the schemas, and of each operation its action, its kind, its parameters
//! with their types and the media types of its body. Descriptions and the names for generators are removed.

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

fn operation(operation: &Value) -> Value {
    let bodies = operation.pointer("/requestBody/content").and_then(Value::as_object);
    json!({
        "action": operation["x-kubernetes-action"],
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
