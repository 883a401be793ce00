use proptest::prelude::*;
use serde_json::json;

use super::*;

fn by<'a>(name: &'a str, time: &'a str) -> Manager<'a> {
    Manager { name, api_version: "v1", subresource: None, reset: &["status"], versions: &OneVersion, time }
}

fn custom() -> Schema {
    Schema::from_crd(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "integer"},
            "atomic": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"], "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
        }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}}
    }}))
    .unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "literals read better")]
fn object(spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Custom", "metadata": {"name": "x"}, "spec": spec})
}

fn entry(object: &Value, manager: &str) -> Value {
    entries::listed(object)
        .and_then(|list| list.iter().find(|entry| entry["manager"] == manager).cloned())
        .unwrap_or(Value::Null)
}

fn stored(mut object: Value) -> Value {
    object["metadata"]["uid"] = json!("1");
    object
}

#[test]
fn create_owns_everything_but_identity() {
    let mut new =
        object(json!({"a": "x", "ports": [{"port": 80, "protocol": "TCP"}], "free": {"x": {"y": [1]}}}));
    track_update(&custom(), None, &mut new, by("me", "2026-01-01T00:00:00Z"));
    let expected = json!([{
        "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "me", "operation": "Update",
        "time": "2026-01-01T00:00:00Z",
        "fieldsV1": {"f:spec": {
            ".": {}, "f:a": {}, "f:free": {".": {}, "f:x": {".": {}, "f:y": {}}},
            "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:protocol": {}}}
        }}
    }]);
    assert_eq!(new["metadata"]["managedFields"], expected);
}

#[test]
fn updates_take_what_they_change_and_times_rest_otherwise() {
    let schema = custom();
    let mut first = object(json!({"a": "x", "b": 1}));
    track_update(&schema, None, &mut first, by("one", "2026-01-01T00:00:00Z"));
    let first = stored(first);
    let mut second = first.clone();
    second["spec"]["b"] = json!(2);
    track_update(&schema, Some(&first), &mut second, by("two", "2026-01-02T00:00:00Z"));
    assert_eq!(entry(&second, "one")["fieldsV1"], json!({"f:spec": {".": {}, "f:a": {}}}));
    assert_eq!(entry(&second, "two")["fieldsV1"], json!({"f:spec": {"f:b": {}}}));
    let mut third = second.clone();
    track_update(&schema, Some(&second), &mut third, by("two", "2026-01-03T00:00:00Z"));
    assert_eq!(third, second);
}

#[test]
fn the_main_endpoint_never_owns_status() {
    let mut new = object(json!({"a": "x"}));
    new["status"] = json!({"phase": "Ready"});
    track_update(&custom(), None, &mut new, by("me", "2026-01-01T00:00:00Z"));
    assert_eq!(entry(&new, "me")["fieldsV1"], json!({"f:spec": {".": {}, "f:a": {}}}));
    let old = stored(object(json!({})));
    let mut new = old.clone();
    new["metadata"]["managedFields"] = json!([]);
    track_update(&custom(), Some(&old), &mut new, by("me", "2026-01-01T00:00:00Z"));
    assert_eq!(new["metadata"].get("managedFields"), None);
}

#[test]
fn status_writes_own_status_alone() {
    let schema = custom();
    let mut first = object(json!({"a": "x"}));
    track_update(&schema, None, &mut first, by("one", "2026-01-01T00:00:00Z"));
    let first = stored(first);
    let mut second = first.clone();
    second["status"] = json!({"phase": "Ready"});
    second["spec"]["a"] = json!("ignored");
    let status = Manager {
        subresource: Some("status"),
        reset: &["metadata", "spec"],
        ..by("two", "2026-01-02T00:00:00Z")
    };
    track_update(&schema, Some(&first), &mut second, status);
    assert_eq!(entry(&second, "two")["fieldsV1"], json!({"f:status": {".": {}, "f:phase": {}}}));
    assert_eq!(entry(&second, "two")["subresource"], "status");
    assert_eq!(entry(&second, "one")["fieldsV1"], json!({"f:spec": {".": {}, "f:a": {}}}));
}

#[test]
fn what_two_apply_stays_until_both_let_go() {
    let schema = custom();
    let config = object(json!({"a": "x", "set": ["p"]}));
    let one = apply(&schema, None, &config, by("one", "2026-01-01T00:00:00Z"), false).unwrap();
    let both = apply(&schema, Some(&stored(one)), &config, by("two", "2026-01-02T00:00:00Z"), false).unwrap();
    let less = object(json!({"a": "x"}));
    let left = apply(&schema, Some(&both), &less, by("one", "2026-01-03T00:00:00Z"), false).unwrap();
    assert_eq!(left["spec"], json!({"a": "x", "set": ["p"]}));
    let gone = apply(&schema, Some(&left), &less, by("two", "2026-01-04T00:00:00Z"), false).unwrap();
    assert_eq!(gone["spec"], json!({"a": "x"}));
}

