//! Sequences of requests made up by proptest: several managers write to a few objects of three kinds.

use http::Method;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::arm::Arm;
use super::scenario::{APPLY, MERGE, STRATEGIC, Scenario, Step, Variables};

/// How many requests a sequence has at most.
const LENGTH_MAX: usize = 14;

/// A kind to write to, with the path of its resource.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    api_version: &'static str,
    name: &'static str,
    path: &'static str,
    fields: fn() -> BoxedStrategy<Value>,
}

/// Two maps of texts, without defaults.
pub const CONFIG_MAPS: Kind = Kind {
    api_version: "v1",
    name: "ConfigMap",
    path: "/api/v1/namespaces/${ns}/configmaps",
    fields: config_map,
};

/// Lists with one and with two keys, many defaults, validation in code.
pub const DEPLOYMENTS: Kind = Kind {
    api_version: "apps/v1",
    name: "Deployment",
    path: "/apis/apps/v1/namespaces/${ns}/deployments",
    fields: deployment,
};

/// A custom resource with each type of list and map, and a rule.
pub const WIDGETS: Kind = Kind {
    api_version: "generated.lockstep.test/v1",
    name: "Widget",
    path: "/apis/generated.lockstep.test/v1/namespaces/${ns}/widgets",
    fields: widget,
};

/// Installs the definition of [`WIDGETS`], unless the server has it.
pub async fn install_widgets(arm: &mut impl Arm) -> anyhow::Result<()> {
    let crd: Value = serde_yaml::from_str(include_str!("widgets.yaml"))?;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = arm.send(&Step::new(Method::POST, crds, Some(crd)), &Variables::new()).await?;
    anyhow::ensure!(
        [201, 409].contains(&created.code),
        "creating the definition of widgets: {}",
        created.body
    );
    let widgets = WIDGETS.path.replace("${ns}", "default");
    let list = Step { until: Some(200), ..Step::new(Method::GET, widgets, None) };
    let listed = arm.send(&list, &Variables::new()).await?;
    anyhow::ensure!(listed.code == 200, "listing widgets: {}", listed.body);
    Ok(())
}

/// Sequences about objects of one kind.
pub fn sequences(kind: Kind) -> impl Strategy<Value = Scenario> {
    vec(step(kind), 1..=LENGTH_MAX).prop_map(|steps| Scenario {
        name: "generated".to_owned(),
        namespace: String::new(),
        vars: Variables::new(),
        steps,
    })
}

fn step(kind: Kind) -> impl Strategy<Value = Step> {
    let name = select(vec!["a", "b"]);
    let manager = select(vec!["one", "two", "three"]);
    let patch = move |name: &str, query: String, content_type: &'static str, body: Value| Step {
        content_type,
        ..Step::new(Method::PATCH, format!("{}/{name}?{query}", kind.path), Some(body))
    };
    let object = move |name: &str, fields: Value| {
        let mut object =
            json!({"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}});
        merge(&mut object, fields);
        object
    };
    let apply = (name.clone(), manager.clone(), any::<bool>(), (kind.fields)()).prop_map(
        move |(name, manager, force, fields)| {
            patch(name, format!("fieldManager={manager}&force={force}"), APPLY, object(name, fields))
        },
    );
    let by_merge = (name.clone(), manager.clone(), (kind.fields)(), nulls()).prop_map(
        move |(name, manager, fields, nulls)| {
            let mut body = fields;
            merge(&mut body, nulls);
            patch(name, format!("fieldManager={manager}"), MERGE, body)
        },
    );
    let strategic =
        (name.clone(), manager.clone(), (kind.fields)()).prop_map(move |(name, manager, fields)| {
            patch(name, format!("fieldManager={manager}"), STRATEGIC, fields)
        });
    let put = (name.clone(), manager.clone(), (kind.fields)()).prop_map(move |(name, manager, fields)| {
        let path = format!("{}/{name}?fieldManager={manager}", kind.path);
        Step::new(Method::PUT, path, Some(object(name, fields)))
    });
    let post = (name.clone(), manager, (kind.fields)()).prop_map(move |(name, manager, fields)| {
        let path = format!("{}?fieldManager={manager}", kind.path);
        Step::new(Method::POST, path, Some(object(name, fields)))
    });
    let delete =
        name.clone().prop_map(move |name| Step::new(Method::DELETE, format!("{}/{name}", kind.path), None));
    let get = name.prop_map(move |name| Step::new(Method::GET, format!("{}/{name}", kind.path), None));
    prop_oneof![8 => apply, 3 => by_merge, 2 => strategic, 2 => put, 2 => post, 1 => delete, 1 => get]
}

/// Fields that a merge patch removes.
fn nulls() -> impl Strategy<Value = Value> {
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

fn metadata() -> impl Strategy<Value = Value> {
    option::of(texts()).prop_map(|labels| only(json!({"metadata": only(json!({"labels": labels}))})))
}

fn with_metadata(fields: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
    (metadata(), fields)
        .prop_map(|(mut object, fields)| {
            merge(&mut object, fields);
            object
        })
        .boxed()
}

fn config_map() -> BoxedStrategy<Value> {
    let data = btree_map(select(vec!["a", "b", "c"]), select(vec!["1", "2"]), 0..4);
    with_metadata(option::of(data).prop_map(|data| only(json!({"data": data}))))
}

fn deployment() -> BoxedStrategy<Value> {
    // Nothing is there twice: what is said of that has a scenario of its own, `warnings`.
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

fn widget() -> BoxedStrategy<Value> {
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

/// Drops the fields that are null.
fn only(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// Adds fields to an object; where both are objects, recursively.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert_with(|| Value::Object(Map::new())), value);
            }
        }
        (into, from) => *into = from,
    }
}
