//! The operations of admins, tenants and another controller.

use std::sync::Arc;

use lockstep_engine::object::{Kind, ObjectRef, annotation, is_deleting, label, metadata};
use lockstep_engine::random::Random;
use lockstep_namespaceclass::names::{self, CLASS_LABEL, CONFIRM_REMOVAL_ANNOTATION};
use lockstep_sim::history::reference;
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::{Client, Operation};
use serde_json::{Value, json};

pub(crate) const CLASSES: [&str; 3] = ["web", "db", "lab"];
const NAMESPACES: [&str; 4] = ["red", "green", "blue", "grey"];

/// A key that another client adds to applied objects. It remains.
pub(super) const ADDED: &str = "more";
/// The name of entries that can't be applied.
const MISTAKE: &str = "mistake";
/// The annotation of namespaces that changes often.
const TOUCHED: &str = "example.com/touched";
/// The finalizer by which another client holds back what was applied.
pub(super) const HOLD: &str = "example.com/hold";

/// Grants all permissions to watch again.
pub(crate) const PERMIT_WATCHES: &str = "grant all permissions to watch";

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new("define a class", "admin", 6, define_class),
    Operation::new("update a class", "admin", 10, update_class),
    Operation::new("make a mistake in a class", "admin", 4, make_mistake),
    Operation::new("remove a class", "admin", 5, remove_class),
    Operation::new("remove a class and define it again", "admin", 3, replace_class),
    Operation::new("pause a class, or resume it", "admin", 3, pause_class),
    Operation::new("limit how many namespaces of a class change at a time", "admin", 3, limit_class),
    Operation::new("have drift repaired, or reported only", "admin", 3, choose_drift),
    Operation::new("exclude namespaces from a class", "admin", 2, exclude_namespaces),
    Operation::new("hold removals from a class, or let them happen", "admin", 3, guard_class),
    Operation::new("take a permission to watch", "admin", 1, forbid_watches),
    Operation::new(PERMIT_WATCHES, "admin", 3, |client, _| client.permit_all_watches(&pool_kinds())),
    Operation::new("create a namespace", "tenant", 5, create_namespace),
    Operation::new("label a namespace", "tenant", 10, label_namespace),
    Operation::new("take the label off a namespace", "tenant", 4, unlabel_namespace),
    Operation::new(
        "request a class that does not exist, or stop requesting it",
        "tenant",
        6,
        label_with_missing_class,
    ),
    Operation::new("take a class off all its namespaces", "admin", 3, unlabel_all),
    Operation::new("touch a namespace", "tenant", 3, touch_namespace),
    Operation::new("delete a namespace", "tenant", 3, delete_namespace),
    Operation::new("edit what was applied", "other controller", 10, edit_applied),
    Operation::new("delete what was applied", "other controller", 6, delete_applied),
    Operation::new("delete what was applied and create its own", "other controller", 4, replace_applied),
    Operation::new("create an object of its own", "other controller", 4, create_foreign),
    Operation::new("hold back what was applied from deletion", "other controller", 2, hold_applied),
    Operation::new("delete a binding", "tenant", 3, delete_binding),
    Operation::new("put a binding into another class", "tenant", 3, edit_binding),
    Operation::new("list resources that were not applied in a binding's status", "tenant", 2, edit_status),
];

pub(super) fn config_map() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

fn secret() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}

fn quota() -> Arc<Kind> {
    Kind::known("", "v1", "ResourceQuota", "resourcequotas", true)
}

fn policy() -> Arc<Kind> {
    Kind::known("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true)
}

fn account() -> Arc<Kind> {
    Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true)
}

/// Returns the kinds in the classes of the simulation. Only classes for the namespaces of other controllers have the last two.
pub(super) fn pool_kinds() -> [Arc<Kind>; 5] {
    [config_map(), secret(), account(), quota(), policy()]
}

/// Returns whether a kind, by its name, is one of them.
pub(super) fn is_content(kind: &str) -> bool {
    ["ConfigMap", "Secret", "ServiceAccount", "ResourceQuota", "NetworkPolicy"].contains(&kind)
}

