//! What the classes of the simulation contain, and how a namespace fills it in.

use std::sync::Arc;

use lockstep_crds::namespaceclass::{GROUP, VERSION};
use lockstep_engine::object::{Kind, annotation, label, metadata};
use lockstep_engine::random::Random;
use lockstep_namespaceclass::expression::VALUE_MAX_BYTES;
use lockstep_namespaceclass::names::{self, ADOPTION_POLICY_ANNOTATION, CLASS_LABEL};
use lockstep_sim::crds;
use lockstep_sim::history::reference;
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

pub(crate) const CLASSES: [&str; 3] = ["web", "db", "lab"];
pub(super) const NAMESPACES: [&str; 4] = ["red", "green", "blue", "grey"];

/// The annotation of namespaces that changes often.
pub(super) const TOUCHED: &str = "example.com/touched";

pub(super) fn config_map() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

pub(super) fn secret() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}

fn quota() -> Arc<Kind> {
    Kind::known("", "v1", "ResourceQuota", "resourcequotas", true)
}

fn policy() -> Arc<Kind> {
    Kind::known("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true)
}

pub(super) fn account() -> Arc<Kind> {
    Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true)
}

pub(super) fn service() -> Arc<Kind> {
    Kind::known("", "v1", "Service", "services", true)
}

/// Returns a kind with a CRD that admins delete and create again.
pub(super) fn widget() -> Arc<Kind> {
    Kind::known("example.com", "v1", "Widget", "widgets", true)
}

/// Creates the CRD of widgets, if it does not exist.
pub(super) fn install_widgets(client: &mut dyn Client) {
    let text = json!({ "type": "string" });
    let part =
        json!({ "type": "object", "required": ["name"], "properties": { "name": text, "size": text } });
    let properties = json!({
        "tags": { "type": "array", "items": text, "x-kubernetes-list-type": "set" },
        "parts": {
            "type": "array", "items": part, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        },
    });
    let spec = json!({ "type": "object", "properties": properties });
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let kind = widget();
    let crd = json!({
        "metadata": { "name": crds::of(&kind).name },
        "spec": {
            "group": kind.group, "scope": "Namespaced",
            "names": { "kind": kind.kind, "plural": kind.plural, "singular": "widget", "listKind": "WidgetList" },
            "versions": [{
                "name": kind.version, "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
            }],
        },
    });
    client.create(&crds::kind(), &crd);
}

/// Returns the kinds in the classes of the simulation. Only classes for the namespaces of other controllers have the last two.
pub(super) fn pool_kinds() -> [Arc<Kind>; 7] {
    [config_map(), secret(), account(), service(), widget(), quota(), policy()]
}

/// Returns whether a kind, by its name, is one of them.
pub(super) fn is_content(kind: &str) -> bool {
    pool_kinds().iter().any(|known| known.kind == kind)
}

/// The expressions of the variables in classes, by name.
const VARIABLES: [(&str, &str); 4] = [
    ("team", r#"namespaceObject.metadata.labels["example.com/team"]"#),
    (
        "note",
        r#"("example.com/touched" in namespaceObject.metadata.annotations ? namespaceObject.metadata.annotations["example.com/touched"] : "none")"#,
    ),
    ("mark", r#"namespaceObject.metadata.annotations["example.com/touched"]"#),
    ("home", r#""ns-" + namespaceObject.metadata.name"#),
];

/// Returns the value of a variable in a namespace, if it has one.
pub(super) fn value(variable: &str, namespace: &Value) -> Option<String> {
    let touched = annotation(namespace, TOUCHED);
    let value = match variable {
        "team" => label(namespace, "example.com/team").map(str::to_owned),
        "note" => Some(touched.unwrap_or("none").to_owned()),
        "mark" => touched.map(str::to_owned),
        _ => Some(format!("ns-{}", metadata(namespace, "name"))),
    };
    value.filter(|value| value.len() <= VALUE_MAX_BYTES)
}

/// Returns the resources with variables.
pub(super) fn varied() -> [Value; 4] {
    let map = |name: &str, data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data });
    [
        map("v", json!({ "value": "for ${team}" })),
        map("w", json!({ "value": "${note} in ${home}", "literal": "$${home}" })),
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "puller", "annotations": { "example.com/of": "${home}" } },
            "imagePullSecrets": [{ "name": "first" }, { "name": "pull-${home}" }],
        }),
        map("x", json!({ "value": "marked ${mark}, of ${home}" })),
    ]
}

