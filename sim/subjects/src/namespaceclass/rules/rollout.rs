//! What `spec.paused`, `spec.rollout`, `spec.drift` and `spec.excludedNamespaces` of a class promise.

use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::machine::Step;
use lockstep_engine::object::{ObjectRef, is_deleting, metadata};
use lockstep_namespaceclass::names::{self, reason};
use lockstep_sim::cluster::{Author, What};
use lockstep_sim::conditions;
use lockstep_sim::history::{MINUTE, ProcessState, reference};
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::change::change_of_process;
use crate::namespaceclass::classes::pool_kinds;
use crate::namespaceclass::content::{is_from_entry, is_varied};
use crate::namespaceclass::desired::{
    canaries, excludes, has_observed, is_available, is_excluded, is_outdated, is_paused, reports_drift,
    wanted,
};

fn binding_ref(namespace: &str) -> ObjectRef {
    ObjectRef::namespaced(&names::binding(), namespace, namespace)
}

/// Returns the class that a binding requests, if the process has been told of the present generation of the class.
pub(super) fn known_class<'a>(
    moment: &'a Moment<'_>,
    state: &ProcessState,
    binding: &Value,
) -> Option<&'a Value> {
    let class = ObjectRef::cluster(&names::class(), binding["spec"]["className"].as_str()?);
    let current = moment.server.object(&class)?;
    let known = state.observed.get(&class)?;
    let is_current = known["metadata"]["uid"] == current["metadata"]["uid"]
        && known["metadata"]["generation"] == current["metadata"]["generation"];
    is_current.then_some(&**current)
}

/// Returns the binding of a namespace, if the process has been told of its present state.
fn known_binding<'a>(moment: &'a Moment<'_>, state: &ProcessState, namespace: &str) -> Option<&'a Value> {
    known_state(moment, state, &binding_ref(namespace))
}

