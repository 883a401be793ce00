//! What each status must report at rest: that of a binding the resources that it has applied, and why it is not ready; that of a
//! class whether its change has reached all namespaces.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::object::{ObjectRef, controller_uid, is_deleting, label, metadata};
use lockstep_namespaceclass::names::{self, reason};
use lockstep_sim::conditions;
use lockstep_sim::history::references;
use serde_json::Value;

use super::desired::{
    State, binding, class_of, excludes, is_adopted, is_available, is_outdated, is_paused, judged,
    stays_as_it_is,
};

/// Returns each wrong statement of the classes, and of the bindings whose namespace is brought to its class.
pub(super) fn differences(server: &ApiServer) -> Vec<String> {
    let mut wrong = Vec::new();
    for namespace in server.objects(&names::namespace()) {
        let name = metadata(&namespace, "name");
        let (Some(class), Some(binding)) = (class_of(server, name), binding(server, name)) else { continue };
        if !stays_as_it_is(server, &binding, &class) {
            let of_it = of_binding(server, name, &class, &binding).into_iter();
            wrong.extend(of_it.map(|wrong| format!("the binding of {name} {wrong}")));
        }
    }
    let classes = server.objects(&names::class());
    wrong.extend(
        classes.iter().filter(|class| !is_deleting(class)).filter_map(|class| of_class(server, class)),
    );
    wrong
}

/// Returns the objects whose status can be rebuilt. The status alone remembers what a namespace had before its class was paused,
/// its rollout was halted, a variable lost its value, or another client took an object, or its label, from a class that only reports drift.
pub(super) fn rebuilt(server: &ApiServer) -> Vec<ObjectRef> {
    let classes = references(server, &names::class()).into_iter();
    let bindings = references(server, &names::binding()).into_iter();
    let is_paused = |class: &ObjectRef| server.object(class).is_some_and(|class| is_paused(class));
    classes.filter(|class| !is_paused(class)).chain(bindings.filter(|it| !remembers(server, it))).collect()
}

/// Returns whether the status of a binding remembers what nothing else shows.
fn remembers(server: &ApiServer, target: &ObjectRef) -> bool {
    let class = class_of(server, &target.name);
    let Some((binding, class)) = server.object(target).zip(class) else { return true };
    let uid = metadata(binding, "uid");
    let is_ours = |object: &Value| {
        label(object, names::CLASS_LABEL) == Some(metadata(&class, "name"))
            && (controller_uid(object) == Some(uid) || is_adopted(object, uid))
    };
    let is_known = |(object, state): &(ObjectRef, State)| match state {
        State::Obstacle(reason::UNRESOLVED_VARIABLE) => false,
        State::Obstacle(reason::DRIFTED) => server.object(object).is_some_and(|object| is_ours(object)),
        _ => true,
    };
    stays_as_it_is(server, binding, &class) || !judged(server, &target.name, &class, uid).iter().all(is_known)
}

fn of_class(server: &ApiServer, class: &Value) -> Option<String> {
    let (name, paused) = (metadata(class, "name"), conditions::find(class, names::PAUSED));
    if paused.is_some() != is_paused(class) {
        return Some(format!("class {name} says that it is paused: {paused:?}"));
    }
    // A rollout neither begins nor ends while the class is paused.
    if is_paused(class) {
        return None;
    }
    let said = conditions::find(class, names::ROLLED_OUT);
    let bindings = server.objects(&names::binding());
    let of_class = bindings.iter().filter(|it| it["spec"]["className"] == name && !is_deleting(it));
    let mut of_class = of_class.filter(|it| !excludes(class, metadata(it, "namespace")));
    let current = (&class["metadata"]["uid"], &class["metadata"]["generation"]);
    let has_it = |it: &Arc<Value>| {
        (&it["status"]["observedClassUid"], &it["status"]["observedClassGeneration"]) == current
    };
    let reason = if !class["spec"]["rollout"].is_object() {
        None
    } else if of_class.clone().any(|it| is_outdated(it, class)) {
        Some(reason::HALTED)
    } else if of_class.clone().all(has_it) {
        // What other clients have changed says nothing about the class.
        let is_broken = |it: &Arc<Value>| {
            let ready = conditions::find(it, names::READY);
            let is_changed =
                |ready: &Value| [reason::DRIFTED, reason::CONTESTED].iter().any(|it| ready["reason"] == **it);
            !is_available(it) && !ready.is_some_and(is_changed)
        };
        Some(if of_class.any(is_broken) { reason::HALTED } else { reason::ALL_NAMESPACES_CHANGED })
    } else {
        return None;
    };
    let is_said = said.and_then(|said| said["reason"].as_str()) == reason;
    (!is_said).then(|| format!("the rollout of class {name} is {reason:?}; it says {said:?}"))
}

fn of_binding(server: &ApiServer, namespace: &str, class: &Value, binding: &Value) -> Vec<String> {
    let uid = metadata(binding, "uid");
    let (mut applied, mut reasons, mut has_adopted) = (BTreeSet::new(), BTreeSet::new(), false);
    for (target, state) in judged(server, namespace, class, uid) {
        let is_resolved = !matches!(state, State::Obstacle(reason::UNRESOLVED_VARIABLE));
        has_adopted |= is_resolved && server.object(&target).is_some_and(|object| is_adopted(object, uid));
        match state {
            State::Applied => {
                applied.insert((target.kind.kind.clone(), target.name.clone()));
            }
            State::Obstacle(reason) => {
                reasons.insert(reason);
            }
            State::Missing | State::Stray | State::Different => {}
        }
    }
    let mut wrong = Vec::new();
    let status = &binding["status"];
    let (listed, pending) = (entries(&status["appliedResources"]), entries(&status["pendingResources"]));
    if !applied.is_subset(&listed) || (reasons.is_empty() && (listed != applied || !pending.is_empty())) {
        wrong.push(format!("lists {listed:?} and {pending:?}, but {applied:?} are applied"));
    }
    let said = conditions::find(binding, names::READY)
        .and_then(|ready| ready["reason"].as_str())
        .unwrap_or_default();
    if !reasons.is_empty() && !reasons.contains(said) {
        wrong.push(format!("is not ready because of {said}, instead of {reasons:?}"));
    }
    let adopted = conditions::find(binding, names::OBJECTS_ADOPTED);
    if adopted.is_some() != has_adopted {
        wrong.push(format!("has adopted objects: {has_adopted}; it says {adopted:?}"));
    }
    wrong
}

fn entries(list: &Value) -> BTreeSet<(String, String)> {
    let entries = list.as_array().into_iter().flatten();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    entries.map(|entry| (text(entry, "kind"), text(entry, "name"))).collect()
}
