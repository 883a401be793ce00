//! `/openapi/v2`: one document about all group versions, in the older format. It is made from the documents of version 3.

use serde_json::{Map, Value, json};

use super::paths::SELECTABLE;

const SCHEMAS: &str = "#/components/schemas/";

/// The keyword of schemas that allow unknown fields.
const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// Returns the document of all group versions.
pub(super) fn document(documents: impl Iterator<Item = (Value, bool)>) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for (mut document, is_custom) in documents {
        let given = document["paths"].as_object_mut().map(std::mem::take).unwrap_or_default();
        paths.extend(given.into_iter().map(|(path, item)| (path, path_item(item))));
        let schemas =
            document["components"]["schemas"].as_object_mut().map(std::mem::take).unwrap_or_default();
        for (name, mut schema) in schemas {
            if definitions.contains_key(&name) {
                continue;
            }
            if is_custom {
                without_new_keywords(&mut schema);
                if is_open(&schema) {
                    let mut open = json!({"type": "object"});
                    for key in ["x-kubernetes-group-version-kind", SELECTABLE] {
                        if let Some(value) = schema.get_mut(key) {
                            open[key] = value.take();
                        }
                    }
                    schema = open;
                }
            }
            definition(&mut schema);
            definitions.insert(name, schema);
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": paths,
        "definitions": definitions,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
        "security": [{"BearerToken": []}],
    })
}

fn is_open(schema: &Value) -> bool {
    schema.get(OPEN) == Some(&Value::Bool(true))
}

fn path_item(item: Value) -> Value {
    let Value::Object(item) = item else { return item };
    let entries = item.into_iter().map(|(key, value)| {
        let value = if key == "parameters" { parameters(&value).into() } else { operation(value) };
        (key, value)
    });
    Value::Object(entries.collect())
}

fn operation(mut operation: Value) -> Value {
    let Some(fields) = operation.as_object_mut() else { return operation };
    let mut all = fields.get("parameters").map(parameters).unwrap_or_default();
    if let Some(Value::Object(body)) = fields.remove("requestBody") {
        let content = body.get("content").and_then(Value::as_object);
        let schema = content.and_then(|content| content.values().next()?.get("schema").cloned());
        all.push(json!({"name": "body", "in": "body", "required": true, "schema": referring(schema)}));
        fields.insert("consumes".to_owned(), content.into_iter().flat_map(Map::keys).cloned().collect());
    }
    if !all.is_empty() {
        fields.insert("parameters".to_owned(), all.into());
    }
    let responses = fields.get_mut("responses").and_then(Value::as_object_mut);
    let mut produced = Vec::new();
    for response in responses.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
        if let Some(Value::Object(content)) = response.remove("content") {
            let schema = content.values().next().and_then(|content| content.get("schema").cloned());
            response.insert("schema".to_owned(), referring(schema));
            produced = content.keys().cloned().collect();
        }
    }
    fields.insert("produces".to_owned(), produced.into());
    fields.insert("schemes".to_owned(), json!(["https"]));
    operation
}

/// Returns parameters with the fields of their types.
fn parameters(parameters: &Value) -> Vec<Value> {
    let flat = |parameter: &Value| {
        let mut parameter = parameter.clone();
        if let Some(Value::Object(schema)) =
            parameter.as_object_mut().and_then(|fields| fields.remove("schema"))
        {
            schema.into_iter().for_each(|(key, value)| parameter[key] = value);
        }
        parameter
    };
    parameters.as_array().into_iter().flatten().map(flat).collect()
}

fn referring(schema: Option<Value>) -> Value {
    let mut schema = schema.unwrap_or_default();
    definition(&mut schema);
    schema
}

/// Rewrites a schema without the keywords that the older format lacks.
fn definition(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("default");
    if let Some(Value::Array(mut parts)) = fields.remove("allOf")
        && let Some(Value::Object(only)) = parts.pop()
    {
        fields.extend(only);
    }
    // Quantities, and numbers or names of ports: either form is a string here.
    if fields.remove("oneOf").is_some() {
        fields.insert("type".to_owned(), "string".into());
    }
    if let Some(Value::String(reference)) = fields.get_mut("$ref") {
        *reference = reference.replace(SCHEMAS, "#/definitions/");
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(definition);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            definition(inner);
        }
    }
}

/// Removes from the schema of a custom resource what clients of the older format can't read: nullable and open values have no type.
fn without_new_keywords(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_set = |value: Option<&Value>| value == Some(&Value::Bool(true));
    if fields.get("allOf").is_some_and(|parts| parts.pointer("/0/$ref").is_some()) {
        return;
    }
    for key in ["allOf", "anyOf", "oneOf", "not"] {
        fields.remove(key);
    }
    let is_open = is_set(fields.get(OPEN));
    if is_open && is_set(fields.get("x-kubernetes-embedded-resource")) {
        fields.remove("required");
    }
    let is_nullable = is_set(fields.remove("nullable").as_ref());
    if is_nullable || is_open {
        fields.remove("items");
        fields.remove("properties");
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let has_no_items = kind == "array" && !fields.contains_key("items");
    if is_nullable || has_no_items || (is_open && kind == "object") {
        fields.remove("type");
    }
    let nullable_fields: Vec<String> = fields
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter(|(_, property)| is_set(property.get("nullable")))
        .map(|(name, _)| name.clone())
        .collect();
    if is_set(fields.get("additionalProperties").and_then(|inner| inner.get("nullable"))) {
        fields.remove("required");
    }
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|name| !nullable_fields.iter().any(|nullable| name == nullable));
        if required.is_empty() {
            fields.remove("required");
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(without_new_keywords);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            without_new_keywords(inner);
        }
    }
}
