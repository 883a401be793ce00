//! The operations of admins, tenants and another controller.

use std::sync::Arc;

use lockstep_engine::object::{Kind, ObjectRef, annotation, is_deleting, label, metadata};
use lockstep_engine::random::Random;
use lockstep_namespaceclass::expression::VALUE_MAX_BYTES;
use lockstep_namespaceclass::names::{self, CLASS_LABEL, CONFIRM_REMOVAL_ANNOTATION};
use lockstep_sim::crds;
use lockstep_sim::history::reference;
use lockstep_sim::subject::{Client, Operation};
use serde_json::{Value, json};

use super::classes::{
    CLASSES, NAMESPACES, TOUCHED, account, class, config_map, guard, install_widgets, make_mistake,
    namespace, pool_kinds, resources, rollout, secret, service, vary, widget,
};

/// The name of a class that never exists.
const NOWHERE: &str = "nowhere";
/// A key that another client adds to applied objects. It remains.
pub(super) const ADDED: &str = "more";
/// What another client writes in place of a value or an item of a list. It is also valid base64, so that a Secret accepts it.
pub(super) const THEIRS: &str = "dGhlaXJz";
/// The port that another client adds to a Service.
pub(super) const THEIR_PORT: u16 = 8080;
/// The annotation of `ConfigMaps` in which another controller insists on its value.
pub(super) const INSISTS: &str = "example.com/insists";
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
    Operation::new(PERMIT_WATCHES, "admin", 3, |client, _| client.permit_all_watches(&watched())),
    Operation::new("delete the CRD of widgets", "admin", 1, delete_widgets),
    Operation::new("create the CRD of widgets", "admin", 4, |client, _| install_widgets(client)),
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
    Operation::new(
        "insist on another value of what was applied, or stop that",
        "other controller",
        3,
        insist,
    ),
    Operation::new("delete what was applied", "other controller", 6, delete_applied),
    Operation::new("delete what was applied and create its own", "other controller", 4, replace_applied),
    Operation::new("create an object of its own", "other controller", 4, create_foreign),
    Operation::new("hold back what was applied, or a binding, from deletion", "other controller", 3, hold),
    Operation::new("create a binding", "tenant", 2, create_binding),
    Operation::new("delete a binding", "tenant", 3, delete_binding),
    Operation::new("put a binding into another class", "tenant", 3, edit_binding),
    Operation::new("list resources that were not applied in a binding's status", "tenant", 2, edit_status),
];

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

/// Revokes the permission to list and watch a kind that classes contain, or one that every decision needs.
fn forbid_watches(client: &mut dyn Client, random: &mut Random) {
    client.forbid_a_watch(&watched(), random);
}

/// Returns the kinds that the operator watches.
pub(super) fn watched() -> [Arc<Kind>; 8] {
    [
        config_map(),
        secret(),
        account(),
        service(),
        widget(),
        names::namespace(),
        names::class(),
        names::binding(),
    ]
}

fn delete_widgets(client: &mut dyn Client, _: &mut Random) {
    client.delete(&crds::of(&widget()));
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
    let target = some_namespace(random);
    let value = match random.below(8) {
        0 => "x".repeat(VALUE_MAX_BYTES + 1),
        _ => random.below(1000).to_string(),
    };
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
    let kind = random.pick(&[config_map, config_map, secret, account, service, widget])();
    let object = client.any(&kind, random)?;
    let ours = object["metadata"]["ownerReferences"][0]["kind"] == "NamespaceClassBinding"
        || annotation(&object, names::ADOPTED_ANNOTATION).is_some();
    ours.then(|| reference(&kind, &object))
}

