//! The time limit of a new cluster.

use jiff::{SignedDuration, Timestamp};
use lockstep_bridge::names::{self, condition, reason};
use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_sim::cluster::What;
use lockstep_sim::conditions;
use lockstep_sim::invariant::Moment;
use serde_json::Value;

const LIMIT: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn timed_out_means_an_hour(moment: &Moment<'_>) -> Result<(), String> {
    let What::Stepped { process, now, step, .. } = &moment.entry.what else { return Ok(()) };
    let Some(state) = moment.history.process(*process) else { return Ok(()) };
    let says = |bridge: &Value| conditions::is_because(bridge, condition::PROVISIONED, reason::TIMED_OUT);
    for request in &step.requests {
        let Action::Kube(KubeRequest::Patch { target, patch, .. }) = &request.action else { continue };
        if target.kind != names::bridge() || !says(patch) {
            continue;
        }
        // It stays, even if the cluster can't be observed any more.
        let is_repeated = state.observed.get(target).is_some_and(|bridge| says(bridge));
        let cluster = ObjectRef { kind: names::hosted_cluster(), ..target.clone() };
        // An answer may have shown it before the watch.
        let cluster = state.observed.get(&cluster).or_else(|| moment.server.object(&cluster));
        let created = cluster.map(|cluster| metadata(cluster, "creationTimestamp"));
        let created = created.and_then(|created| created.parse::<Timestamp>().ok());
        let age = created.map_or(SignedDuration::ZERO, |it| now.wall.timestamp().duration_since(it));
        if !is_repeated && age < LIMIT {
            return Err(format!("{target} is called TimedOut, and its cluster has existed for {age:#}"));
        }
    }
    Ok(())
}