/// Returns the variables of classes.
fn variables() -> Value {
    json!(VARIABLES.map(|(name, expression)| json!({ "name": name, "expression": expression })))
}

/// Adds resources that differ between namespaces to one of four classes.
pub(super) fn vary(spec: &mut Value, random: &mut Random) {
    if random.below(4) < 3 {
        return;
    }
    spec["variables"] = variables();
    let all = varied();
    let chosen = random.pick(&[&all[..1], &all[1..2], &all[2..3], &all[3..], &all[..2], &all]);
    spec["resources"].as_array_mut().into_iter().for_each(|resources| resources.extend_from_slice(chosen));
}

/// Returns some of a few resources, each with one of a few contents. Classes overlap, and updates change some of them.
pub(super) fn resources(random: &mut Random) -> Value {
    let mut resources = Vec::new();
    for name in ["a", "b", "c"] {
        if random.below(2) == 0 {
            let data = entries("value", &random.below(3).to_string(), random);
            let mut map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data,
            });
            if let Some(policy) = random.pick(&[Some("Delete"), Some("Keep"), None, None]) {
                map["metadata"]["annotations"] = json!({ ADOPTION_POLICY_ANNOTATION: policy });
            }
            resources.push(map);
        }
    }
    if random.below(2) == 0 {
        let texts = entries("pin", &format!("{SECRET}-{}", random.below(3)), random);
        resources.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pin" }, "stringData": texts,
        }));
    }
    if random.below(3) == 0 {
        resources.push(robot(random));
    }
    if random.below(3) == 0 {
        resources.push(door(random));
    }
    if random.below(4) == 0 {
        resources.push(gear(random));
    }
    resources.into()
}

/// Returns a `ServiceAccount` with no lists, or with a list that merges by key and one that is a single value.
fn robot(random: &mut Random) -> Value {
    let mut robot = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } });
    if random.below(2) == 0 {
        let names = random.pick(&[&["pin"][..], &["key", "pin"]]);
        robot["secrets"] = names.iter().map(|name| json!({ "name": name })).collect();
        robot["imagePullSecrets"] = json!([{ "name": random.pick(&["first", "second"]) }]);
    }
    robot
}

/// Returns a Service whose ports merge by two keys. The server sets one of them by default.
fn door(random: &mut Random) -> Value {
    let web = json!({ "name": random.pick(&["web", "http"]), "port": 80 });
    let dns =
        [json!({ "name": "dns", "port": 53 }), json!({ "name": "dns-udp", "port": 53, "protocol": "UDP" })];
    let ports = match random.below(3) {
        0 => json!([web]),
        1 => json!([dns[1], web]),
        _ => json!([web, dns[0], dns[1]]),
    };
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "door" },
        "spec": { "clusterIP": "None", "selector": { "app": random.pick(&["one", "two"]) }, "ports": ports },
    })
}

/// A field that widgets do not have.
const UNKNOWN: &str = "colour";

/// Returns a widget with a list that is a set, and one that merges by key.
fn gear(random: &mut Random) -> Value {
    let tags = random.pick(&[&["new"][..], &["new", "red"], &[]]);
    let part = json!({ "name": "axle", "size": random.pick(&["small", "large"]) });
    let parts = if random.below(2) == 0 { json!([part]) } else { json!([{ "name": "bolt" }, part]) };
    let mut spec = json!({ "tags": tags, "parts": parts });
    // The API server refuses to apply a field that the CRD does not know.
    if random.below(6) == 0 {
        spec[UNKNOWN] = json!("red");
    }
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "gear" }, "spec": spec })
}

/// Returns a value under a key, and sometimes a second key, which an update removes.
fn entries(key: &str, value: &str, random: &mut Random) -> Value {
    let mut entries = json!({ key: value });
    if random.below(3) == 0 {
        entries["extra"] = json!("1");
    }
    entries
}

