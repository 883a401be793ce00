//! What is not removed: what `spec.removalGuard` of a class holds, and what has left a class with mistakes.

use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{ObjectRef, annotation, controller_uid, is_deleting, label, metadata};
use lockstep_namespaceclass::names::{self, CLASS_LABEL, CONFIRM_REMOVAL_ANNOTATION};
use lockstep_sim::cluster::What;
use lockstep_sim::history::{ProcessState, reference};
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::rollout::{known_class, known_state};
use crate::namespaceclass::classes::{is_mistake, pool_kinds};
use crate::namespaceclass::desired::excludes;

pub(super) fn a_guard_holds_removals(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for request in &step.requests {
        let Action::Kube(KubeRequest::Delete { target, .. }) = &request.action else { continue };
        let binding = Some(target).filter(|target| target.kind == names::binding());
        let Some(binding) = binding.and_then(|it| known_state(moment, state, it)) else { continue };
        let Some(class) = known_class(moment, state, binding) else { continue };
        if annotation(class, CONFIRM_REMOVAL_ANNOTATION).is_some() {
            continue;
        }
        let Some(percent) = class["spec"]["removalGuard"]["maxPercent"].as_u64() else { continue };
        // If a user created it, no label decides about it. If it is being deleted, nothing is left to hold.
        let is_governed = |it: &Value| {
            let home = ObjectRef::cluster(&names::namespace(), metadata(it, "namespace"));
            let home = state.observed.get(&home).or_else(|| moment.server.object(&home));
            home.is_some_and(|home| controller_uid(it) == Some(metadata(home, "uid"))) && !is_deleting(it)
        };
        let is_bound = |it: &Value| it["spec"]["className"] == *metadata(class, "name") && is_governed(it);
        let current = moment.server.objects(&names::binding());
        let current: Vec<_> = current.iter().filter(|it| is_bound(it)).collect();
        let observed =
            state.observed.iter().filter(|(it, object)| it.kind == names::binding() && is_bound(object));
        let all = current.len().max(observed.count()) as u64;
        let leaving = current.iter().filter(|it| is_leaving(moment, state, class, metadata(it, "namespace")));
        let leaving = leaving.count() as u64;
        if leaving > (all * percent / 100).max(1) {
            return Err(format!(
                "{target} is removed, though {leaving} of {all} namespaces have lost the class, of which {percent} % may"
            ));
        }
    }
    Ok(())
}

/// Returns whether the process knows that a class is to be removed from a namespace that stays, and that has a binding to it.
fn is_leaving(moment: &Moment<'_>, state: &ProcessState, class: &Value, namespace: &str) -> bool {
    let known = known_state(moment, state, &ObjectRef::cluster(&names::namespace(), namespace));
    let binding = ObjectRef::namespaced(&names::binding(), namespace, namespace);
    known_state(moment, state, &binding).is_some()
        && known.is_some_and(|known| {
            let has_class = label(known, CLASS_LABEL) == Some(metadata(class, "name"));
            !is_deleting(known) && (!has_class || excludes(class, namespace))
        })
}

pub(super) fn a_class_with_mistakes_removes_nothing(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for request in &step.requests {
        let Action::Kube(KubeRequest::Delete { target, .. }) = &request.action else { continue };
        let namespace = target.namespace.as_deref().filter(|_| pool_kinds().contains(&target.kind));
        let binding =
            namespace.map(|namespace| ObjectRef::namespaced(&names::binding(), namespace, namespace));
        let Some(binding) = binding.and_then(|it| known_state(moment, state, &it)) else { continue };
        let Some(class) = known_class(moment, state, binding) else { continue };
        let Some(since) = since_mistake(moment, class) else { continue };
        // Passes over other bindings read the class as well, so the first read during this pass is assumed to be its own.
        let key = ("binding".to_owned(), reference(&names::binding(), binding));
        let began = state.ended.get(&key).copied().unwrap_or_default();
        let mut reads = state.reads.get(&reference(&names::class(), class)).into_iter().flatten();
        let knows_it = reads.find(|read| **read >= began).is_some_and(|read| *read > since);
        let is_of_class = moment
            .server
            .object(target)
            .is_some_and(|object| label(object, CLASS_LABEL) == Some(metadata(class, "name")));
        if knows_it && is_of_class && !is_deleting(binding) && !is_deleting(class) {
            return Err(format!("{target} is removed, and class {} has mistakes", metadata(class, "name")));
        }
    }
    Ok(())
}

/// Returns since when a class has had mistakes without a break.
fn since_mistake(moment: &Moment<'_>, class: &Value) -> Option<Duration> {
    let has_mistake =
        |class: &Value| class["spec"]["resources"].as_array().is_some_and(|all| all.iter().any(is_mistake));
    let versions = moment.history.versions(&reference(&names::class(), class)).iter().rev();
    let last = versions.take_while(|version| version.object.as_deref().is_some_and(has_mistake)).last();
    last.map(|version| version.at)
}