/// The expressions of the variables in classes, by name.
const VARIABLES: [(&str, &str); 3] = [
    ("team", r#"namespaceObject.metadata.labels["example.com/team"]"#),
    (
        "note",
        r#"("example.com/touched" in namespaceObject.metadata.annotations ? namespaceObject.metadata.annotations["example.com/touched"] : "none")"#,
    ),
    ("home", r#""ns-" + namespaceObject.metadata.name"#),
];

/// Returns the value of a variable in a namespace, if it has one.
pub(super) fn value(variable: &str, namespace: &Value) -> Option<String> {
    match variable {
        "team" => label(namespace, "example.com/team").map(str::to_owned),
        "note" => Some(annotation(namespace, TOUCHED).unwrap_or("none").to_owned()),
        _ => Some(format!("ns-{}", metadata(namespace, "name"))),
    }
}

/// The resources with variables, all of the kind `ConfigMap`, and what they contain.
pub(super) const VARIED: [(&str, &str); 2] = [("v", "for ${team}"), ("w", "${note} in ${home}")];

/// Adds resources that differ between namespaces to one of four classes.
fn vary(spec: &mut Value, random: &mut Random) {
    if random.below(4) < 3 {
        return;
    }
    let variables = VARIABLES.map(|(name, expression)| json!({ "name": name, "expression": expression }));
    spec["variables"] = json!(variables);
    let chosen = random.pick(&[&VARIED[..1], &VARIED[1..], &VARIED]);
    let resources = chosen.iter().map(|(name, value)| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value },
        })
    });
    spec["resources"].as_array_mut().into_iter().for_each(|all| all.extend(resources.clone()));
}

/// Creates two classes, one of which has drift reported only, and namespaces that use them, before the start.
pub(super) fn begin(client: &mut dyn Client) {
    let mut random = Random::from_seed(1);
    for (name, drift) in [(CLASSES[0], json!("Report")), (CLASSES[1], Value::Null)] {
        let mut class = class(name, &mut random);
        class["spec"]["drift"] = drift;
        client.create(&names::class(), &class);
    }
    for (name, class) in
        [("red", Some(CLASSES[0])), ("blue", Some(CLASSES[0])), ("grey", Some(CLASSES[1])), ("green", None)]
    {
        client.create(&names::namespace(), &namespace(name, class));
    }
}

/// Returns some of a few resources, each with one of a few contents. Classes overlap, and updates change some of them.
fn resources(random: &mut Random) -> Value {
    let mut resources = Vec::new();
    for name in ["a", "b", "c"] {
        if random.below(2) == 0 {
            let data = entries("value", &random.below(3).to_string(), random);
            resources.push(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data,
            }));
        }
    }
    if random.below(2) == 0 {
        let texts = entries("pin", &format!("{SECRET}-{}", random.below(3)), random);
        resources.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "pin" }, "stringData": texts,
        }));
    }
    if random.below(3) == 0 {
        resources
            .push(json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" } }));
    }
    resources.into()
}

/// Returns a value under a key, and sometimes a second key, which an update removes.
fn entries(key: &str, value: &str, random: &mut Random) -> Value {
    let mut entries = json!({ key: value });
    if random.below(3) == 0 {
        entries["extra"] = json!("1");
    }
    entries
}

fn class(name: &str, random: &mut Random) -> Value {
    let drift = if random.below(2) == 0 { json!("Report") } else { Value::Null };
    let guard = if random.below(4) == 0 { guard() } else { Value::Null };
    let mut spec = json!({
        "resources": resources(random), "rollout": rollout(random), "drift": drift, "removalGuard": guard,
    });
    vary(&mut spec, random);
    json!({ "metadata": { "name": name }, "spec": spec })
}

