//! Every pass evaluates all conditions again, even if some kinds can't be watched.

use std::sync::Arc;
use std::time::Duration;

use lockstep_bridge::model::service;
use lockstep_bridge::names::{self, condition, control_plane_namespace, reason};
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting};
use lockstep_external::hypershift;
use lockstep_sim::cluster::Change;
use lockstep_sim::conditions;
use lockstep_sim::crds;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use crate::passes::{first, successful};

pub(super) fn no_condition_freezes(moment: &Moment<'_>) -> Result<(), String> {
    first(successful(moment).filter_map(|pass| pass.frozen(|_| true)))
}

pub(super) fn what_cannot_be_watched_is_unknown(moment: &Moment<'_>) -> Result<(), String> {
    let of_clusters = [
        condition::HOSTED_CLUSTER_CREATED,
        condition::HOSTED_CLUSTER_AVAILABLE,
        condition::HOSTED_CLUSTER_PROGRESSING,
        condition::HOSTED_CLUSTER_DEGRADED,
    ];
    let table =
        [(names::hosted_cluster(), &of_clusters[..]), (names::node_pool(), &[condition::NODE_POOL_READY])];
    first(successful(moment).filter_map(|pass| {
        let refused =
            table.iter().filter(|(kind, _)| pass.is_refused(kind) && !was_uninstalled(moment, kind));
        let conditions = refused.flat_map(|(_, conditions)| conditions.iter());
        let mut known = conditions.filter_map(|name| pass.condition(name));
        let known = known.find(|known| known["reason"] != reason::WATCH_FAILED)?;
        Some(format!("{} of {} is {}, and can't be known", known["type"], pass.object, known["reason"]))
    }))
}

/// Returns whether a kind is not served, or was not a while ago. Then it is known that it has no objects.
fn was_uninstalled(moment: &Moment<'_>, kind: &Kind) -> bool {
    let since = moment.entry.at.saturating_sub(REPORTED);
    let mut versions = moment.history.versions_since(&crds::of(kind), since).iter();
    !crds::is_served(moment.server, kind)
        || versions.any(|version| version.object.as_deref().is_none_or(is_deleting))
}

/// A watch that has worked must be refused three times in a row before that is reported. Each may be late by two minutes.
const REPORTED: Duration = Duration::from_mins(7);

pub(super) fn unwatchable_bridges_are_reported(moment: &Moment<'_>) -> Result<(), String> {
    let kind = names::bridge();
    first(successful(moment).filter_map(|pass| {
        let since = *pass.state.refused.get(&kind)?;
        let is_old = since + REPORTED <= pass.began && pass.is_refused(&kind);
        let mut reports = [condition::PREREQUISITES_MET, condition::SPEC_APPLIED].into_iter();
        let report = reports.find(|name| pass.condition(name).is_some_and(|it| it["status"] == "True"))?;
        is_old.then(|| format!("{report} of {} is True, and bridges can't be watched", pass.object))
    }))
}

pub(super) fn a_lost_dpucluster_is_reported(moment: &Moment<'_>) -> Result<(), String> {
    let kind = names::dpu_cluster();
    first(successful(moment).filter_map(|pass| {
        let field = |field: &str| pass.observed["spec"]["dpuClusterRef"][field].as_str();
        let named = ObjectRef::namespaced(&kind, field("namespace")?, field("name")?);
        let (gone, _) = pass.state.previous.get(&named)?;
        let is_lost = !pass.state.observed.contains_key(&named) && *gone <= pass.began;
        let is_valid = pass.condition(condition::DPU_CLUSTER_VALID)?["status"] == "True";
        (is_lost && is_valid && !pass.state.refused.contains_key(&kind))
            .then(|| format!("{} is gone, and {} calls it valid", named, pass.object))
    }))
}

pub(super) fn all_met_means_checked(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, old: Some(old), new: Some(new), .. })) = moment.entry.by_process()
    else {
        return Ok(());
    };
    let says = |bridge: &Value| conditions::is_because(bridge, condition::PREREQUISITES_MET, reason::ALL_MET);
    // The status may refer to an earlier spec.
    let is_current = new["status"]["observedGeneration"] == new["metadata"]["generation"];
    let image = new["spec"]["ocpReleaseImage"].as_str().unwrap_or_default();
    let is_checked = says(old) || !says(new) || !is_current || moment.history.images.contains(image);
    if object.kind != names::bridge() || is_checked {
        return Ok(());
    }
    let cluster = ObjectRef { kind: names::hosted_cluster(), ..object.clone() };
    let mut states = moment.history.states_of_sender(process, moment.entry.at);
    let is_complete = |cluster: &Arc<Value>| hypershift::has_completed(cluster, image);
    if states.any(|state| state.observed.get(&cluster).is_some_and(is_complete)) {
        return Ok(());
    }
    Err(format!("{object} lacks nothing, and no registry was found to have {image}"))
}

