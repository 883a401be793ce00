//! Statements in the status of a service must be true.

use lockstep_dpuservice::names;
use lockstep_engine::object::{Name, ObjectRef, is_deleting};
use lockstep_external::dpu_clusters::release;
use lockstep_sim::cluster::Change;
use lockstep_sim::conditions;
use lockstep_sim::history::reference;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

use super::super::identity;
use super::past::{STALE, was_leaving};

/// Returns a service for which a process has just set a condition to True, or has kept it True for another generation.
fn newly_reported<'a>(moment: &'a Moment<'_>, condition: &str) -> Option<(usize, &'a ObjectRef, &'a Value)> {
    let (process, Change { object, old: Some(old), new: Some(new), .. }) = moment.entry.by_process()? else {
        return None;
    };
    let reported = |object: &Value| {
        conditions::is(object, condition, "True").then(|| object["status"]["observedGeneration"].clone())
    };
    (object.kind == names::service() && reported(new).is_some() && reported(old) != reported(new))
        .then_some((process, object, &**new))
}

/// Checks that on each remaining cluster the Application of a service matched at some time that a process may still see as
/// current. Returns the first cluster for which it did not.
fn everywhere(
    moment: &Moment<'_>,
    process: usize,
    service: &Value,
    is_so: impl Fn(&Value) -> bool,
) -> Option<String> {
    let state = moment.history.process(process)?;
    let clusters = state.observed.iter().filter(|(target, cluster)| {
        target.kind == names::dpu_cluster() && !is_deleting(cluster) && !was_leaving(moment, target)
    });
    let (name, kind) = (Name::of(service), names::application());
    let since = moment.entry.at.saturating_sub(STALE);
    for (_, cluster) in clusters {
        let made_for = (name.clone(), Name::of(cluster));
        let mut made = moment
            .history
            .objects(&kind)
            .filter(|object| identity::of_application(object).as_ref() == Some(&made_for))
            .map(|object| reference(&kind, object));
        let was_so = made.any(|target| {
            let versions = moment.history.versions(&target);
            let ends = versions.iter().skip(1).map(|next| next.at).chain([moment.entry.at]);
            versions
                .iter()
                .zip(ends)
                .any(|(version, end)| end >= since && version.object.as_deref().is_some_and(&is_so))
        });
        if !was_so {
            return Some(Name::of(cluster).to_string());
        }
    }
    None
}

/// Returns the version that a service requests, if its status is up to date.
fn reported_version(service: &Value) -> Option<&Value> {
    let is_current = service["status"]["observedGeneration"] == service["metadata"]["generation"];
    is_current.then(|| &service["spec"]["source"]["version"])
}

fn is_of(application: &Value, version: Option<&Value>) -> bool {
    version.is_none_or(|version| application["spec"]["source"]["targetRevision"] == *version)
}

pub(super) fn reconciled_means_written(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, object, new)) = newly_reported(moment, "ApplicationsReconciled") else {
        return Ok(());
    };
    let version = reported_version(new);
    match everywhere(moment, process, new, |application| is_of(application, version)) {
        Some(cluster) => {
            Err(format!("the Applications of {object} are said to be as it says, but not that on {cluster}"))
        }
        None => Ok(()),
    }
}

pub(super) fn ready_means_deployed(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, object, new)) = newly_reported(moment, "Ready") else { return Ok(()) };
    let version = reported_version(new);
    match everywhere(moment, process, new, |application| is_well(application) && is_of(application, version))
    {
        Some(cluster) => Err(format!("{object} is called Ready, and on {cluster} Argo CD has not said so")),
        None => Ok(()),
    }
}

fn is_well(application: &Value) -> bool {
    let status = &application["status"];
    status["sync"]["status"] == "Synced" && status["health"]["status"] == "Healthy" && !is_failed(application)
}

/// Returns whether the last operation failed and was for the wanted version. A sync of single objects runs no hooks.
fn is_failed(application: &Value) -> bool {
    let state = &application["status"]["operationState"];
    let (source, wanted) = (&state["syncResult"]["source"], &application["spec"]["source"]);
    let is_partial = state["operation"]["sync"]["resources"].is_array();
    let has_failed = match state["phase"].as_str() {
        Some("Failed" | "Error") => true,
        // While Argo CD retries it, it has no field for the version.
        Some("Running") if source.is_null() => return state["retryCount"].is_u64(),
        Some("Running") => state["retryCount"].is_u64(),
        _ => false,
    };
    !is_partial
        && has_failed
        && ["targetRevision", "chart"].iter().all(|field| source[*field] == wanted[*field])
        && source["helm"]["valuesObject"][release::FAILING_HOOK]
            == wanted["helm"]["valuesObject"][release::FAILING_HOOK]
}
