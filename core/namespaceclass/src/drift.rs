//! Detects from the metadata alone whether another client changed what we applied.
//!
//! The API server records in `metadata.managedFields` which fields each manager owns. If a client edits a field that we
//! applied, the field leaves our entry. If a client removes it, it leaves our entry as well. So an object is as we left it
//! exactly when our entry still covers every field that we applied. No schema is needed for that: the entry itself shows
//! which lists merge by key and which are a single leaf.

use serde_json::{Map, Value};

use super::names::FIELD_MANAGER;

/// Returns our entry in an object's managed fields, if there is one. The owner reference is left out. It names the binding,
/// so entries that are otherwise equal would differ in each namespace.
pub fn our_fields(object: &Value) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let ours = entries.iter().find(|entry| {
        entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply" && entry["subresource"].is_null()
    })?;
    let mut fields = ours.get("fieldsV1")?.clone();
    if let Some(metadata) = fields["f:metadata"].as_object_mut() {
        metadata.remove("f:ownerReferences");
    }
    Some(fields)
}

/// Returns whether another client has written the object as well. This is false for an object that an apply has just created.
pub fn has_other_writers(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.into_iter().flatten().any(|entry| entry["manager"] != FIELD_MANAGER)
}

/// Returns whether our entry covers every field of the template.
pub fn covers(fields: &Value, template: &Value) -> bool {
    let Some(template) = template.as_object() else { return true };
    template.iter().all(|(field, value)| match field.as_str() {
        // These name the object; no manager owns them.
        "apiVersion" | "kind" => true,
        "metadata" => {
            let owned = &fields["f:metadata"];
            let mut parts = value.as_object().into_iter().flatten();
            parts.all(|(part, value)| part == "name" || covers_field(owned, part, value))
        }
        _ => covers_field(fields, field, value),
    })
}

/// Returns the fields of the template that our entry does not cover, as paths.
pub fn lost(fields: &Value, template: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    for (field, value) in template.as_object().into_iter().flatten() {
        match field.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let owned = &fields["f:metadata"];
                for (part, value) in
                    value.as_object().into_iter().flatten().filter(|(part, _)| *part != "name")
                {
                    collect_lost(owned, "metadata", part, value, &mut lost);
                }
            }
            _ => collect_lost(fields, "", field, value, &mut lost),
        }
    }
    lost
}

fn collect_lost(owned: &Value, parent: &str, field: &str, value: &Value, lost: &mut Vec<String>) {
    if covers_field(owned, field, value) {
        return;
    }
    let path = match (parent, field.contains(['.', '/'])) {
        ("", _) => field.to_owned(),
        (_, true) => format!("{parent}[{field}]"),
        (_, false) => format!("{parent}.{field}"),
    };
    let owned = owned.get(format!("f:{field}")).unwrap_or(&Value::Null);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (field, value) in fields {
                collect_lost(owned, &path, field, value, lost);
            }
        }
        _ => lost.push(path),
    }
}

fn covers_field(fields: &Value, field: &str, value: &Value) -> bool {
    // Null requests nothing.
    if value.is_null() {
        return true;
    }
    fields.get(format!("f:{field}")).is_some_and(|owned| covers_value(owned, value))
}