/// Returns a limit of one or two namespaces at a time, sometimes with canaries, or none.
fn rollout(random: &mut Random) -> Value {
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

fn namespace(name: &str, class: Option<&str>) -> Value {
    let labels = class.map(|class| json!({ CLASS_LABEL: class }));
    json!({ "metadata": { "name": name, "labels": labels } })
}

fn define_class(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&CLASSES);
    client.create(&names::class(), &class(name, random));
}

fn update_class(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        let target = reference(&names::class(), &class);
        let mut spec = json!({ "resources": resources(random), "variables": null });
        vary(&mut spec, random);
        client.merge(&target, &json!({ "spec": spec }));
    }
}

/// Adds an entry that can't be applied. Sometimes it takes the place of another one, which may have been meant.
fn make_mistake(client: &mut dyn Client, random: &mut Random) {
    let Some(class) = client.any(&names::class(), random) else { return };
    let mut resources = class["spec"]["resources"].as_array().cloned().unwrap_or_default();
    if random.below(2) == 0 && !resources.is_empty() {
        resources.remove(0);
    }
    let [named, nameless] =
        [json!({ "name": MISTAKE, "namespace": "red" }), json!({ "generateName": MISTAKE })];
    let (api_version, kind, metadata) = match random.below(4) {
        0 => ("v1", "ConfigMap", named),
        1 => ("v1", "ConfigMap", nameless),
        2 => ("v1", "Namespace", json!({ "name": MISTAKE })),
        _ => ("example.com/v1", "Widget", json!({ "name": MISTAKE })),
    };
    resources.push(json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata }));
    client.merge(&reference(&names::class(), &class), &json!({ "spec": { "resources": resources } }));
}

/// Returns whether an entry of a class can't be applied.
pub(crate) fn is_mistake(entry: &Value) -> bool {
    ["name", "generateName"].iter().any(|field| entry["metadata"][field] == MISTAKE)
}

/// Removes all mistakes from a class.
pub(super) fn correct(client: &mut dyn Client, class: &Value) {
    let mut resources = class["spec"]["resources"].as_array().cloned().unwrap_or_default();
    if resources.iter().any(is_mistake) {
        resources.retain(|entry| !is_mistake(entry));
        client.merge(&reference(&names::class(), class), &json!({ "spec": { "resources": resources } }));
    }
}

fn remove_class(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        client.delete(&reference(&names::class(), &class));
    }
}

fn replace_class(client: &mut dyn Client, random: &mut Random) {
    if let Some(old) = client.any(&names::class(), random) {
        client.delete(&reference(&names::class(), &old));
        client.create(&names::class(), &class(metadata(&old, "name"), random));
    }
}

fn pause_class(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        let paused = class["spec"]["paused"] != true;
        client.merge(&reference(&names::class(), &class), &json!({ "spec": { "paused": paused } }));
    }
}

fn limit_class(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        let rollout = rollout(random);
        client.merge(&reference(&names::class(), &class), &json!({ "spec": { "rollout": rollout } }));
    }
}

fn choose_drift(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        let drift = if class["spec"]["drift"] == "Report" { Value::Null } else { json!("Report") };
        client.merge(&reference(&names::class(), &class), &json!({ "spec": { "drift": drift } }));
    }
}

fn exclude_namespaces(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        let excluded = match random.below(3) {
            0 => json!(["gr*"]),
            1 => json!(["blue"]),
            _ => Value::Null,
        };
        let patch = json!({ "spec": { "excludedNamespaces": excluded } });
        client.merge(&reference(&names::class(), &class), &patch);
    }
}

/// Returns a guard that lets two of four namespaces lose a class.
fn guard() -> Value {
    json!({ "maxPercent": 50, "windowMinutes": 2 })
}

fn guard_class(client: &mut dyn Client, random: &mut Random) {
    if let Some(class) = client.any(&names::class(), random) {
        let target = reference(&names::class(), &class);
        if random.below(3) == 0 {
            confirm_removals(client, &target, annotation(&class, CONFIRM_REMOVAL_ANNOTATION).is_none());
        } else {
            let guard = if class["spec"]["removalGuard"].is_object() { Value::Null } else { guard() };
            client.merge(&target, &json!({ "spec": { "removalGuard": guard } }));
        }
    }
}

