//! The desired state of the cluster, computed from classes and labels only.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::object::{Kind, ObjectRef, annotation, controller_uid, is_deleting, label, metadata};
use lockstep_namespaceclass::names::{self, CLASS_LABEL, reason};
use lockstep_sim::conditions;
use lockstep_sim::history::reference;
use serde_json::Value;

use super::classes::{is_mistake, pool_kinds};
use super::content::{filled, is_as_wanted, keeps_adopted};

/// Returns the class that a namespace should have: the one that its label requests, or that of a binding that a tenant created. A
/// class that excludes the namespace is neither.
pub(super) fn class_of(server: &ApiServer, namespace: &str) -> Option<Arc<Value>> {
    requested_class(server, namespace).or_else(|| {
        let home = server.object(&ObjectRef::cluster(&names::namespace(), namespace))?;
        let own = own_binding(server, namespace).filter(|_| !is_deleting(home))?;
        let class = ObjectRef::cluster(&names::class(), own["spec"]["className"].as_str()?);
        server.object(&class).filter(|class| !excludes(class, namespace)).map(Arc::clone)
    })
}

/// Returns the binding of a namespace, if a tenant created it.
fn own_binding(server: &ApiServer, namespace: &str) -> Option<Arc<Value>> {
    binding(server, namespace).filter(|binding| controller_uid(binding).is_none() && !is_deleting(binding))
}

/// Returns the class that the label of a namespace names, if it exists and does not exclude the namespace.
pub(super) fn requested_class(server: &ApiServer, namespace: &str) -> Option<Arc<Value>> {
    let namespace = server.object(&ObjectRef::cluster(&names::namespace(), namespace))?;
    if is_deleting(namespace) {
        return None;
    }
    let class = label(namespace, CLASS_LABEL)?;
    let class = server.object(&ObjectRef::cluster(&names::class(), class))?;
    (!excludes(class, metadata(namespace, "name"))).then(|| Arc::clone(class))
}

/// Returns whether a class excludes a namespace. The patterns of the simulation have at most one asterisk, at the end.
pub(super) fn excludes(class: &Value, namespace: &str) -> bool {
    let mut patterns = class["spec"]["excludedNamespaces"].as_array().into_iter().flatten();
    patterns.any(|pattern| match pattern.as_str().unwrap_or_default() {
        pattern if pattern.ends_with('*') => namespace.starts_with(pattern.trim_end_matches('*')),
        pattern => namespace == pattern,
    })
}

/// Returns the resources that a class requires in a namespace, with their manifests. Those may contain variables.
pub(super) fn wanted(class: &Value, namespace: &str) -> BTreeMap<ObjectRef, Value> {
    let resources = class["spec"]["resources"].as_array().map_or(&[][..], Vec::as_slice);
    let find = |resource: &Value| -> Option<Arc<Kind>> {
        pool_kinds().into_iter().find(|kind| resource["kind"] == *kind.kind)
    };
    resources
        .iter()
        .filter(|resource| !is_mistake(resource))
        .filter_map(|resource| {
            let kind = find(resource)?;
            let name = metadata(resource, "name");
            Some((ObjectRef::namespaced(&kind, namespace, name), resource.clone()))
        })
        .collect()
}

pub(super) fn binding(server: &ApiServer, namespace: &str) -> Option<Arc<Value>> {
    server.object(&ObjectRef::namespaced(&names::binding(), namespace, namespace)).map(Arc::clone)
}

/// Returns whether another owner controls an object.
fn is_foreign(object: &Value, binding_uid: &str) -> bool {
    controller_uid(object).is_some_and(|uid| uid != binding_uid)
}

/// Returns whether a binding adopted an object, with or without becoming its owner.
pub(super) fn is_adopted(object: &Value, binding_uid: &str) -> bool {
    !is_foreign(object, binding_uid) && annotation(object, names::ADOPTED_ANNOTATION) == Some(binding_uid)
}

