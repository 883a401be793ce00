//! Detects from the metadata alone whether another client changed what we applied.
//!
//! The API server records in `metadata.managedFields` which fields each manager owns. If a client edits a field that we
//! applied, the field leaves our entry. If a client removes it, it leaves our entry as well. So an object is as we left it
//! exactly when our entry still covers every field that we applied. No schema is needed for that: the entry itself shows
//! which lists merge by key and which are a single leaf.
//!
//! An empty list is the exception: the API server records its owner only if it is a single leaf. So it counts as changed if
//! another manager owns it as a leaf. In a list that merges by key, others may own items, and those stay.

use serde_json::{Map, Value};

use super::names::FIELD_MANAGER;

/// The field of our entry that holds the leaves of other managers. No field of an object is recorded under this name.
const OF_OTHERS: &str = "others";

/// Returns our entry in an object's managed fields, if there is one, with the leaves that others own and we do not. The owner
/// reference is left out. It names the binding, so entries that are otherwise equal would differ in each namespace.
pub fn our_fields(object: &Value) -> Option<Value> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let ours = entries.iter().find(|entry| {
        entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply" && entry["subresource"].is_null()
    })?;
    let mut fields = ours.get("fieldsV1")?.clone();
    let mut others = Map::new();
    for other in entries.iter().filter(|entry| *entry != ours && entry["subresource"].is_null()) {
        add_leaves(&mut others, &fields, &other["fieldsV1"]);
    }
    if let Some(metadata) = fields["f:metadata"].as_object_mut() {
        metadata.remove("f:ownerReferences");
    }
    if !others.is_empty() {
        fields[OF_OTHERS] = Value::Object(others);
    }
    Some(fields)
}

/// Adds the leaves of another entry that ours lacks. Items of lists count only if we own the item.
fn add_leaves(leaves: &mut Map<String, Value>, ours: &Value, other: &Value) {
    for (field, other) in other.as_object().into_iter().flatten() {
        let (own, is_field) = (ours.get(field), field.starts_with("f:"));
        if own.is_none() && !is_field {
            continue;
        }
        if own.is_none() && other.as_object().is_some_and(Map::is_empty) {
            leaves.insert(field.clone(), Value::Object(Map::new()));
            continue;
        }
        let mut inner = match leaves.remove(field) {
            Some(Value::Object(inner)) => inner,
            _ => Map::new(),
        };
        add_leaves(&mut inner, own.unwrap_or(&Value::Null), other);
        if !inner.is_empty() {
            leaves.insert(field.clone(), Value::Object(inner));
        }
    }
}

/// Returns whether another client has written the object as well. This is false for an object that an apply has just created.
/// A status does not count: it is written to objects that exist, by controllers of their kinds.
pub fn has_other_writers(object: &Value) -> bool {
    let entries = object["metadata"]["managedFields"].as_array();
    let is_other = |entry: &Value| entry["manager"] != FIELD_MANAGER && entry["subresource"].is_null();
    entries.into_iter().flatten().any(is_other)
}

/// The part of our entry that concerns a field, and the part of the leaves of others.
#[derive(Clone, Copy)]
struct Owners<'a> {
    ours: &'a Value,
    others: &'a Value,
}

impl<'a> Owners<'a> {
    fn of(fields: &'a Value) -> Self {
        Self { ours: fields, others: fields.get(OF_OTHERS).unwrap_or(&Value::Null) }
    }

    fn at(self, part: &str) -> Self {
        let at = |owned: &'a Value| owned.get(part).unwrap_or(&Value::Null);
        Self { ours: at(self.ours), others: at(self.others) }
    }

    fn field(self, field: &str) -> Self {
        self.at(&format!("f:{field}"))
    }
}

/// Returns whether our entry covers every field of the template.
pub fn covers(fields: &Value, template: &Value) -> bool {
    let owners = Owners::of(fields);
    parts(owners, template).all(|(owners, _, field, value)| covers_field(owners, field, value))
}

/// Returns the fields of the template that our entry does not cover, as paths.
pub fn lost(fields: &Value, template: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    for (owners, parent, field, value) in parts(Owners::of(fields), template) {
        collect_lost(owners, parent, field, value, &mut lost);
    }
    lost
}

/// Returns the fields of the template, those of the metadata singly, each with the owners of its parent and the parent's path.
fn parts<'a>(
    owners: Owners<'a>,
    template: &'a Value,
) -> impl Iterator<Item = (Owners<'a>, &'static str, &'a str, &'a Value)> {
    let fields = template.as_object().into_iter().flatten();
    // These name the object; no manager owns them.
    let fields = fields.filter(|(field, _)| !["apiVersion", "kind", "metadata"].contains(&field.as_str()));
    let metadata = template.get("metadata").and_then(Value::as_object).into_iter().flatten();
    let metadata = metadata.filter(|(field, _)| *field != "name");
    let metadata =
        metadata.map(move |(field, value)| (owners.field("metadata"), "metadata", field.as_str(), value));
    metadata.chain(fields.map(move |(field, value)| (owners, "", field.as_str(), value)))
}