pub(super) fn confirm_removals(client: &mut dyn Client, class: &ObjectRef, is_confirmed: bool) {
    let confirmed = is_confirmed.then_some("true");
    client.merge(class, &json!({ "metadata": { "annotations": { CONFIRM_REMOVAL_ANNOTATION: confirmed } } }));
}

/// Revokes the permission to list and watch a kind that classes contain.
fn forbid_watches(client: &mut dyn Client, random: &mut Random) {
    client.forbid_a_watch(&[config_map(), secret(), account()], random);
}

fn create_namespace(client: &mut dyn Client, random: &mut Random) {
    let wanted = (random.below(3) > 0).then(|| random.pick(&CLASSES));
    client.create(&names::namespace(), &namespace(random.pick(&NAMESPACES), wanted));
}

fn some_namespace(random: &mut Random) -> ObjectRef {
    ObjectRef::cluster(&names::namespace(), random.pick(&NAMESPACES))
}

fn label_namespace(client: &mut dyn Client, random: &mut Random) {
    let target = some_namespace(random);
    request_class(client, &target, random);
}

/// Labels a namespace with one of the classes.
pub(crate) fn request_class(client: &mut dyn Client, target: &ObjectRef, random: &mut Random) {
    let class = random.pick(&CLASSES);
    client.merge(target, &json!({ "metadata": { "labels": { CLASS_LABEL: class } } }));
}

/// Makes a typing error in a label, or corrects it. The Events of repeated errors belong to one series.
fn label_with_missing_class(client: &mut dyn Client, random: &mut Random) {
    const NOWHERE: &str = "nowhere";
    let target = ObjectRef::cluster(&names::namespace(), random.pick(&["red", "green"]));
    let asks = client.server().object(&target).is_some_and(|it| label(it, CLASS_LABEL) == Some(NOWHERE));
    let class = if asks { Value::Null } else { json!(NOWHERE) };
    client.merge(&target, &json!({ "metadata": { "labels": { CLASS_LABEL: class } } }));
}

fn unlabel_namespace(client: &mut dyn Client, random: &mut Random) {
    client.merge(&some_namespace(random), &json!({ "metadata": { "labels": { CLASS_LABEL: null } } }));
}

/// Takes the label off all namespaces of the class that has the most. Sometimes the class begins to hold removals just before.
fn unlabel_all(client: &mut dyn Client, random: &mut Random) {
    let mut namespaces = client.server().objects(&names::namespace());
    let count = |class: &str| {
        namespaces.iter().filter(|namespace| label(namespace, CLASS_LABEL) == Some(class)).count()
    };
    let Some(class) = CLASSES.into_iter().max_by_key(|class| count(class)) else { return };
    if random.below(2) == 0 {
        let target = ObjectRef::cluster(&names::class(), class);
        client.merge(&target, &json!({ "spec": { "removalGuard": guard() } }));
    }
    namespaces.retain(|namespace| label(namespace, CLASS_LABEL) == Some(class));
    for namespace in namespaces {
        let target = reference(&names::namespace(), &namespace);
        client.merge(&target, &json!({ "metadata": { "labels": { CLASS_LABEL: null } } }));
    }
}

/// Changes an annotation of a namespace, and sometimes its team. Classes without variables read neither.
fn touch_namespace(client: &mut dyn Client, random: &mut Random) {
    let (target, value) = (some_namespace(random), random.below(1000).to_string());
    let mut metadata = json!({ "annotations": { TOUCHED: value } });
    match random.below(4) {
        0 => metadata["labels"] = json!({ "example.com/team": null }),
        1 => metadata["labels"] = json!({ "example.com/team": "ants" }),
        2 => metadata["labels"] = json!({ "example.com/team": "bees" }),
        _ => {}
    }
    client.merge(&target, &json!({ "metadata": metadata }));
}