/// Returns an object, if the process has been told of its present state.
pub(super) fn known_state<'a>(
    moment: &'a Moment<'_>,
    state: &ProcessState,
    object: &ObjectRef,
) -> Option<&'a Value> {
    let current = moment.server.object(object)?;
    let known = state.observed.get(object)?;
    (known["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]).then_some(&**current)
}

/// Returns whether the process has known the present state of an object for this time.
fn is_known_for(moment: &Moment<'_>, state: &ProcessState, object: &ObjectRef, time: Duration) -> bool {
    state.previous.get(object).is_none_or(|(until, _)| *until + time <= moment.entry.at)
}

/// Returns the writes of resources of classes in a step, with their namespaces.
fn writes(step: &Step) -> impl Iterator<Item = (&'static str, &ObjectRef, &str)> {
    step.requests.iter().filter_map(|request| {
        let action = &request.action;
        let is_write = matches!(
            action,
            Action::Kube(
                KubeRequest::Apply { .. }
                    | KubeRequest::Create { .. }
                    | KubeRequest::Patch { .. }
                    | KubeRequest::Delete { .. }
            )
        );
        let target = action.target().filter(|target| is_write && pool_kinds().contains(&target.kind))?;
        Some((action.name(), target, target.namespace.as_deref()?))
    })
}

pub(super) fn a_paused_class_changes_nothing(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for (verb, target, namespace) in writes(step) {
        let Some(binding) = known_binding(moment, state, namespace) else { continue };
        if known_class(moment, state, binding).is_some_and(is_paused)
            && !is_returned(moment, *process, target)
        {
            return Err(format!("{verb} of {target}, though its class is paused"));
        }
    }
    Ok(())
}

/// Returns whether a process may have found, by applying an object, that another client had just created it: then it gives the object
/// back.
fn is_returned(moment: &Moment<'_>, process: usize, target: &ObjectRef) -> bool {
    let last = moment.history.versions(target).last();
    last.is_some_and(|last| last.by == Author::Process(process) && last.at + MINUTE > moment.entry.at)
}

pub(super) fn drift_is_only_reported(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for (verb, target, namespace) in writes(step).filter(|(verb, ..)| *verb != "delete") {
        let Some(binding) = known_binding(moment, state, namespace) else { continue };
        let class = known_class(moment, state, binding).filter(|class| reports_drift(class));
        let Some(class) = class else { continue };
        let status = &binding["status"];
        let mut listed = status["appliedResources"].as_array().into_iter().flatten();
        let is_listed = listed.any(|it| it["kind"] == *target.kind.kind && it["name"] == *target.name);
        let is_applied = has_observed(binding, class);
        // A change of the namespace is applied in any case.
        let is_varied = wanted(class, namespace).get(target).is_some_and(is_varied);
        let namespace = binding_ref(namespace);
        let class = reference(&names::class(), class);
        // A pass decides by what was known when it began.
        let is_known = [namespace, class].iter().all(|it| is_known_for(moment, state, it, MINUTE));
        if is_listed && is_applied && is_available(binding) && is_known && !is_varied {
            return Err(format!("{verb} of {target}, though its class has drift reported only"));
        }
    }
    Ok(())
}

pub(super) fn an_excluded_namespace_gets_no_class(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for request in &step.requests {
        let Action::Kube(KubeRequest::Apply { target, manifest }) = &request.action else { continue };
        let Some(namespace) = target.namespace.as_deref() else { continue };
        let binding = if target.kind == names::binding() {
            Some(&**manifest)
        } else if pool_kinds().contains(&target.kind) && !is_returned(moment, *process, target) {
            known_binding(moment, state, namespace)
        } else {
            None
        };
        let class = binding.and_then(|binding| known_class(moment, state, binding));
        if class.is_some_and(|class| excludes(class, namespace)) {
            return Err(format!("{target} is written, though its class excludes the namespace"));
        }
    }
    Ok(())
}

fn limit(class: &Value) -> Option<u64> {
    class["spec"]["rollout"]["maxUnavailable"].as_u64()
}

pub(super) fn a_rollout_is_announced(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for request in &step.requests {
        let Action::Kube(KubeRequest::Apply { target, manifest }) = &request.action else { continue };
        let Some(namespace) = target.namespace.as_deref() else { continue };
        let Some(binding) = known_binding(moment, state, namespace) else { continue };
        let Some(class) = known_class(moment, state, binding) else { continue };
        if limit(class).is_some() && is_outdated(binding, class) && is_new(moment, class, target, manifest) {
            return Err(format!(
                "apply of {target}, and the binding still is Ready with an earlier generation"
            ));
        }
    }
    Ok(())
}

/// Returns whether what is applied stands in the present generation of a class, and in no earlier one. A pass that began before
/// the class was changed may still apply an earlier one.
fn is_new(moment: &Moment<'_>, class: &Value, target: &ObjectRef, manifest: &Value) -> bool {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let is_in =
        |class: &Value| wanted(class, namespace).get(target).is_some_and(|it| is_from_entry(manifest, it));
    let versions = moment.history.versions(&reference(&names::class(), class)).iter();
    let mut earlier = versions
        .filter_map(|version| version.object.as_deref())
        .filter(|it| ["uid", "generation"].iter().any(|id| it["metadata"][id] != class["metadata"][id]));
    is_in(class) && !earlier.any(is_in)
}

pub(super) fn canaries_are_changed_first(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else { return Ok(()) };
    let Some(state) = moment.history.process(process).filter(|_| change.object == binding_ref(namespace))
    else {
        return Ok(());
    };
    let Some((since, class)) = announced(moment, new).filter(|(_, class)| is_outdated(old, class)) else {
        return Ok(());
    };
    let is_unproven = |canary: &&str| {
        let versions = moment.history.versions_since(&binding_ref(canary), since);
        known_binding(moment, state, canary).is_some()
            && versions.first().is_some_and(|first| first.at <= since)
            && versions.iter().all(|version| {
                version.object.as_deref().is_some_and(|it| {
                    it["spec"]["className"] == class["metadata"]["name"]
                        && !is_deleting(it)
                        && !excludes(class, canary)
                        && (!is_available(it) || is_outdated(it, class))
                })
            })
    };
    let canaries = canaries(class).filter(|canaries| !canaries.contains(&namespace));
    match canaries.and_then(|canaries| canaries.into_iter().find(is_unproven)) {
        Some(canary) => Err(format!(
            "{namespace} is brought to generation {} of its class before its canary {canary}",
            class["metadata"]["generation"]
        )),
        None => Ok(()),
    }
}

/// Returns the generation of the class to which a binding says that it is brought, and since when it exists.
fn announced<'a>(moment: &'a Moment<'_>, binding: &Value) -> Option<(Duration, &'a Value)> {
    let applying = conditions::find(binding, "Ready").filter(|ready| ready["reason"] == "Applying")?;
    let (_, generation) = applying["message"].as_str()?.rsplit_once("generation ")?;
    let generation: i64 = generation.parse().ok()?;
    let target = ObjectRef::cluster(&names::class(), binding["spec"]["className"].as_str()?);
    let current = moment.server.object(&target)?;
    // Of two classes of one name, the older one could have had the generation as well.
    let since = moment.entry.at.saturating_sub(MINUTE);
    let is_same = |it: &Value| it["metadata"]["uid"] == current["metadata"]["uid"];
    let mut recent = moment.history.versions_since(&target, since).iter();
    if !recent.all(|version| version.object.as_deref().is_some_and(is_same)) {
        return None;
    }
    let mut versions = moment.history.versions(&target).iter();
    versions.find_map(|version| {
        let class = version.object.as_deref().filter(|it| is_same(it))?;
        (class["metadata"]["generation"] == generation).then_some((version.at, class))
    })
}

