//! What the status of a binding must report at rest: the resources that it has applied, and why it is not ready.

use std::collections::BTreeSet;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_namespaceclass::names::{self, reason};
use lockstep_sim::conditions;
use serde_json::Value;

use super::desired::{
    binding, class_of, filled, has_drifted, is_adopted, is_as_wanted, is_foreign, reports_drift,
    stays_as_it_is, wanted,
};

/// Returns each wrong statement of a binding whose namespace is brought to its class.
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
    wrong
}

fn of_binding(server: &ApiServer, namespace: &str, class: &Value, binding: &Value) -> Vec<String> {
    let uid = metadata(binding, "uid");
    let home = server.object(&ObjectRef::cluster(&names::namespace(), namespace));
    let (mut applied, mut reasons, mut has_adopted) = (BTreeSet::new(), BTreeSet::new(), false);
    for (target, manifest) in wanted(class, namespace) {
        let Some(manifest) = home.and_then(|home| filled(&manifest, home)) else {
            reasons.insert(reason::UNRESOLVED_VARIABLE);
            continue;
        };
        let object = server.object(&target).map(|it| &**it);
        has_adopted |= object.is_some_and(|object| is_adopted(object, uid));
        if object.is_some_and(|object| is_foreign(object, uid)) {
            reasons.insert(reason::OWNERSHIP_CONFLICT);
        } else if reports_drift(class) && has_drifted(object, class, uid, &manifest) {
            reasons.insert(reason::DRIFTED);
        } else if object.is_some_and(|object| is_as_wanted(object, &manifest)) {
            applied.insert((target.kind.kind.clone(), target.name.clone()));
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