fn delete_namespace(client: &mut dyn Client, random: &mut Random) {
    client.delete(&some_namespace(random));
}

/// Returns a random existing object from the status of a binding.
fn some_applied(client: &dyn Client, random: &mut Random) -> Option<ObjectRef> {
    let kind = random.pick(&[0, 0, 1, 2]);
    let kind = &pool_kinds()[kind];
    let object = client.any(kind, random)?;
    let ours = object["metadata"]["ownerReferences"][0]["kind"] == "NamespaceClassBinding"
        || annotation(&object, names::ADOPTED_ANNOTATION).is_some();
    ours.then(|| reference(kind, &object))
}

fn edit_applied(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_applied(client, random) else { return };
    // The value is also valid base64, so that a Secret accepts it.
    let theirs = "dGhlaXJz";
    let patch = match (&*target.kind.kind, random.below(4)) {
        ("ConfigMap", 0 | 1) => json!({ "data": { "value": theirs } }),
        ("Secret", 0 | 1) => json!({ "data": { "pin": theirs } }),
        ("ConfigMap" | "Secret", 2) => json!({ "data": { ADDED: theirs } }),
        _ => json!({ "metadata": { "labels": { CLASS_LABEL: null } } }),
    };
    client.merge(&target, &patch);
}

fn delete_applied(client: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_applied(client, random) {
        client.delete(&target);
    }
}

fn replace_applied(client: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_applied(client, random) {
        client.delete(&target);
        create(client, &target, random);
    }
}

fn create_foreign(client: &mut dyn Client, random: &mut Random) {
    let (namespace, name) = (random.pick(&NAMESPACES), random.pick(&["a", "b", "z"]));
    create(client, &ObjectRef::namespaced(&config_map(), namespace, name), random);
}

/// Creates an object with another controller as its owner, or without an owner.
fn create(client: &mut dyn Client, target: &ObjectRef, random: &mut Random) {
    let owner = json!([{
        "apiVersion": "v1", "kind": "Namespace", "name": target.namespace,
        "uid": client.server().object(&ObjectRef::cluster(&names::namespace(), target.namespace.as_deref().unwrap_or_default()))
            .map_or("", |namespace| metadata(namespace, "uid")),
        "controller": true,
    }]);
    let owners = if random.below(2) == 0 { owner } else { Value::Null };
    let metadata = json!({ "namespace": target.namespace, "name": target.name, "ownerReferences": owners });
    client.create(&target.kind, &json!({ "metadata": metadata }));
}

fn hold_applied(client: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_applied(client, random) {
        client.merge(&target, &json!({ "metadata": { "finalizers": [HOLD] } }));
    }
}

fn delete_binding(client: &mut dyn Client, random: &mut Random) {
    if let Some(binding) = client.any(&names::binding(), random) {
        client.delete(&reference(&names::binding(), &binding));
    }
}

fn edit_binding(client: &mut dyn Client, random: &mut Random) {
    if let Some(binding) = client.any(&names::binding(), random).filter(|binding| !is_deleting(binding)) {
        let class = random.pick(&CLASSES);
        client.merge(&reference(&names::binding(), &binding), &json!({ "spec": { "className": class } }));
    }
}

/// Edits the status of a binding: a client that may write everything in a namespace may do that.
fn edit_status(client: &mut dyn Client, random: &mut Random) {
    let Some(binding) = client.any(&names::binding(), random) else { return };
    let listed = [names::namespace(), names::class(), names::binding(), config_map()];
    let kind = &listed[usize::try_from(random.below(listed.len() as u64)).unwrap_or_default()];
    let list = random.pick(&["appliedResources", "pendingResources"]);
    let mut applied = binding["status"][list].clone();
    let entry =
        json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "name": random.pick(&NAMESPACES) });
    match applied.as_array_mut() {
        Some(applied) => applied.push(entry),
        None => applied = json!([entry]),
    }
    client.merge_status(&reference(&names::binding(), &binding), &json!({ list: applied }));
}