/// Longer than a pass with its requests takes.
pub(super) const STALE: Duration = Duration::from_mins(5);

/// Returns whether an object matched at any time in the last minutes.
pub(super) fn was(moment: &Moment<'_>, object: &ObjectRef, is_so: impl Fn(&Value) -> bool) -> bool {
    let versions = moment.history.versions(object);
    let ends = versions.iter().skip(1).map(|next| next.at).chain([moment.entry.at]);
    let since = moment.entry.at.saturating_sub(STALE);
    let mut recent = versions.iter().zip(ends).filter(|(_, end)| *end >= since);
    recent.any(|(version, _)| version.object.as_deref().is_some_and(&is_so))
}

/// Returns whether the Service of a bridge has the address in the bridge's API endpoint, both on the server and in the view of
/// the process, without a recent change.
pub(super) fn is_reachable(moment: &Moment<'_>, process: usize, bridge: &Value) -> bool {
    let namespace = control_plane_namespace(&Name::of(bridge));
    let service = ObjectRef::namespaced(&names::service(), &namespace, names::API_SERVICE);
    let endpoint = bridge["status"]["apiEndpoint"].as_str();
    let lacks_it = |service: &Value| {
        !service::assigned(service).any(|address| endpoint == Some(&format!("https://{address}:6443")))
    };
    let Some(state) = moment.history.process(process) else { return false };
    // A watch that lists an older state may have hidden it for a moment.
    let since = moment.entry.at.saturating_sub(STALE);
    let is_observed = state.observed.get(&service).is_some_and(|service| !lacks_it(service))
        && state.previous.get(&service).is_none_or(|(until, _)| *until < since);
    is_observed && !was(moment, &service, lacks_it)
}

/// Returns the HostedCluster of a bridge that a process has changed, with the old and the new state of the bridge.
fn cluster_of<'a>(moment: &'a Moment<'_>) -> Option<(ObjectRef, &'a Value, &'a Value)> {
    let (_, Change { object, old: Some(old), new: Some(new), .. }) = moment.entry.by_process()? else {
        return None;
    };
    let namespace = object.namespace.as_deref().filter(|_| object.kind == names::bridge())?;
    Some((ObjectRef::namespaced(&names::hosted_cluster(), namespace, &object.name), old, new))
}

pub(super) fn ready_means_healthy(moment: &Moment<'_>) -> Result<(), String> {
    let Some((cluster, old, new)) = cluster_of(moment) else { return Ok(()) };
    let image = &new["spec"]["ocpReleaseImage"];
    let is_excused = |cluster: &Value| {
        let status = &cluster["status"];
        // An older HyperShift reports only the versions of the whole cluster.
        let [of_control_plane, of_all] =
            ["controlPlaneVersion", "version"].map(|field| &status[field]["history"][0]["state"]);
        let newest = if of_control_plane.is_null() { of_all } else { of_control_plane };
        !conditions::is(cluster, "Degraded", "True") || newest != "Completed"
    };
    let pool = ObjectRef { kind: names::node_pool(), ..cluster.clone() };
    let is_upgraded = || was(moment, &pool, |pool| pool["spec"]["release"]["image"] != *image);
    let becomes_ready =
        !conditions::is(old, condition::READY, "True") && conditions::is(new, condition::READY, "True");
    if !becomes_ready || was(moment, &cluster, is_excused) || is_upgraded() {
        return Ok(());
    }
    Err(format!("{cluster} is Degraded, and its bridge is called Ready"))
}

pub(super) fn ingress_follows_the_nodes(moment: &Moment<'_>) -> Result<(), String> {
    let Some((cluster, old, new)) = cluster_of(moment) else { return Ok(()) };
    let is_given = old["status"]["ingressEndpoint"].is_null() && !new["status"]["ingressEndpoint"].is_null();
    let is_complete = |cluster: &Value| {
        let mut history = cluster["status"]["version"]["history"].as_array().into_iter().flatten();
        history.any(|entry| entry["state"] == "Completed")
    };
    if !is_given || was(moment, &cluster, is_complete) {
        return Ok(());
    }
    Err(format!("no version of {cluster} is complete, and its ingress endpoint is given"))
}
