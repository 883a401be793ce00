//! No input of a client makes the library panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Schema;
use crate::managed::{Manager, OneVersion, apply, ignore_timestamps, track_update};
use crate::patch;

/// Generates JSON that often has meaningful keys and strings.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "type",
        "object",
        "array",
        "string",
        "properties",
        "items",
        "a",
        "b",
        "metadata",
        "name",
        "managedFields",
        "fieldsV1",
        "f:a",
        "k:{\"a\":1}",
        "v:1",
        "i:0",
        ".",
        "op",
        "add",
        "remove",
        "path",
        "/a/0",
        "-1",
        "/-",
        "$patch",
        "delete",
        "$retainKeys",
        "$setElementOrder/a",
        "$deleteFromPrimitiveList/a",
        "x-kubernetes-list-type",
        "set",
        "map",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
        "rule",
        "self.a",
        "anyOf",
        "default",
        "required",
        "spec",
        "status",
        "operation",
        "Apply",
        "apiVersion",
        "kind",
        "uid",
        "additionalProperties",
        "pattern",
        "(",
    ]);
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e19..1e19_f64).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    scalar.prop_recursive(6, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn schemas(any: &Value) -> Vec<Schema> {
    let sound = json!({"type": "object", "properties": {
        "a": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "b": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "path": {"x-kubernetes-int-or-string": true}}});
    let components = json!({"A": {"type": "object", "properties": {
        "a": {"type": "array", "items": {"$ref": "#/A"}, "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
        "b": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
        "spec": {"allOf": [{"$ref": "#/B"}], "default": {}}, "name": {"type": "string"}}}, "B": any});
    let read = [
        Schema::from_crd(any).ok(),
        Schema::from_crd(&sound).ok(),
        components.as_object().and_then(|components| Schema::from_open_api(components, "A")),
    ];
    read.into_iter().flatten().collect()
}

proptest! {
    #[test]
    fn any_input_is_answered(schema in any_json(), old in any_json(), new in any_json()) {
        let time = "2026-01-01T00:00:00Z";
        let (reset, versions) = (&["status"][..], &OneVersion);
        let manager = Manager { name: "m", api_version: "v1", subresource: None, reset, versions, time };
        for schema in schemas(&schema) {
            let mut object = new.clone();
            schema.prune(&mut object);
            schema.drop_nulls(&mut object);
            schema.apply_defaults(&mut object);
            schema.validate(&object, Some(&old));
            schema.validate_status(&object, &old);
            track_update(&schema, Some(&old), &mut object, manager);
            ignore_timestamps(&old, &mut object);
            let _ = apply(&schema, Some(&old), &new, manager, true);
            let _ = apply(&schema, None, &new, manager, false);
            let _ = patch::strategic(&schema, &old, &new);
        }
        let _ = patch::json(&old, &new);
        patch::merge(&old, &new);
    }
}