/// Returns whether an object belongs to a binding as an entry of its class says: the binding owns what it created, and what it
/// adopted if that is not to be kept.
fn belongs(object: &Value, binding_uid: &str, manifest: &Value) -> bool {
    let is_kept = is_adopted(object, binding_uid) && keeps_adopted(manifest);
    is_kept != (controller_uid(object) == Some(binding_uid))
}

/// Returns the differences between the cluster and its desired state.
pub(super) fn differences(server: &ApiServer) -> Vec<String> {
    let mut differences = Vec::new();
    for namespace in server.objects(&names::namespace()) {
        let name = metadata(&namespace, "name");
        match class_of(server, name) {
            _ if is_deleting(&namespace) => {
                differences.push(format!("namespace {name} still is being deleted"));
            }
            Some(class) => bound(server, name, &class, &mut differences),
            None => without_class(server, name, &mut differences),
        }
        // Only a label with the name of a missing class, or of one that excludes the namespace, is a problem.
        let is_problem = label(&namespace, CLASS_LABEL).is_some() && requested_class(server, name).is_none();
        let said = annotation(&namespace, names::PROBLEM_ANNOTATION);
        if said.is_some() != is_problem && !is_deleting(&namespace) {
            differences.push(format!("namespace {name} says what keeps it from its class: {said:?}"));
        }
    }
    differences.extend(server.objects(&names::class()).iter().filter_map(|class| invalid(class)));
    for kind in pool_kinds() {
        for object in server.objects(&kind) {
            let namespace = binding(server, metadata(&object, "namespace"));
            let is_adopted = namespace.is_some_and(|it| is_adopted(&object, metadata(&it, "uid")));
            if owner_kind(&object) == "NamespaceClassBinding" || is_adopted {
                check_wanted(server, &reference(&kind, &object), &object, &mut differences);
            }
        }
    }
    differences
}

/// Checks the binding of a namespace without a class.
fn without_class(server: &ApiServer, namespace: &str, differences: &mut Vec<String>) {
    if let Some(own) = own_binding(server, namespace) {
        let ready = conditions::find(&own, names::READY);
        let class =
            ObjectRef::cluster(&names::class(), own["spec"]["className"].as_str().unwrap_or_default());
        let expected = server.object(&class).map_or(reason::CLASS_NOT_FOUND, |_| reason::NAMESPACE_EXCLUDED);
        if ready.is_none_or(|ready| ready["reason"] != expected) {
            differences
                .push(format!("the binding of {namespace} has no class; it says {ready:?}, not {expected}"));
        }
    } else if binding(server, namespace).is_some() {
        differences.push(format!("namespace {namespace} is in no class and has a binding"));
    }
}

/// Returns what the status of a class says wrongly. At rest, all classes are valid and all their kinds can be watched.
fn invalid(class: &Value) -> Option<String> {
    let is_current = conditions::find(class, names::VALID).is_some_and(|valid| {
        valid["status"] == "True" && valid["observedGeneration"] == class["metadata"]["generation"]
    });
    let says = || format!("class {} should be valid: {}", metadata(class, "name"), class["status"]);
    (!is_current && !is_deleting(class)).then(says)
}

fn owner_kind(object: &Value) -> &str {
    object["metadata"]["ownerReferences"][0]["kind"].as_str().unwrap_or_default()
}