#[test]
fn conflicts_name_manager_and_field() {
    let schema = custom();
    let one =
        apply(&schema, None, &object(json!({"a": "x", "b": 1})), by("one", "2026-01-01T00:00:00Z"), false);
    let one = stored(one.unwrap());
    let two = object(json!({"a": "y"}));
    let error = apply(&schema, Some(&one), &two, by("two", "2026-01-02T00:00:00Z"), false).unwrap_err();
    let ApplyError::Conflicts(conflicts) = error else { panic!("{error:?}") };
    assert_eq!(conflict_message(&conflicts), "Apply failed with 1 conflict: conflict with \"one\": .spec.a");
    let forced = apply(&schema, Some(&one), &two, by("two", "2026-01-02T00:00:00Z"), true).unwrap();
    assert_eq!(forced["spec"], json!({"a": "y", "b": 1}));
    assert_eq!(entry(&forced, "one")["fieldsV1"], json!({"f:spec": {"f:b": {}}}));
}

#[test]
fn several_conflicts_are_grouped() {
    let schema = custom();
    let mut live = object(json!({"a": "x", "b": 1}));
    track_update(&schema, None, &mut live, by("kubectl-edit", "2026-01-01T00:00:00Z"));
    let config = object(json!({"a": "y", "b": 2}));
    let error =
        apply(&schema, Some(&stored(live)), &config, by("two", "2026-01-02T00:00:00Z"), false).unwrap_err();
    let ApplyError::Conflicts(conflicts) = error else { panic!("{error:?}") };
    let text =
        "Apply failed with 2 conflicts: conflicts with \"kubectl-edit\" using v1:\n- .spec.a\n- .spec.b";
    assert_eq!(conflict_message(&conflicts), text);
}

