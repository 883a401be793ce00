//! What `spec.removalGuard` of a class promises.

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{ObjectRef, annotation, is_deleting, label, metadata};
use lockstep_namespaceclass::names::{self, CLASS_LABEL, CONFIRM_REMOVAL_ANNOTATION};
use lockstep_sim::cluster::What;
use lockstep_sim::history::ProcessState;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::rollout::{known_class, known_state};
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
        let is_bound = |it: &Value| it["spec"]["className"] == *metadata(class, "name");
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
