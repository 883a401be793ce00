//! The next missing write, and the time of the next reconcile.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::Action;
use lockstep_engine::driver::Verdict;

use super::{ManagedObject, ReconcileProgress};
use crate::names::condition;
use crate::prerequisites::{self, Resolution};
use crate::source::Source;
use crate::view::{BridgeSnapshot, OwnedObject};
use crate::{address, dpucluster, hosted_cluster, kubeconfig, readiness, status};

/// Returns the next write toward the desired state. Nothing is created or changed for a bridge whose DPUCluster is not valid.
pub(super) fn next_write(
    view: &BridgeSnapshot<'_>,
    pass: &ReconcileProgress,
) -> Option<(ManagedObject, Action)> {
    view.dpu_cluster()?;
    let unmet = status::unmet(view, pass);
    let is_free = |part: ManagedObject| !pass.written.contains(&part) && pass.failure(part).is_none();
    let write = |part: ManagedObject, write: Option<Action>| {
        write.filter(|_| is_free(part)).map(|write| (part, write))
    };
    // A spec that changes during the pass may name another image than the one that the registry was queried for.
    let was_asked = prerequisites::may_give_image(view);
    let may_change = match view.hosted_cluster() {
        // Its deletion is reported before it is re-created.
        OwnedObject::Absent => was_asked && unmet.is_empty() && !hosted_cluster::existed(view.bridge),
        OwnedObject::Ours(_) => was_asked && unmet.iter().all(|unmet| unmet.remedy == Resolution::Retry),
        OwnedObject::Unknown(_) | OwnedObject::Foreign | OwnedObject::Going => return None,
    };
    if may_change && let Some(write) = write(ManagedObject::HostedCluster, hosted_cluster::write(view)) {
        return Some(write);
    }
    view.hosted_cluster().ours()?;
    let has_room = matches!(view.node_pool(), OwnedObject::Absent | OwnedObject::Ours(_));
    if may_change
        && has_room
        && let Some(write) = write(ManagedObject::NodePool, hosted_cluster::write_node_pool(view))
    {
        return Some(write);
    }
    write(ManagedObject::Service, address::write(view))
        .or_else(|| write(ManagedObject::DpuCluster, kubeconfig::write(view)))
}

/// Returns when the bridge must be reconciled again although no event arrives ("Requeue Strategy").
pub(super) fn verdict(view: &BridgeSnapshot<'_>, pass: &ReconcileProgress) -> Verdict {
    if let Some((part, failure)) = pass.failures.first() {
        return dpucluster::retry(format!("{}: {failure}", part.title()), failure);
    }
    if let Err(failure) = view.dpu_cluster {
        return dpucluster::retry(format!("reading the DPUCluster: {failure}"), failure);
    }
    // The watch that would show its creation is refused.
    if let (Ok(None), Some(failure)) = (view.dpu_cluster, view.world.refusal(Source::DpuClusters)) {
        return dpucluster::retry(format!("watching DPUClusters: {failure}"), failure);
    }
    let is_created = view.hosted_cluster().ours();
    let is = |name: &str, holds: fn(&Condition) -> bool| view.bridge.condition(name).is_some_and(holds);
    let is_waiting = !is(condition::PROVISIONED, |provisioned| provisioned.status == "True")
        && is(condition::READY, |ready| readiness::is_waiting(&ready.reason));
    let mut delays: Vec<Duration> = Vec::new();
    if prerequisites::image_matters(view) {
        delays.extend(view.checked_image().and_then(|checked| checked.pause(view.now.monotonic)));
    }
    if let (Some(cluster), true) = (is_created, is_waiting) {
        delays.push(readiness::remaining(cluster, view.now));
    }
    delays.extend(address::again_after(view));
    delays.extend(address::look_again_after(view));
    let next = delays.into_iter().filter(|delay| !delay.is_zero()).min();
    next.map_or(Verdict::Converged, Verdict::Requeue)
}