fn collect_lost(owners: Owners<'_>, parent: &str, field: &str, value: &Value, lost: &mut Vec<String>) {
    if covers_field(owners, field, value) {
        return;
    }
    let path = match (parent, field.contains(['.', '/'])) {
        ("", _) => field.to_owned(),
        (_, true) => format!("{parent}[{field}]"),
        (_, false) => format!("{parent}.{field}"),
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (inner, value) in fields {
                collect_lost(owners.field(field), &path, inner, value, lost);
            }
        }
        _ => lost.push(path),
    }
}

fn covers_field(owners: Owners<'_>, field: &str, value: &Value) -> bool {
    // Null requests nothing.
    value.is_null() || covers_value(owners.field(field), value)
}

fn covers_value(owners: Owners<'_>, value: &Value) -> bool {
    let Some(owned) = owners.ours.as_object() else { return has_no_owner(owners, value) };
    // A leaf: a scalar, or a list or map that is owned as a whole.
    if owned.is_empty() {
        return true;
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(field, value)| covers_field(owners, field, value)),
        Value::Array(items) => covers_items(owned, owners, items),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Returns whether a value may be as we applied it although we own nothing of it: it consists of empty lists alone.
fn has_no_owner(owners: Owners<'_>, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty() && !owners.others.as_object().is_some_and(Map::is_empty),
        Value::Object(fields) => {
            !fields.is_empty() && fields.iter().all(|(field, value)| covers_field(owners, field, value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Returns whether each item has an owned item of its own. An item without a key that the server sets by default could be
/// matched with another item that has the key. So items with all keys are matched first.
fn covers_items(owned: &Map<String, Value>, owners: Owners<'_>, items: &[Value]) -> bool {
    let mut free: Vec<Owned<'_>> = owned.keys().filter_map(|part| Owned::read(part, owners)).collect();
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
    /// An element of a list that merges by key: its keys, and the owners of its fields.
    Keyed(Map<String, Value>, Owners<'a>),
}

impl<'a> Owned<'a> {
    fn read(part: &str, list: Owners<'a>) -> Option<Self> {
        match part.split_once(':')? {
            ("v", element) => serde_json::from_str(element).ok().map(Self::Element),
            ("k", keys) => serde_json::from_str(keys).ok().map(|keys| Self::Keyed(keys, list.at(part))),
            _ => None,
        }
    }

    /// Returns whether it is this item, which may lack some of the keys.
    fn is(&self, item: &Value, lacks_keys: bool) -> bool {
        match self {
            Self::Element(element) => element == item,
            Self::Keyed(keys, owners) => {
                let has = |(key, value)| item.get(key).map_or(lacks_keys, |own| own == value);
                keys.iter().all(has) && covers_value(*owners, item)
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

    #[test]
    fn only_what_we_applied_to_the_object_itself_is_ours() {
        let entry = |manager: &str, operation: &str, field: &str| json!({ "manager": manager, "operation": operation, "fieldsV1": { "f:data": { field: {} } } });
        let mut status = entry(FIELD_MANAGER, "Apply", "f:status");
        status["subresource"] = json!("status");
        let ours = |entries: &[Value]| {
            our_fields(&json!({ "metadata": { "managedFields": entries } }))
                .map(|fields| fields["f:data"].clone())
        };
        let others = [entry("kubectl", "Apply", "f:a"), entry(FIELD_MANAGER, "Update", "f:b"), status];
        assert_eq!(ours(&others), None);
        let all = [others.as_slice(), &[entry(FIELD_MANAGER, "Apply", "f:c")]].concat();
        assert_eq!(ours(&all), Some(json!({ "f:c": {} })));
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
        for pointer in ["/f:data", "/f:spec/f:podSelector"] {
            assert!(!covers(&without(&owned, pointer), &template), "{pointer}");
        }
    }

    /// Returns the managed fields of an object, of which ours are these and another manager's are those.
    fn managed(ours: &Value, others: &Value) -> Value {
        let entry = |manager: &str, operation: &str, fields: &Value| json!({ "manager": manager, "operation": operation, "fieldsV1": fields });
        let entries = [entry(FIELD_MANAGER, "Apply", ours), entry("kubectl", "Update", others)];
        our_fields(&json!({ "metadata": { "managedFields": entries } })).expect("has our entry")
    }

    #[test]
    fn an_empty_list_is_lost_if_another_manager_owns_it_as_a_whole() {
        let item = json!({ "name": "one", "drop": [] });
        let template = json!({ "rules": [], "spec": { "ports": [] }, "items": [item] });
        let ours = json!({ "f:items": { r#"k:{"name":"one"}"#: { ".": {}, "f:name": {} } } });
        let others = |fields: Value| managed(&ours, &fields);
        assert!(covers(&others(json!({ "f:data": { "f:more": {} } })), &template));
        assert!(covers(
            &others(json!({ "f:spec": { "f:ports": { r#"k:{"port":80}"#: { "f:port": {} } } } })),
            &template
        ));
        for (taken, path) in [
            (json!({ "f:rules": {} }), "rules"),
            (json!({ "f:spec": { "f:ports": {} } }), "spec.ports"),
            (json!({ "f:items": { r#"k:{"name":"one"}"#: { "f:drop": {} } } }), "items"),
        ] {
            let fields = others(taken);
            assert!(!covers(&fields, &template), "{fields}");
            assert_eq!(lost(&fields, &template), [path]);
        }
        assert!(covers(
            &managed(&json!({ "f:rules": {} }), &json!({ "f:rules": {} })),
            &json!({ "rules": [] })
        ));
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
