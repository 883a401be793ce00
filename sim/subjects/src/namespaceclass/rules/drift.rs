//! Drift is repaired by the pass that knows of it, unless repairs of the resource have to slow down (decision 12).

use lockstep_engine::object::{ObjectRef, controller_uid, is_deleting, metadata};
use lockstep_namespaceclass::names::{self, reason};
use lockstep_sim::cluster::{Author, What};
use lockstep_sim::conditions;
use lockstep_sim::history::MINUTE;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::judged::settled_class;
use crate::namespaceclass::content::is_from_entry;
use crate::namespaceclass::desired::{has_observed, reports_drift, wanted};
use crate::namespaceclass::repair_pace::wait;
use crate::passes::{Pass, first, successful};

pub(super) fn known_drift_is_repaired(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, .. } = &moment.entry.what else { return Ok(()) };
    let of_bindings = successful(moment).filter(|pass| pass.object.kind == names::binding());
    first(of_bindings.filter_map(|pass| {
        let class = settled_class(moment, &pass)?;
        // An earlier generation may wait for its turn in a rollout.
        if !has_observed(pass.stored, class) || reports_drift(class) {
            return None;
        }
        let wanted = wanted(class, pass.object.namespace.as_deref()?);
        let left = wanted.iter().find(|(target, entry)| is_left(moment, &pass, *process, target, entry));
        left.map(|(target, _)| {
            format!("{target} still differs from its class, and no problem with it is reported")
        })
    }))
}

/// Returns whether a binding may report a problem with a resource, or one with all.
fn has_problem(pass: &Pass<'_>, target: &ObjectRef) -> bool {
    let Some(ready) = pass.condition("Ready") else { return true };
    let of_entries = [
        reason::OWNERSHIP_CONFLICT,
        reason::APPLY_FAILED,
        reason::INVALID_RESOURCES,
        reason::UNRESOLVED_VARIABLE,
    ];
    let message = ready["message"].as_str().unwrap_or_default();
    let names_it =
        message.contains(&format!("{} {}", target.kind.kind, target.name)) || message.ends_with("...");
    let is_ready = conditions::is(pass.stored, "Ready", "True");
    !is_ready && (names_it || !of_entries.iter().any(|of| ready["reason"] == **of))
}

/// Returns whether a resource differed from its entry when the pass began, could be repaired, and was not.
fn is_left(moment: &Moment<'_>, pass: &Pass<'_>, process: usize, target: &ObjectRef, entry: &Value) -> bool {
    let state = pass.state;
    let (Some(known), Some((since, _))) = (state.observed.get(target), state.previous.get(target)) else {
        return false;
    };
    if *since >= pass.began || is_deleting(known) || !pass.is_watched(&target.kind) {
        return false;
    }
    // Watches deliver the metadata only.
    let versions = moment.history.versions(target);
    let is_known = |object: &Value| {
        ["uid", "resourceVersion"].iter().all(|id| object["metadata"][id] == known["metadata"][id])
    };
    let is_drifted = |object: &Value| {
        controller_uid(object) == Some(metadata(pass.stored, "uid")) && !is_from_entry(object, entry)
    };
    let at = versions.iter().rposition(|it| it.object.as_deref().is_some_and(is_known));
    let Some(at) = at.filter(|at| versions[*at].object.as_deref().is_some_and(is_drifted)) else {
        return false;
    };
    let is_by_it = |by: Author| by == Author::Process(process);
    let own: Vec<_> = versions.iter().filter(|it| is_by_it(it.by)).map(|it| it.at).collect();
    let repairs = u32::try_from(own.len()).unwrap_or(u32::MAX);
    // The operator counts from the end of the pass.
    let must_wait = own.last().is_some_and(|last| pass.began < *last + wait(repairs) + MINUTE);
    !must_wait && !versions[at..].iter().any(|it| is_by_it(it.by)) && !has_problem(pass, target)
}
