//! What `spec.paused` and `spec.rollout` of a service promise.

use std::sync::Arc;

use lockstep_dpuservice::names::{self, APPLIED};
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::machine::Step;
use lockstep_engine::object::{Name, ObjectRef, annotation, is_deleting, metadata};
use lockstep_external::argocd::repeated;
use lockstep_sim::cluster::What;
use lockstep_sim::history::{ProcessState, reference};
use lockstep_sim::invariant::Moment;
use serde_json::{Value, json};

use super::super::identity;
use super::super::setup::cluster_ref;
use super::past::was_leaving;

/// Returns an object, if the process has been told of its present generation.
fn known<'a>(moment: &'a Moment<'_>, state: &ProcessState, target: &ObjectRef) -> Option<&'a Value> {
    let (current, known) = (moment.server.object(target)?, state.observed.get(target)?);
    let is_current = ["uid", "generation"].iter().all(|it| known["metadata"][it] == current["metadata"][it]);
    (is_current && !is_deleting(current)).then_some(&**current)
}

/// Returns an object, if the process has been told of its present state.
pub(super) fn known_state<'a>(
    moment: &'a Moment<'_>,
    state: &ProcessState,
    target: &ObjectRef,
) -> Option<&'a Value> {
    let (current, known) = (moment.server.object(target)?, state.observed.get(target)?);
    (known["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]).then_some(&**current)
}

/// Returns the object that an action leaves, as far as the action shows it: the manifest, or the Application that it changes.
fn subject<'a>(moment: &'a Moment<'_>, action: &'a Action) -> Option<&'a Value> {
    match action {
        Action::Kube(KubeRequest::Create { manifest, .. } | KubeRequest::Apply { manifest, .. }) => {
            Some(manifest)
        }
        Action::Kube(KubeRequest::Patch { target, .. } | KubeRequest::Delete { target, .. }) => {
            moment.server.object(target).map(|it| &**it)
        }
        _ => None,
    }
}

pub(super) fn a_paused_service_changes_nothing(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for request in &step.requests {
        let Some(target) = request.action.target().filter(|target| target.kind == names::application())
        else {
            continue;
        };
        let is_going = moment.server.object(target).is_some_and(|it| is_deleting(it));
        let of = subject(moment, &request.action).and_then(identity::of_application);
        let Some((service, cluster)) = of.filter(|_| !is_going) else { continue };
        let service = known(moment, state, &service.object(&names::service()));
        let is_paused = service.is_some_and(|service| service["spec"]["paused"] == true);
        if is_paused && !was_leaving(moment, &cluster_ref(&cluster)) {
            return Err(format!("{} of {target}, though its service is paused", request.action.name()));
        }
    }
    Ok(())
}

/// Returns how many clusters of a service may be not ready at a time.
pub(super) fn limit(service: &Value, clusters: u64) -> Option<u64> {
    let limit = &service["spec"]["rollout"]["maxUnavailable"];
    let percent = limit.as_str().and_then(|percent| percent.strip_suffix('%')?.parse::<u64>().ok());
    Some(limit.as_u64().or_else(|| Some(clusters * percent? / 100))?.max(1))
}

/// Returns the cluster of an Application, if the process has been told of its present state.
fn known_cluster<'a>(moment: &'a Moment<'_>, state: &ProcessState, application: &Value) -> Option<&'a Value> {
    let (_, cluster) = identity::of_application(application)?;
    known_state(moment, state, &cluster_ref(&cluster))
}

/// Returns whether an Application on a ready cluster may work, as far as Argo CD knows: its workloads are not reported as failing, and
/// neither is its last sync. It may work as well if Argo CD can't compare it.
fn may_work(cluster: &Value, application: &Value) -> bool {
    let operation = &application["status"]["operationState"];
    let has_failed = match operation["phase"].as_str() {
        Some("Failed" | "Error") => true,
        Some("Running") => operation["retryCount"].as_u64().is_some_and(|retries| retries > 0),
        _ => false,
    };
    let health = application["status"]["health"]["status"].as_str();
    cluster["status"]["phase"] == "Ready" && matches!(health, Some("Healthy" | "Unknown")) && !has_failed
}