pub(super) fn class(name: &str, random: &mut Random) -> Value {
    let drift = if random.below(2) == 0 { json!("Report") } else { Value::Null };
    let guard = if random.below(4) == 0 { guard() } else { Value::Null };
    let mut spec = json!({
        "resources": resources(random), "rollout": rollout(random), "drift": drift, "removalGuard": guard,
    });
    vary(&mut spec, random);
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Returns a limit of one or two namespaces at a time, sometimes with canaries, or none.
pub(super) fn rollout(random: &mut Random) -> Value {
    let limit = match random.below(4) {
        0 => 2,
        1 => 1,
        _ => return Value::Null,
    };
    match random.below(4) {
        0 => json!({ "maxUnavailable": limit, "canaries": [random.pick(&NAMESPACES)] }),
        1 => json!({ "maxUnavailable": limit, "canaries": ["red", "grey"] }),
        _ => json!({ "maxUnavailable": limit }),
    }
}

pub(super) fn namespace(name: &str, class: Option<&str>) -> Value {
    let labels = class.map(|class| json!({ CLASS_LABEL: class }));
    json!({ "metadata": { "name": name, "labels": labels } })
}

/// Returns a guard that lets two of four namespaces lose a class.
pub(super) fn guard() -> Value {
    json!({ "maxPercent": 50, "windowMinutes": 2 })
}

/// The name of entries that can't be applied.
const MISTAKE: &str = "mistake";
/// The annotation of an entry that repeats an earlier one.
const REPEATED: &str = "example.com/repeated";

/// Adds an entry that can't be applied. Sometimes it takes the place of another one, which may have been meant.
pub(super) fn make_mistake(client: &mut dyn Client, random: &mut Random) {
    let Some(class) = client.any(&names::class(), random) else { return };
    let mut resources = class["spec"]["resources"].as_array().cloned().unwrap_or_default();
    // If what is repeated were gone, its repetition would be no mistake.
    let repeats = resources.iter().any(|entry| annotation(entry, REPEATED).is_some());
    if random.below(2) == 0 && !resources.is_empty() && !repeats {
        resources.remove(0);
    }
    let map = |metadata: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata });
    let other = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": MISTAKE } });
    let data = |data: Value| {
        let mut map = map(json!({ "name": MISTAKE }));
        map["data"] = data;
        map
    };
    let mut spec = json!({});
    let entry = match random.below(12) {
        0 => map(json!({ "name": MISTAKE, "namespace": "red" })),
        1 => map(json!({ "generateName": MISTAKE })),
        2 => map(json!({ "name": MISTAKE, "annotations": { ADOPTION_POLICY_ANNOTATION: "Forget" } })),
        3 => other("v1", "Namespace"),
        4 => other("example.com/v1", "Gadget"),
        5 => other("example.com/v1/v2", "Gadget"),
        6 => other(&format!("{GROUP}/{VERSION}"), "NamespaceClassBinding"),
        7 if !resources.is_empty() && !is_mistake(&resources[0]) => {
            let mut repeated = resources[0].clone();
            repeated["metadata"]["annotations"][REPEATED] = json!("true");
            repeated
        }
        wrong => {
            spec["variables"] = variables();
            match wrong {
                8 => data(json!({ "value": "${unknown}" })),
                9 => data(json!({ "value": "${team" })),
                10 => data(json!({ "${team}": "value" })),
                _ => map(json!({ "name": format!("{MISTAKE}-${{team}}") })),
            }
        }
    };
    resources.push(entry);
    spec["resources"] = resources.into();
    client.merge(&reference(&names::class(), &class), &json!({ "spec": spec }));
}

/// Returns whether an entry of a class can't be applied.
pub(crate) fn is_mistake(entry: &Value) -> bool {
    let is_named = |field: &str| entry["metadata"][field].as_str().is_some_and(|it| it.starts_with(MISTAKE));
    is_named("name") || is_named("generateName") || annotation(entry, REPEATED).is_some()
}

/// Removes all mistakes from a class, fields that are refused, and widgets if they are not served.
pub(super) fn correct(client: &mut dyn Client, class: &Value) {
    let before = class["spec"]["resources"].as_array().cloned().unwrap_or_default();
    let has_widgets = crds::is_served(client.server(), &widget());
    let mut resources = before.clone();
    resources.retain(|entry| !is_mistake(entry) && (entry["kind"] != "Widget" || has_widgets));
    for entry in &mut resources {
        entry.get_mut("spec").and_then(Value::as_object_mut).map(|spec| spec.remove(UNKNOWN));
    }
    if resources != before {
        client.merge(&reference(&names::class(), class), &json!({ "spec": { "resources": resources } }));
    }
}