/// Changes a value, adds one, removes one from a list, or removes the label.
fn edit_applied(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_applied(client, random) else { return };
    let items = json!([{ "name": THEIRS }]);
    let port = |port: u16| json!({ "spec": { "ports": [{ "name": "theirs", "port": port }] } });
    let patch = match (&*target.kind.kind, random.below(4)) {
        ("ConfigMap", 0 | 1) => json!({ "data": { "value": THEIRS } }),
        ("Secret", 0 | 1) => json!({ "data": { "pin": THEIRS } }),
        ("ConfigMap" | "Secret", 2) => json!({ "data": { ADDED: THEIRS } }),
        ("ServiceAccount", 0) => json!({ "secrets": items }),
        ("ServiceAccount", 1) => json!({ "imagePullSecrets": items }),
        ("ServiceAccount", 2) => json!({ "metadata": { "annotations": { "example.com/of": THEIRS } } }),
        ("Service", 0) => port(80),
        ("Service", 1) => port(THEIR_PORT),
        ("Service", 2) => json!({ "spec": { "selector": { "app": THEIRS } } }),
        ("Widget", 0) => json!({ "spec": { "tags": [THEIRS] } }),
        ("Widget", 1) => json!({ "spec": { "tags": null } }),
        ("Widget", 2) => {
            json!({ "spec": { "parts": [{ "name": "axle", "size": THEIRS }, { "name": THEIRS }] } })
        }
        _ => json!({ "metadata": { "labels": { CLASS_LABEL: null } } }),
    };
    client.merge(&target, &patch);
}

fn insist(client: &mut dyn Client, random: &mut Random) {
    let Some(target) = some_applied(client, random).filter(|target| target.kind == config_map()) else {
        return;
    };
    let insists = client.server().object(&target).is_some_and(|it| annotation(it, INSISTS).is_some());
    let mark = (!insists).then_some("true");
    client.merge(&target, &json!({ "metadata": { "annotations": { INSISTS: mark } } }));
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

/// Creates an object in the place of one of a class, sometimes of one that is about to be applied.
fn create_foreign(client: &mut dyn Client, random: &mut Random) {
    if random.below(2) == 0
        && let Some(target) = some_pending(client, random)
    {
        return create(client, &target, random);
    }
    let namespace = random.pick(&NAMESPACES);
    let (kind, name) = match random.below(7) {
        0 => (secret(), "pin"),
        1 => (account(), "robot"),
        2 => (service(), "door"),
        3 => (widget(), "gear"),
        _ => (config_map(), random.pick(&["a", "b", "z"])),
    };
    create(client, &ObjectRef::namespaced(&kind, namespace, name), random);
}

/// Returns a resource that a binding lists as not applied yet.
fn some_pending(client: &dyn Client, random: &mut Random) -> Option<ObjectRef> {
    let binding = client.any(&names::binding(), random)?;
    let pending = binding["status"]["pendingResources"].as_array()?;
    let entry = pending.get(usize::try_from(random.below(pending.len() as u64)).ok()?)?;
    let kind = pool_kinds().into_iter().find(|kind| entry["kind"] == *kind.kind)?;
    Some(ObjectRef::namespaced(&kind, metadata(&binding, "namespace"), entry["name"].as_str()?))
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
    let mut object = json!({ "metadata": metadata });
    match &*target.kind.kind {
        "ServiceAccount" => object["secrets"] = json!([{ "name": THEIRS }]),
        "Service" => {
            let ports = json!([{ "name": "theirs", "port": THEIR_PORT }]);
            object["spec"] = json!({ "clusterIP": "None", "ports": ports });
        }
        "Widget" => object["spec"] = json!({ "tags": [THEIRS] }),
        _ if random.below(2) == 0 => object["data"] = json!({ ADDED: THEIRS }),
        _ => {}
    }
    client.create(&target.kind, &object);
}

fn hold(client: &mut dyn Client, random: &mut Random) {
    let target = if random.below(4) == 0 {
        client.any(&names::binding(), random).map(|binding| reference(&names::binding(), &binding))
    } else {
        some_applied(client, random)
    };
    if let Some(target) = target {
        client.merge(&target, &json!({ "metadata": { "finalizers": [HOLD] } }));
    }
}

/// Creates a binding without a label of the namespace, if the namespace has none.
fn create_binding(client: &mut dyn Client, random: &mut Random) {
    let namespace = random.pick(&NAMESPACES);
    let class = random.pick(&["web", "db", NOWHERE]);
    let metadata = json!({ "namespace": namespace, "name": namespace });
    client.create(&names::binding(), &json!({ "metadata": metadata, "spec": { "className": class } }));
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