pub(super) fn a_rollout_keeps_its_limit(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change, namespace)) = change_of_process(moment) else { return Ok(()) };
    let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref()) else { return Ok(()) };
    if change.object != binding_ref(namespace) || is_available(new) {
        return Ok(());
    }
    let Some(state) = moment.history.process(process) else { return Ok(()) };
    let Some(class) = known_class(moment, state, new) else { return Ok(()) };
    // It may also become unready because a removal is held, or because of drift, without a change of the class.
    let is_brought = conditions::find(new, "Ready").is_some_and(|ready| ready["reason"] == reason::APPLYING);
    // A namespace that changes to this class joins it: that is not limited.
    let joins = old["spec"]["className"] != new["spec"]["className"];
    if joins || !is_brought || !is_outdated(old, class) || is_paused(class) {
        return Ok(());
    }
    // A pass may have begun with any limit of the last minute.
    let since = moment.entry.at.saturating_sub(MINUTE);
    let versions = moment.history.versions_since(&reference(&names::class(), class), since).iter();
    let limits = versions.map(|version| version.object.as_deref().and_then(limit));
    let Some(limit) =
        limits.chain([limit(class)]).collect::<Option<Vec<u64>>>().and_then(|it| it.into_iter().max())
    else {
        return Ok(());
    };
    // It decided before the write arrived, so only what it has known for a while counts: requests may be slow.
    let namespaces = moment.server.objects(&names::binding()).into_iter();
    let namespaces = namespaces.map(|it| metadata(&it, "namespace").to_owned()).filter(|it| it != namespace);
    let is_unready = |other: &String| {
        let known = known_binding(moment, state, other)
            .filter(|it| !is_deleting(it) && !is_available(it) && !is_excluded(it));
        known.is_some_and(|it| it["spec"]["className"] == new["spec"]["className"])
            // An outdated list may have hidden it until a moment ago.
            && is_known_for(moment, state, &binding_ref(other), MINUTE)
            && was_unready_since(moment, other, since)
    };
    let unready = namespaces.filter(is_unready).count() as u64;
    if unready < limit {
        return Ok(());
    }
    Err(format!(
        "{} is brought to generation {} of its class, while {unready} other namespaces are unready and {limit} may be",
        change.object, class["metadata"]["generation"]
    ))
}

/// Returns whether the binding of a namespace has been unready with its class, without being deleted, for all the time since.
fn was_unready_since(moment: &Moment<'_>, namespace: &str, since: Duration) -> bool {
    let versions = moment.history.versions_since(&binding_ref(namespace), since);
    let Some(last) = versions.last().and_then(|version| version.object.as_deref()) else { return false };
    versions.first().is_some_and(|first| first.at <= since)
        && versions.iter().all(|version| {
            version.object.as_deref().is_some_and(|it| {
                !is_available(it)
                    && !is_excluded(it)
                    && !is_deleting(it)
                    && it["spec"]["className"] == last["spec"]["className"]
            })
        })
}