/// Returns whether Argo CD reports the present source of an Application as synced and healthy, on a cluster that is ready.
fn is_well(cluster: &Value, application: &Value) -> bool {
    let status = &application["status"];
    let (compared, source) =
        (&status["sync"]["comparedTo"]["source"], repeated(&application["spec"]["source"]));
    cluster["status"]["phase"] == "Ready"
        && status["sync"]["status"] == "Synced"
        && status["health"]["status"] == "Healthy"
        && *compared == source
}

/// A working Application of a ready cluster that gets another version or other values.
struct Changed<'a> {
    target: &'a ObjectRef,
    service: Name,
    cluster: Name,
    source: &'a Value,
}

/// Returns which working Applications a step changes on ready clusters.
fn changed<'a>(moment: &Moment<'_>, state: &ProcessState, step: &'a Step) -> Vec<Changed<'a>> {
    let mut changed = Vec::new();
    for request in &step.requests {
        let Action::Kube(KubeRequest::Apply { target, manifest }) = &request.action else { continue };
        let before = known_state(moment, state, target).filter(|_| target.kind == names::application());
        let Some((before, (service, cluster))) = before.zip(identity::of_application(manifest)) else {
            continue;
        };
        // Repairs, new Applications and moves to another server are not limited.
        let was_applied =
            annotation(before, APPLIED).is_some_and(|it| annotation(manifest, APPLIED) != Some(it));
        let stays = before["spec"]["destination"] == manifest["spec"]["destination"];
        let did_work = known_cluster(moment, state, before).is_some_and(|cluster| may_work(cluster, before));
        if was_applied && stays && did_work && before["spec"]["source"] != manifest["spec"]["source"] {
            changed.push(Changed { target, service, cluster, source: &manifest["spec"]["source"] });
        }
    }
    changed
}

pub(super) fn canaries_are_changed_first(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    for Changed { target, service, cluster, source } in changed(moment, state, step) {
        let Some(spec) = known(moment, state, &service.object(&names::service())) else { continue };
        let Some(canaries) = spec["spec"]["rollout"]["canaries"].as_array() else { continue };
        let is_canary =
            |cluster: &Name| canaries.contains(&json!(format!("{}/{}", cluster.namespace, cluster.name)));
        let is_unproven = |application: &&Arc<Value>| {
            let of = identity::of_application(application);
            of.is_some_and(|(of, cluster)| of == service && is_canary(&cluster))
                && known_state(moment, state, &reference(&names::application(), application)).is_some()
                && !is_deleting(application)
                && known_cluster(moment, state, application).is_some_and(|it| {
                    let has_change = application["spec"]["source"] == *source && is_well(it, application);
                    !has_change && !is_deleting(it)
                })
        };
        let applications = moment.server.objects(&names::application());
        let unproven = applications.iter().find(is_unproven).filter(|_| !is_canary(&cluster));
        if let Some(unproven) = unproven {
            let unproven = metadata(unproven, "name");
            return Err(format!("{target} is changed before the canary {unproven} of its service is ready"));
        }
    }
    Ok(())
}

pub(super) fn a_rollout_keeps_its_limit(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    let changed = changed(moment, state, step);
    let Some(Changed { target, service, source, .. }) = changed.first() else { return Ok(()) };
    let of_service = changed.iter().filter(|it| it.service == *service).count() as u64;
    let Some(spec) = known(moment, state, &service.object(&names::service())) else { return Ok(()) };
    let observed = state.observed.iter();
    let clusters =
        observed.filter(|(target, it)| target.kind == names::dpu_cluster() && !is_deleting(it)).count();
    let existing = moment.server.objects(&names::dpu_cluster()).len();
    let Some(limit) = limit(spec, clusters.max(existing) as u64) else { return Ok(()) };
    let is_in_change = |application: &Value| {
        let other = reference(&names::application(), application);
        identity::of_application(application).is_some_and(|(of, _)| of == *service)
            && changed.iter().all(|it| *it.target != other)
            && known_state(moment, state, &other).is_some()
            && application["spec"]["source"] == **source
            && !is_deleting(application)
            && known_cluster(moment, state, application)
                .is_some_and(|it| !is_deleting(it) && !is_well(it, application))
    };
    let in_change = moment.server.objects(&names::application()).iter().filter(|it| is_in_change(it)).count();
    if in_change as u64 + of_service <= limit {
        return Ok(());
    }
    Err(format!(
        "{of_service} ready clusters of {service} are changed with {target}, while {in_change} are in change and {limit} may be"
    ))
}