fn covers_value(owned: &Value, value: &Value) -> bool {
    let Some(owned_parts) = owned.as_object() else { return false };
    // A leaf: a scalar, or a list or map that is owned as a whole.
    if owned_parts.is_empty() {
        return true;
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(field, value)| covers_field(owned, field, value)),
        Value::Array(items) => covers_items(owned_parts, items),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Returns whether each item has an owned item of its own. An item without a key that the server sets by default could be
/// matched with another item that has the key. So items with all keys are matched first.
fn covers_items(owned: &Map<String, Value>, items: &[Value]) -> bool {
    let mut free: Vec<Owned<'_>> = owned.iter().filter_map(Owned::read).collect();
    let mut choose = |item: &Value, lacks_keys: bool| {
        let chosen = free.iter().position(|owned| owned.is(item, lacks_keys));
        chosen.map(|place| free.swap_remove(place)).is_some()
    };
    let rest: Vec<&Value> = items.iter().filter(|item| !choose(item, false)).collect();
    rest.into_iter().all(|item| choose(item, true))
}

/// An owned item of a list.
enum Owned<'a> {
    /// An element of a set: the element itself.
    Element(Value),
    /// An element of a list that merges by key: its keys, and its owned fields.
    Keyed(Map<String, Value>, &'a Value),
}

impl<'a> Owned<'a> {
    fn read((part, fields): (&String, &'a Value)) -> Option<Self> {
        match part.split_once(':')? {
            ("v", element) => serde_json::from_str(element).ok().map(Self::Element),
            ("k", keys) => serde_json::from_str(keys).ok().map(|keys| Self::Keyed(keys, fields)),
            _ => None,
        }
    }

    /// Returns whether it is this item, which may lack some of the keys.
    fn is(&self, item: &Value, lacks_keys: bool) -> bool {
        match self {
            Self::Element(element) => element == item,
            Self::Keyed(keys, fields) => {
                let has = |(key, value)| item.get(key).map_or(lacks_keys, |own| own == value);
                keys.iter().all(has) && covers_value(fields, item)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_differs_from_namespace_to_namespace_is_left_out_of_our_fields() {
        let fields = |uid: &str| {
            let owner = format!("k:{{\"uid\":\"{uid}\"}}");
            let fields = json!({ "f:data": { "f:a": {} }, "f:metadata": { "f:ownerReferences": { owner: {} }, "f:labels": {} } });
            let entry = json!({ "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields });
            our_fields(&json!({ "metadata": { "managedFields": [entry] } }))
        };
        assert_eq!(fields("1"), fields("2"));
        assert_eq!(fields("1"), Some(json!({ "f:data": { "f:a": {} }, "f:metadata": { "f:labels": {} } })));
    }

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

    /// Returns the fields without the one at a JSON pointer.
    fn without(fields: &Value, pointer: &str) -> Value {
        let mut fields = fields.clone();
        let (parent, field) = pointer.rsplit_once('/').expect("a path");
        let parent = fields.pointer_mut(parent).and_then(Value::as_object_mut).expect("exists");
        assert!(parent.remove(&field.replace("~1", "/")).is_some(), "{pointer}");
        fields
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
            assert!(!covers(&without(&fields(), pointer), &service()), "{pointer}");
        }
    }

    #[test]
    fn lost_fields_are_named_by_their_paths() {
        assert_eq!(lost(&fields(), &service()), Vec::<String>::new());
        let mut fields = without(&fields(), "/f:metadata/f:labels/f:app");
        fields = without(&fields, "/f:spec/f:ports/k:{\"port\":80,\"protocol\":\"TCP\"}/f:name");
        assert_eq!(lost(&fields, &service()), ["metadata.labels.app", "spec.ports"]);
        assert_eq!(lost(&Value::Null, &json!({ "kind": "A", "data": { "a": 1, "b": null } })), ["data.a"]);
        let annotated = json!({ "metadata": { "annotations": { "a.example.com/b": "1" } } });
        let owned = json!({ "f:metadata": { "f:annotations": { "f:c": {} } } });
        assert_eq!(lost(&owned, &annotated), ["metadata.annotations[a.example.com/b]"]);
    }

    #[test]
    fn empty_values_are_owned_like_any_other_but_null_is_not() {
        let template = json!({ "data": {}, "spec": { "podSelector": {}, "policyTypes": [] }, "rules": [], "gone": null });
        let owned =
            json!({ "f:data": {}, "f:spec": { "f:podSelector": {}, "f:policyTypes": {} }, "f:rules": {} });
        assert!(covers(&owned, &template));
        for pointer in ["/f:data", "/f:spec/f:podSelector", "/f:spec/f:policyTypes", "/f:rules"] {
            assert!(!covers(&without(&owned, pointer), &template), "{pointer}");
        }
    }

    #[test]
    fn each_item_of_a_list_has_an_owner_of_its_own() {
        let ports = |ports: Value| json!({ "spec": { "ports": ports } });
        let udp = json!({ "name": "udp", "port": 53, "protocol": "UDP" });
        let tcp = json!({ "name": "tcp", "port": 53 });
        let owned = json!({ "f:spec": { "f:ports": {
            r#"k:{"port":53,"protocol":"TCP"}"#: { ".": {}, "f:name": {}, "f:port": {} },
            r#"k:{"port":53,"protocol":"UDP"}"#: { ".": {}, "f:name": {}, "f:port": {}, "f:protocol": {} },
        } } });
        let lost = without(&owned, r#"/f:spec/f:ports/k:{"port":53,"protocol":"TCP"}"#);
        for items in [json!([tcp, udp]), json!([udp, tcp])] {
            assert!(covers(&owned, &ports(items.clone())));
            assert!(!covers(&lost, &ports(items)));
        }
    }
}