#[test]
fn keys_default_and_lists_keep_their_order() {
    let schema = custom();
    let live = object(json!({"ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "UDP"}]}));
    let config = object(json!({"ports": [{"port": 3}, {"port": 1, "name": "one"}]}));
    let out = apply(&schema, Some(&stored(live)), &config, by("me", "2026-01-01T00:00:00Z"), false).unwrap();
    let expected = json!([
        {"port": 2, "protocol": "UDP"}, {"port": 3, "protocol": "TCP"}, {"port": 1, "protocol": "TCP", "name": "one"}]);
    let sorted = |list: &Value| {
        let mut list = list.as_array().unwrap().clone();
        list.sort_by_key(|port| port["port"].as_i64());
        list
    };
    assert_eq!(sorted(&out["spec"]["ports"]), sorted(&expected));
    assert!(entry(&out, "before-first-apply").is_object());
}

#[test]
fn what_the_type_does_not_know_is_refused() {
    let schema = custom();
    let manager = by("me", "2026-01-01T00:00:00Z");
    let invalid = |spec: Value| match apply(&schema, None, &object(spec), manager, false) {
        Err(ApplyError::Invalid(text)) => text,
        other => panic!("{other:?}"),
    };
    let prefix = "failed to create typed patch object (/x; /v1, Kind=Custom): ";
    assert_eq!(invalid(json!({"z": 1})), format!("{prefix}.spec.z: field not declared in schema"));
    assert_eq!(
        invalid(json!({"a": 1})),
        format!("{prefix}.spec.a: expected string, got &value.valueUnstructured{{Value:1}}")
    );
    assert_eq!(
        invalid(json!({"b": "x"})),
        format!("{prefix}.spec.b: expected numeric (int or float), got string")
    );
    assert_eq!(
        invalid(json!({"ports": [{"port": 1}, {"port": 1}]})),
        format!("{prefix}.spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]")
    );
    let mut listed = object(json!({}));
    listed["metadata"]["managedFields"] = json!([]);
    let error = apply(&schema, None, &listed, manager, false).unwrap_err();
    assert_eq!(error, ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
}

#[test]
fn old_updates_are_merged() {
    let schema = custom();
    let mut live = object(json!({"free": {}}));
    track_update(&schema, None, &mut live, by("m-00", "2026-01-01T00:00:00Z"));
    live = stored(live);
    for index in 1..15 {
        let mut new = live.clone();
        new["spec"]["free"][format!("k{index}")] = json!(1);
        let (name, time) = (format!("m-{index:02}"), format!("2026-01-{:02}T00:00:00Z", index + 1));
        track_update(&schema, Some(&live), &mut new, by(&name, &time));
        live = new;
    }
    let managed = entries::listed(&live).unwrap();
    assert_eq!(managed.len(), 10);
    assert_eq!(managed[0]["manager"], "ancient-changes");
}

#[test]
fn no_change_means_no_new_time() {
    let old = json!({"metadata": {"managedFields": [{"manager": "a", "time": "1"}]}, "data": {"a": "b"}});
    let mut new = json!({"metadata": {"managedFields": [{"manager": "a", "time": "2"}]}, "data": {"a": "b"}});
    ignore_timestamps(&old, &mut new);
    assert_eq!(new, old);
}

/// Specs without empty lists: a manager owns an empty list as a whole, and it disappears once another manager adds an item.
fn any_spec() -> impl Strategy<Value = Value> {
    let ports = prop::collection::btree_map(1..5i64, prop::option::of("[a-c]"), 0..4);
    let set = prop::collection::btree_set("[a-d]", 0..4);
    (prop::option::of("[a-c]"), prop::option::of(0..3i64), set, ports).prop_map(|(a, b, set, ports)| {
        let port = |(port, name): (i64, Option<String>)| match name {
            Some(name) => json!({"port": port, "name": name}),
            None => json!({"port": port}),
        };
        let ports: Vec<Value> = ports.into_iter().map(port).collect();
        let mut spec = json!({"a": a, "b": b, "set": set, "ports": ports});
        let fields = spec.as_object_mut().unwrap();
        fields.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
        spec
    })
}

proptest! {
    #[test]
    fn applying_twice_changes_nothing(first in any_spec(), second in any_spec()) {
        let schema = custom();
        let one = apply(&schema, None, &object(first), by("one", "2026-01-01T00:00:00Z"), false).unwrap();
        let config = object(second);
        let two = apply(&schema, Some(&stored(one)), &config, by("two", "2026-01-02T00:00:00Z"), true).unwrap();
        let again = apply(&schema, Some(&two), &config, by("two", "2026-01-03T00:00:00Z"), false).unwrap();
        prop_assert_eq!(&again, &two);
    }

    #[test]
    fn letting_go_of_everything_leaves_what_was(mut first in any_spec(), mut second in any_spec()) {
        // An empty map would disappear like an empty list.
        first["a"] = json!("x");
        second["a"] = json!("x");
        let schema = custom();
        let one = stored(apply(&schema, None, &object(first.clone()), by("one", "2026-01-01T00:00:00Z"), false).unwrap());
        let config = object(second);
        if let Ok(two) = apply(&schema, Some(&one), &config, by("two", "2026-01-02T00:00:00Z"), false) {
            let nothing = json!({"apiVersion": "v1", "kind": "Custom", "metadata": {"name": "x"}});
            let back = apply(&schema, Some(&two), &nothing, by("two", "2026-01-03T00:00:00Z"), false).unwrap();
            prop_assert_eq!(sorted(&back["spec"]), sorted(&one["spec"]));
            prop_assert_eq!(entry(&back, "one"), entry(&one, "one"));
        }
    }

    #[test]
    fn sets_survive_their_written_form(spec in any_spec()) {
        let fields = typed::fields(custom().root(), &object(spec));
        let written = fields.to_json();
        let read = set::Set::parse(&written).unwrap();
        prop_assert_eq!(read.to_json(), written);
    }
}

fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    for key in ["set", "ports"] {
        if let Some(list) = value.get_mut(key).and_then(Value::as_array_mut) {
            list.sort_by_key(Value::to_string);
        }
    }
    value
}

#[test]
fn only_the_owner_of_all_changed_fields_renews_its_entry() {
    let schema = custom();
    let mut old = object(json!({"a": "x", "b": 1}));
    track_update(&schema, None, &mut old, by("one", "2026-01-01T00:00:00Z"));
    let old = stored(old);
    let is_renewal = |spec: Value, manager: &str| {
        let mut new = old.clone();
        new["spec"] = spec;
        track_renewal(&schema, &old, &mut new, by(manager, "2026-01-02T00:00:00Z"))
    };
    assert!(is_renewal(json!({"a": "y", "b": 2}), "one"));
    assert!(!is_renewal(json!({"a": "y", "b": 2}), "two"), "another manager");
    assert!(!is_renewal(json!({"a": "x"}), "one"), "a removed field");
    assert!(!is_renewal(json!({"a": "x", "b": 1, "free": {}}), "one"), "a new field");
    assert!(!is_renewal(json!({"a": "x", "b": "y"}), "one"), "another type");
}

proptest! {
    #[test]
    fn a_renewal_is_an_update(steps in proptest::collection::vec((0..2_u8, 0..2_u8, 0..2_u8, 0..3_u8, 0..2_u8), 1..12)) {
        let schema = custom();
        let mut last = stored(object(json!({})));
        for (step, (manager, a, port, b, phase)) in steps.into_iter().enumerate() {
            let mut new = last.clone();
            new["spec"] = json!({ "a": a.to_string(), "ports": [{ "port": port, "name": a.to_string() }], "free": { "x": b } });
            if b < 2 {
                new["spec"]["b"] = b.into();
            }
            new["status"] = json!({ "phase": phase.to_string() });
            let time = format!("2026-01-01T00:00:{step:02}Z");
            let manager = by(["one", "two"][usize::from(manager)], &time);
            let mut updated = new.clone();
            track_update(&schema, Some(&last), &mut updated, manager);
            let mut renewed = new.clone();
            if track_renewal(&schema, &last, &mut renewed, manager) {
                prop_assert_eq!(&renewed, &updated);
            } else {
                prop_assert_eq!(&renewed, &new);
            }
            last = updated;
        }
    }
}
