//! The fields of the objects that generated sequences write.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::{Value, json};

use crate::conformance::merge::merge;

/// Returns fields that a merge patch removes.
pub(super) fn nulls() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => Just(json!({})),
        1 => Just(json!({"metadata": {"labels": null}})),
        1 => Just(json!({"metadata": {"labels": {"x": null}}})),
        1 => Just(json!({"data": null})),
        1 => Just(json!({"data": {"a": null}})),
        1 => Just(json!({"spec": {"parts": null}})),
        1 => Just(json!({"spec": {"atom": null, "size": null}})),
        1 => Just(json!({"spec": {"replicas": null}})),
    ]
}

fn texts() -> impl Strategy<Value = Value> {
    btree_map(select(vec!["x", "y", "z"]), select(vec!["1", "2"]), 0..3).prop_map(|map| json!(map))
}

/// Returns labels, if any. They are never empty: if an empty map is applied to a custom resource, the server drops it only at
/// the next write.
fn metadata() -> impl Strategy<Value = Value> {
    let texts = btree_map(select(vec!["x", "y", "z"]), select(vec!["1", "2"]), 1..3);
    option::of(texts).prop_map(|labels| only(json!({"metadata": only(json!({"labels": labels}))})))
}

pub(super) fn with_metadata(fields: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    (metadata(), fields)
        .prop_map(|(mut object, fields)| {
            merge(&mut object, fields);
            object
        })
        .boxed()
}

pub(super) fn config_map() -> BoxedStrategy<Value> {
    let data = btree_map(select(vec!["a", "b", "c"]), select(vec!["1", "2"]), 0..4);
    with_metadata(option::of(data).prop_map(|data| only(json!({"data": data}))))
}

pub(super) fn deployment() -> BoxedStrategy<Value> {
    // There are no duplicates: the scenario `warnings` covers their messages.
    let env = btree_map(select(vec!["A", "B"]), select(vec!["1", "2"]), 0..3).prop_map(|env| {
        let variables = env.into_iter().map(|(name, value)| json!({"name": name, "value": value}));
        Value::Array(variables.collect())
    });
    let container = (select(vec!["one", "two"]), select(vec!["i:1", "i:2"]), option::of(env), any::<bool>())
        .prop_map(|(name, image, env, listens)| {
            let (port, protocol) = if name == "one" { (80, "TCP") } else { (81, "UDP") };
            let ports = listens.then(|| json!([{"containerPort": port, "protocol": protocol}]));
            only(json!({"name": name, "image": image, "env": env, "ports": ports}))
        });
    let spec = (option::of(0..3), vec(container, 1..3)).prop_map(|(replicas, containers)| {
        let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}});
        let selector = json!({"matchLabels": {"app": "d"}});
        json!({"spec": only(json!({"replicas": replicas, "selector": selector, "template": template}))})
    });
    with_metadata(spec)
}

pub(super) fn widget() -> BoxedStrategy<Value> {
    let part = (select(vec!["p", "q", "r"]), option::of(0..3), option::of(select(vec!["n", "m"])))
        .prop_map(|(name, weight, note)| only(json!({"name": name, "weight": weight, "note": note})));
    let spec = (
        option::of(0..12),
        option::of(vec(part, 0..4)),
        option::of(vec(select(vec!["s", "t", "u"]), 0..3)),
        option::of(vec(0..3, 0..3)),
        option::of(texts()),
        option::of(texts()),
    );
    with_metadata(spec.prop_map(|(size, parts, tags, plain, labels, atom)| {
        let spec = json!({
            "size": size, "parts": parts, "tags": tags, "plain": plain, "labels": labels, "atom": atom,
        });
        json!({"spec": only(spec)})
    }))
}

pub(super) fn deployment_status() -> BoxedStrategy<Value> {
    let condition = (select(vec!["Available", "Progressing"]), select(vec!["True", "False"]))
        .prop_map(|(kind, status)| json!({"type": kind, "status": status, "reason": "R", "message": "M"}));
    (0..3, option::of(0..2), vec(condition, 0..2))
        .prop_map(|(replicas, ready, conditions)| {
            let status = json!({"replicas": replicas, "readyReplicas": ready, "conditions": conditions});
            json!({"status": only(status)})
        })
        .boxed()
}

pub(super) fn widget_status() -> BoxedStrategy<Value> {
    let statuses = [
        json!({"ready": true}),
        json!({"ready": false, "junk": 1}),
        json!({"ready": "yes"}),
        json!({"ready": "yes", "junk": 1}),
        json!({}),
    ];
    select(statuses.to_vec()).prop_map(|status| json!({"status": status})).boxed()
}

/// Returns fields that each of the kinds accepts or ignores.
pub(super) fn least() -> Value {
    json!({"spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
    }})
}

/// Removes the fields that are null.
fn only(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}
