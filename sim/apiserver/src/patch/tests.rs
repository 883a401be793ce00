use serde_json::json;

use super::*;

fn pod() -> Schema {
    let components = json!({
        "Pod": {"type": "object", "properties": {
            "metadata": {"type": "object", "properties": {
                "name": {"type": "string"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"}
            }},
            "spec": {"allOf": [{"$ref": "#/components/schemas/PodSpec"}], "default": {}}
        }},
        "PodSpec": {"type": "object", "properties": {
            "containers": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/Container"}]},
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            "tolerations": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
            "strategy": {"type": "object", "properties": {"type": {"type": "string"}, "rollingUpdate": {"type": "object"}},
                "x-kubernetes-patch-strategy": "retainKeys"}
        }},
        "Container": {"type": "object", "properties": {
            "name": {"type": "string"}, "image": {"type": "string"},
            "args": {"type": "array", "items": {"type": "string"}}
        }}
    });
    Schema::from_open_api(components.as_object().unwrap(), "Pod").unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better")]
fn merged(current: Value, patch: Value) -> Value {
    strategic(&pod(), &current, &patch).unwrap()
}

#[test]
fn lists_with_a_key_merge_by_it() {
    let current = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
    let patch = json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}});
    let expected = json!({"spec": {"containers": [
        {"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}});
    assert_eq!(merged(current, patch), expected);
}

#[test]
fn directives_delete_and_replace() {
    let current =
        json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
    let delete = json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}});
    assert_eq!(merged(current.clone(), delete)["spec"], json!({"containers": [{"name": "b"}]}));
    let replace = json!({"spec": {"containers": [{"name": "z"}, {"$patch": "replace"}]}});
    assert_eq!(merged(current.clone(), replace)["spec"], json!({"containers": [{"name": "z"}]}));
    let labels = json!({"metadata": {"labels": {"$patch": "replace", "b": "2"}}});
    assert_eq!(merged(current, labels)["metadata"], json!({"labels": {"b": "2"}}));
}

#[test]
fn scalars_merge_as_a_set_and_can_be_deleted() {
    let current = json!({"metadata": {"finalizers": ["a", "b"]}});
    let add = json!({"metadata": {"finalizers": ["c"]}});
    // Items that the server does not have yet come first.
    assert_eq!(merged(current.clone(), add)["metadata"]["finalizers"], json!(["c", "a", "b"]));
    let delete = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(merged(current, delete)["metadata"]["finalizers"], json!(["b"]));
}

#[test]
fn element_order_is_set() {
    let current = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "server"}]}});
    let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}});
    let names: Vec<_> = merged(current, patch)["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| container["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["b", "a", "server"]);
}

#[test]
fn retain_keys_clears_the_rest() {
    let current = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}});
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(merged(current, patch)["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn nulls_delete_and_unknown_lists_are_replaced() {
    let current = json!({"metadata": {"labels": {"a": "1"}}, "spec": {"tolerations": [{"key": "a"}]}});
    let patch = json!({"metadata": {"labels": {"a": null}}, "spec": {"tolerations": [{"key": "b"}]}});
    let expected = json!({"metadata": {"labels": {}}, "spec": {"tolerations": [{"key": "b"}]}});
    assert_eq!(merged(current, patch), expected);
}

#[test]
fn missing_merge_keys_are_named() {
    let current = json!({"spec": {"containers": [{"name": "a"}]}});
    let patch = json!({"spec": {"containers": [{"image": "x"}]}});
    let error = strategic(&pod(), &current, &patch).unwrap_err();
    assert_eq!(error.to_string(), "map: map[image:x] does not contain declared merge key: name");
}

#[test]
fn custom_resources_take_no_strategic_patch() {
    let schema = Schema::from_crd(&json!({"type": "object"})).unwrap();
    let error = strategic(&schema, &json!({}), &json!({})).unwrap_err();
    assert_eq!(error, PatchError::BadRequest("strategic merge patch format is not supported".to_owned()));
}

#[test]
fn json_patch_operations() {
    let current = json!({"a": [1, 2], "b": {"c/d": 1}});
    let patch = json!([
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "remove", "path": "/a/0"},
        {"op": "replace", "path": "/b/new", "value": true},
        {"op": "move", "from": "/b/c~1d", "path": "/moved"},
        {"op": "copy", "from": "/moved", "path": "/copied"},
        {"op": "test", "path": "/absent", "value": null}
    ]);
    let expected = json!({"a": [2, 3], "b": {"new": true}, "moved": 1, "copied": 1});
    assert_eq!(json(&current, &patch).unwrap(), expected);
}

#[test]
fn json_patch_failures_read_as_the_server_says() {
    let current = json!({"a": [1]});
    let cases = [
        (
            json!([{"op": "remove", "path": "/x"}]),
            "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value",
        ),
        (json!([{"op": "test", "path": "/a/0", "value": 2}]), "testing value /a/0 failed: test failed"),
        (
            json!([{"op": "add", "path": "/a/5", "value": 2}]),
            "error in add for path: '/a/5': Unable to access invalid index: 5: invalid index referenced",
        ),
        (json!([{"op": "spin", "path": "/a"}]), "Unexpected kind: spin"),
    ];
    for (patch, text) in cases {
        assert_eq!(json(&current, &patch).unwrap_err(), PatchError::Unprocessable(text.to_owned()));
    }
    assert!(matches!(json(&current, &json!({})), Err(PatchError::BadRequest(_))));
}

#[test]
fn merge_patch_deletes_nulls_and_keeps_those_in_new_lists() {
    let current = json!({"a": {"b": 1, "c": 2}, "d": [1]});
    let patch = json!({"a": {"b": null}, "d": [{"x": null}, null], "e": {"f": null}});
    assert_eq!(merge(&current, &patch), json!({"a": {"c": 2}, "d": [{}, null], "e": {}}));
}

#[test]
fn operations_do_not_nest_without_end() {
    let deeper = json!({"op": "copy", "from": "/a", "path": "/a/a"});
    let patch = |times: usize| Value::Array(vec![deeper.clone(); times]);
    assert!(json(&json!({"a": {}}), &patch(100)).is_ok());
    assert!(matches!(json(&json!({"a": {}}), &patch(300)), Err(PatchError::Unprocessable(_))));
}
