//! The next missing write, and the time of the next reconcile.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::Action;
use lockstep_engine::driver::Verdict;

use super::progress::ReconcileProgress;
use crate::checks::unmet::Resolution;
use crate::checks::{self, readiness, release_image, vip};
use crate::desired::{address, encryption_key, hosted_cluster, kubeconfig, node_pool, own_pool};
use crate::model::managed_object::ManagedObject;
use crate::model::source::Source;
use crate::names::condition;
use crate::snapshot::{BridgeSnapshot, KeyState, OwnedObject};
use crate::{retry, status};

/// Returns the next write toward the desired state. Nothing is created or changed for a bridge whose DPUCluster is not valid.
pub fn next_write(
    snapshot: &BridgeSnapshot<'_>,
    progress: &ReconcileProgress,
) -> Option<(ManagedObject, Action)> {
    snapshot.dpu_cluster()?;
    let unmet = status::unmet(snapshot);
    let is_free =
        |object: ManagedObject| !progress.written.contains(&object) && snapshot.failure(object).is_none();
    let write = |object: ManagedObject, write: Option<Action>| {
        write.filter(|_| is_free(object)).map(|write| (object, write))
    };
    // A spec that changes during the pass may name another image than the one that the registry was queried for.
    let was_asked = release_image::may_give_image(snapshot);
    let may_change = match snapshot.hosted_cluster() {
        // Its deletion is reported before it is re-created.
        OwnedObject::Absent => {
            was_asked && unmet.is_empty() && !checks::hosted_cluster::existed(snapshot.bridge)
        }
        OwnedObject::Ours(_) => was_asked && unmet.iter().all(|unmet| unmet.remedy == Resolution::Retry),
        OwnedObject::Unknown(_) | OwnedObject::Foreign | OwnedObject::Going => return None,
    };
    let is_new = matches!(snapshot.hosted_cluster(), OwnedObject::Absent);
    let may_write_pool = if is_new { may_change } else { vip::check(snapshot).is_none() };
    if may_write_pool
        && let Some(write) = write(ManagedObject::Pool, own_pool::pool(snapshot))
            .or_else(|| write(ManagedObject::Advertisement, own_pool::advertisement(snapshot)))
    {
        return Some(write);
    }
    if is_new && let Some(state) = snapshot.encryption_key().filter(|state| *state != KeyState::Usable) {
        let may_generate = may_change && progress.lacks_key && state == KeyState::Missing;
        return may_generate
            .then(|| write(ManagedObject::EncryptionKey, Some(encryption_key::create(snapshot))))
            .flatten();
    }
    if may_change && let Some(write) = write(ManagedObject::HostedCluster, hosted_cluster::write(snapshot)) {
        return Some(write);
    }
    snapshot.hosted_cluster().ours()?;
    let has_room = matches!(snapshot.node_pool(), OwnedObject::Absent | OwnedObject::Ours(_));
    if may_change
        && has_room
        && let Some(write) = write(ManagedObject::NodePool, node_pool::write(snapshot))
    {
        return Some(write);
    }
    write(ManagedObject::Service, address::write(snapshot, vip::check(snapshot).is_none()))
        .or_else(|| write(ManagedObject::DpuCluster, kubeconfig::write(snapshot)))
}

/// Returns when the bridge must be reconciled again although no event arrives ("Requeue Strategy").
pub fn verdict(snapshot: &BridgeSnapshot<'_>) -> Verdict {
    if let Some((object, failure)) = snapshot.failures.first() {
        return retry::after(format!("{}: {failure}", object.title()), failure);
    }
    if let Err(failure) = snapshot.dpu_cluster {
        return retry::after(format!("reading the DPUCluster: {failure}"), failure);
    }
    // The watch that would show its creation is refused.
    if let (Ok(None), Some(failure)) = (snapshot.dpu_cluster, snapshot.store.refusal(Source::DpuClusters)) {
        return retry::after(format!("watching DPUClusters: {failure}"), failure);
    }
    let is_created = snapshot.hosted_cluster().ours();
    let is = |name: &str, holds: fn(&Condition) -> bool| snapshot.bridge.condition(name).is_some_and(holds);
    let is_waiting = !is(condition::PROVISIONED, |provisioned| provisioned.status == "True")
        && is(condition::READY, |ready| readiness::is_waiting(&ready.reason));
    let mut delays: Vec<Duration> = Vec::new();
    if release_image::image_matters(snapshot) {
        delays.extend(snapshot.checked_image().and_then(|checked| checked.pause(snapshot.now.monotonic)));
    }
    if let (Some(cluster), true) = (is_created, is_waiting) {
        delays.push(readiness::remaining(cluster, snapshot.now));
    }
    if vip::check(snapshot).is_none() {
        delays.extend(address::again_after(snapshot));
    }
    delays.extend(address::look_again_after(snapshot));
    let next = delays.into_iter().filter(|delay| !delay.is_zero()).min();
    next.map_or(Verdict::Converged, Verdict::Requeue)
}
