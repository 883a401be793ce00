//! Whether anyone changed what we applied, read from the metadata alone.
//!
//! The API server keeps, in `metadata.managedFields`, which fields each manager owns. Who edits a field that we applied
//! takes it from our entry; who removes it removes it there too. So an object is as we left it exactly when our entry
//! still covers every field of what we applied. No schema is needed for that: the entry itself shows which lists merge by
//! key and which are a single leaf.

use serde_json::Value;

use super::names::FIELD_MANAGER;

/// Our entry in an object's managed fields, if there is one.
pub fn our_fields(object: &Value) -> Option<&Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let ours = entries.iter().find(|entry| {
        entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply" && entry["subresource"].is_null()
    })?;
    ours.get("fieldsV1")
}

/// Whether our entry covers every field of the template.
pub fn covers(fields: &Value, template: &Value) -> bool {
    let Some(template) = template.as_object() else { return true };
    template.iter().all(|(field, value)| match field.as_str() {
        // These name the object; nobody owns them.
        "apiVersion" | "kind" => true,
        "metadata" => {
            let owned = &fields["f:metadata"];
            let mut parts = value.as_object().into_iter().flatten();
            parts.all(|(part, value)| part == "name" || covers_field(owned, part, value))
        }
        _ => covers_field(fields, field, value),
    })
}

fn covers_field(fields: &Value, field: &str, value: &Value) -> bool {
    // The server may or may not remember that an empty value was set; there is nothing in it that could be changed.
    if is_empty(value) {
        return true;
    }
    fields.get(format!("f:{field}")).is_some_and(|owned| covers_value(owned, value))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn covers_value(owned: &Value, value: &Value) -> bool {
    let Some(owned_parts) = owned.as_object() else { return false };
    // A leaf: a scalar, or a list or map that is owned as a whole.
    if owned_parts.is_empty() {
        return true;
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(field, value)| covers_field(owned, field, value)),
        Value::Array(items) => items.iter().all(|item| {
            owned_parts.iter().any(|(part, owned)| match part.split_once(':') {
                Some(("v", element)) => element_is(element, item),
                Some(("k", keys)) => keys_match(keys, item) && covers_value(owned, item),
                _ => false,
            })
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn element_is(element: &str, item: &Value) -> bool {
    serde_json::from_str::<Value>(element).is_ok_and(|element| element == *item)
}

/// Whether a list item has these keys. A key that the item lacks has been filled in by its default.
fn keys_match(keys: &str, item: &Value) -> bool {
    let Ok(Value::Object(keys)) = serde_json::from_str::<Value>(keys) else { return false };
    keys.iter().all(|(key, value)| item.get(key).is_none_or(|own| own == value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "web", "labels": { "app": "web", "tier": "front" }, "finalizers": ["example.com/hold", "example.com/wait"] },
            "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "name": "http" }, { "port": 443, "protocol": "UDP" }] },
        })
    }

    fn fields() -> Value {
        json!({
            "f:metadata": {
                "f:labels": { "f:app": {}, "f:tier": {} },
                "f:finalizers": { "v:\"example.com/hold\"": {}, "v:\"example.com/wait\"": {} },
            },
            "f:spec": {
                "f:selector": {},
                "f:ports": {
                    "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {}, "f:name": {} },
                    "k:{\"port\":443,\"protocol\":\"UDP\"}": { ".": {}, "f:port": {}, "f:protocol": {} },
                },
            },
        })
    }

    #[test]
    fn what_was_applied_is_covered() {
        assert!(covers(&fields(), &service()));
    }

    #[test]
    fn every_field_taken_from_us_shows() {
        for pointer in [
            "/f:metadata/f:labels/f:app",
            "/f:metadata/f:finalizers/v:\"example.com~1hold\"",
            "/f:spec/f:selector",
            "/f:spec/f:ports/k:{\"port\":80,\"protocol\":\"TCP\"}",
            "/f:spec/f:ports/k:{\"port\":80,\"protocol\":\"TCP\"}/f:name",
            "/f:spec/f:ports",
        ] {
            let mut fields = fields();
            let (parent, field) = pointer.rsplit_once('/').expect("a path");
            let parent = fields.pointer_mut(parent).and_then(Value::as_object_mut).expect("exists");
            assert!(parent.remove(&field.replace("~1", "/")).is_some(), "{pointer}");
            assert!(!covers(&fields, &service()), "{pointer}");
        }
    }

    #[test]
    fn empty_values_need_no_owner() {
        assert!(covers(&json!({}), &json!({ "data": {}, "spec": null, "rules": [] })));
    }
}