/// The state of a resource that a class requires in a namespace.
pub(super) enum State {
    /// It is as it should be.
    Applied,
    /// It can't be applied, or is left as it is. The binding reports it with this reason.
    Obstacle(&'static str),
    /// It does not exist.
    Missing,
    /// It exists, and the binding neither owns nor adopted it.
    Stray,
    /// It differs from its manifest.
    Different,
}

/// Returns the state of each resource that a class requires in a namespace.
pub(super) fn judged(
    server: &ApiServer,
    namespace: &str,
    class: &Value,
    uid: &str,
) -> Vec<(ObjectRef, State)> {
    let home = server.object(&ObjectRef::cluster(&names::namespace(), namespace));
    let has_label = |object: &Value| label(object, CLASS_LABEL) == Some(metadata(class, "name"));
    let judge = |target: &ObjectRef, manifest: &Value| {
        let Some(manifest) = home.and_then(|home| filled(manifest, home)) else {
            return State::Obstacle(reason::UNRESOLVED_VARIABLE);
        };
        let object = server.object(target).map(|it| &**it);
        if reports_drift(class) && has_drifted(object, class, uid, &manifest) {
            return State::Obstacle(reason::DRIFTED);
        }
        match object {
            None => State::Missing,
            Some(object) if is_foreign(object, uid) => State::Obstacle(reason::OWNERSHIP_CONFLICT),
            Some(object) if !belongs(object, uid, &manifest) => State::Stray,
            Some(object) if !is_as_wanted(object, &manifest) || !has_label(object) => State::Different,
            Some(_) => State::Applied,
        }
    };
    let resources = wanted(class, namespace).into_iter();
    resources
        .map(|(target, manifest)| {
            let state = judge(&target, &manifest);
            (target, state)
        })
        .collect()
}

/// Checks a namespace that should be in a class.
fn bound(server: &ApiServer, namespace: &str, class: &Value, differences: &mut Vec<String>) {
    let class_name = metadata(class, "name");
    let Some(binding) = binding(server, namespace) else {
        return differences
            .push(format!("namespace {namespace} should be in class {class_name}, and has no binding"));
    };
    if binding["spec"]["className"] != class_name {
        differences.push(format!("the binding of {namespace} does not name class {class_name}"));
    }
    if stays_as_it_is(server, &binding, class) {
        return;
    }
    let mut free = true;
    for (target, state) in judged(server, namespace, class, metadata(&binding, "uid")) {
        match state {
            State::Applied => {}
            State::Obstacle(_) => free = false,
            State::Missing => differences.push(format!("{target} of class {class_name} is missing")),
            State::Stray => {
                differences.push(format!("{target} of class {class_name} does not belong to the binding"));
            }
            State::Different => {
                differences.push(format!("{target} is not as class {class_name} wants it"));
            }
        }
    }
    let ready = conditions::find(&binding, "Ready");
    let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
    if is_ready != free {
        let said =
            ready.map(|ready| format!("{}: {}", ready["reason"], ready["message"])).unwrap_or_default();
        differences.push(format!("the binding of {namespace} should be Ready={free}, it says {said}"));
    }
    if !has_observed(&binding, class) {
        differences.push(format!("the status of the binding of {namespace} does not match the class"));
    }
}

/// Returns whether a namespace is not brought to its class for now: the class is paused, or its rollout is halted.
pub(super) fn stays_as_it_is(server: &ApiServer, binding: &Value, class: &Value) -> bool {
    let is_outdated = is_outdated(binding, class);
    let waits_for_canaries = || {
        let unproven = unproven(server, class);
        unproven.is_some_and(|unproven| !unproven.contains(&metadata(binding, "namespace").to_owned()))
    };
    is_paused(class) || (is_outdated && (is_halted(server, class) || waits_for_canaries()))
}

/// Returns the canaries of a class, if it has any.
pub(super) fn canaries(class: &Value) -> Option<Vec<&str>> {
    let canaries = class["spec"]["rollout"]["canaries"].as_array()?;
    Some(canaries.iter().filter_map(Value::as_str).collect())
        .filter(|canaries: &Vec<&str>| !canaries.is_empty())
}

/// Returns the canaries that have the class and are not ready with its present generation, if no other ready namespace may be
/// changed now.
fn unproven(server: &ApiServer, class: &Value) -> Option<Vec<String>> {
    let bindings = canaries(class)?.into_iter().filter_map(|canary| binding(server, canary));
    let bound: Vec<_> = bindings
        .filter(|it| it["spec"]["className"] == class["metadata"]["name"] && !is_deleting(it))
        .filter(|it| !excludes(class, metadata(it, "namespace")))
        .collect();
    let is_unproven = |binding: &Value| !is_available(binding) || is_outdated(binding, class);
    let unproven: Vec<String> =
        bound.iter().filter(|it| is_unproven(it)).map(|it| metadata(it, "namespace").to_owned()).collect();
    (bound.is_empty() || !unproven.is_empty()).then_some(unproven)
}

/// Returns whether a class has drift reported only.
pub(super) fn reports_drift(class: &Value) -> bool {
    class["spec"]["drift"] == "Report"
}

/// Returns whether an object is not as a class applied it. An object of another controller is a conflict.
fn has_drifted(object: Option<&Value>, class: &Value, uid: &str, manifest: &Value) -> bool {
    let Some(object) = object else { return true };
    !is_foreign(object, uid)
        && (!belongs(object, uid, manifest)
            || label(object, CLASS_LABEL) != Some(metadata(class, "name"))
            || !is_as_wanted(object, manifest))
}

/// Returns whether a class is paused.
pub(super) fn is_paused(class: &Value) -> bool {
    class["spec"]["paused"] == true
}

/// Returns whether a binding is ready with an earlier generation of its class.
pub(super) fn is_outdated(binding: &Value, class: &Value) -> bool {
    is_available(binding) && !has_observed(binding, class)
}

/// Returns whether the status of a binding is of the present generation of a class.
pub(super) fn has_observed(binding: &Value, class: &Value) -> bool {
    let status = &binding["status"];
    let observed = (&status["observedClassUid"], &status["observedClassGeneration"]);
    observed == (&class["metadata"]["uid"], &class["metadata"]["generation"])
}

/// Returns whether a binding is ready with the class that it names.
pub(super) fn is_available(binding: &Value) -> bool {
    binding["spec"]["className"] == binding["status"]["observedClassName"]
        && conditions::is(binding, "Ready", "True")
}

/// Returns whether a binding says that its class excludes the namespace. Then it takes no place in a rollout.
pub(super) fn is_excluded(binding: &Value) -> bool {
    conditions::find(binding, names::READY).is_some_and(|it| it["reason"] == reason::NAMESPACE_EXCLUDED)
}

/// Returns whether as many namespaces of a class are unready as it permits.
fn is_halted(server: &ApiServer, class: &Value) -> bool {
    let Some(limit) = class["spec"]["rollout"]["maxUnavailable"].as_u64() else { return false };
    let bindings = server.objects(&names::binding()).into_iter();
    let of_class = bindings.filter(|it| it["spec"]["className"] == class["metadata"]["name"]);
    of_class.filter(|it| !is_available(it) && !is_excluded(it)).count() as u64 >= limit
}

/// Checks that an object owned by a binding is wanted.
fn check_wanted(server: &ApiServer, target: &ObjectRef, object: &Value, differences: &mut Vec<String>) {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let owner = binding(server, namespace);
    let owned = owner.is_some_and(|binding| {
        let uid = metadata(&binding, "uid");
        controller_uid(object) == Some(uid) || is_adopted(object, uid)
    });
    let class = class_of(server, namespace);
    let binding = binding(server, namespace);
    let stays =
        class.as_ref().zip(binding.as_ref()).is_some_and(|(class, it)| stays_as_it_is(server, it, class));
    // What a tenant's binding has applied stays as long as its class does not exist, or excludes the namespace.
    let has_no_class = class.is_none() && own_binding(server, namespace).is_some();
    if stays || has_no_class {
        return;
    }
    let is_wanted = class.is_some_and(|class| wanted(&class, namespace).contains_key(target));
    if !owned || !is_wanted {
        differences.push(format!("{target} was left behind"));
    }
}
