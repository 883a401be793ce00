//! The next missing write, and the time of the next reconcile.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::Action;
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::time::Monotonic;

use super::progress::ReconcileProgress;
use crate::checks::unmet::Resolution;
use crate::checks::{self, contested, namespace, readiness, release_image, vip};
use crate::desired::{address, encryption_key, hosted_cluster, kubeconfig, node_pool, own_pool};
use crate::model::image::Checked;
use crate::model::managed_object::{ManagedObject, Written};
use crate::model::secret::SecretRole;
use crate::model::source::Source;
use crate::names::condition;
use crate::snapshot::{BridgeSnapshot, KeyState, OwnedObject};
use crate::{retry, status};

/// Returns the next write toward the desired state. Nothing is created or changed for a bridge whose DPUCluster is not valid. Stores
/// when the first of the writes is due that wait because another client changes their objects.
pub fn next_write(
    snapshot: &BridgeSnapshot<'_>,
    progress: &ReconcileProgress,
    postponed: &mut Option<Monotonic>,
) -> Option<(Written, Action)> {
    snapshot.dpu_cluster()?;
    let unmet = status::unmet(snapshot);
    let is_free =
        |object: ManagedObject| !progress.written.contains(&object) && snapshot.failure(object).is_none();
    let mut write = |object: ManagedObject, write: Option<Action>| {
        let write = write.filter(|_| is_free(object))?;
        let written = Written::of(object, &write);
        if let Some(due) = snapshot.repair_due(&written) {
            *postponed = postponed.iter().copied().chain([due]).min();
            return None;
        }
        Some((written, write))
    };
    // A spec that changes during the pass may name another image than the one that the registry was queried for.
    let was_asked = release_image::may_give_image(snapshot);
    let may_change = match snapshot.hosted_cluster() {
        // Its deletion is reported before it is re-created. One that is deleted during the pass has left a namespace that was not
        // read.
        OwnedObject::Absent => {
            was_asked
                && unmet.is_empty()
                && snapshot.namespace().is_some()
                && !checks::hosted_cluster::existed(snapshot.bridge)
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

/// Returns when the bridge must be reconciled again although no event arrives ("Requeue Strategy"), after a pass that began at this
/// instant.
pub fn verdict(snapshot: &BridgeSnapshot<'_>, progress: &ReconcileProgress) -> Verdict {
    let began = progress.began;
    if let Some((object, failure)) = snapshot.failures.first() {
        return retry::after(format!("{}: {failure}", object.title()), failure);
    }
    if let Err(failure) = snapshot.dpu_cluster {
        return retry::after(format!("reading the DPUCluster: {failure}"), failure);
    }
    if let Some(Err(failure)) = snapshot.namespace() {
        return retry::after(format!("reading the namespace of the control plane: {failure}"), failure);
    }
    // The watch that would show its creation is refused.
    if let (Ok(None), Some(failure)) = (snapshot.dpu_cluster, snapshot.store.refusal(Source::DpuClusters)) {
        return retry::after(format!("watching DPUClusters: {failure}"), failure);
    }
    let is_created = snapshot.hosted_cluster().ours();
    let is = |name: &str, holds: fn(&Condition) -> bool| snapshot.bridge.condition(name).is_some_and(holds);
    let is_waiting = !is(condition::PROVISIONED, |provisioned| provisioned.status == "True")
        && is(condition::READY, |ready| readiness::is_waiting(&ready.reason));
    let mut instants: Vec<Monotonic> = Vec::new();
    if release_image::image_matters(snapshot) {
        instants.extend(snapshot.checked_image().and_then(Checked::retry_at));
    }
    if vip::check(snapshot).is_none() {
        instants.extend(address::again_at(snapshot));
    }
    // An instant that has passed during the pass is due at once. One that had passed before was no reason to act, for example
    // because there is no pull secret; an event will be.
    let ahead = instants.into_iter().filter(|at| *at > began);
    let mut delays: Vec<Duration> = ahead.map(|at| at.since(snapshot.now.monotonic)).collect();
    if let (Some(cluster), true) = (is_created, is_waiting) {
        // The status of this moment already reports a limit that has passed.
        delays.extend(Some(readiness::remaining(cluster, snapshot.now)).filter(|delay| !delay.is_zero()));
    }
    let copies = SecretRole::ALL.into_iter().filter_map(|role| snapshot.copy_due(role));
    let postponed = progress.postponed.into_iter().chain(copies);
    delays.extend(postponed.map(|due| due.since(snapshot.now.monotonic)));
    delays.extend(contested::reported_for(snapshot));
    delays.extend(readiness::rollout_remaining(snapshot));
    delays.extend(address::look_again_after(snapshot));
    delays.extend(namespace::look_again_after(snapshot));
    delays.into_iter().min().map_or(Verdict::Converged, Verdict::Requeue)
}

#[cfg(test)]
mod tests {
    use lockstep_engine::action::{ErrorKind, Failure};
    use lockstep_engine::object::Name;
    use serde_json::json;

    use super::*;
    use crate::fixture::{ADDRESS, Fixture, NOW};
    use crate::model::address_request::AddressRequest;
    use crate::names::REQUESTED_IPS;

    fn at(seconds: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(seconds)
    }

    /// Returns when the bridge is reconciled again, in seconds, after a pass that took from one second to another.
    fn again(fixture: &Fixture, began: u64, ended: u64) -> Option<u64> {
        let mut snapshot = fixture.snapshot();
        snapshot.now.monotonic = at(ended);
        let progress = ReconcileProgress { began: at(began), ..ReconcileProgress::default() };
        match verdict(&snapshot, &progress) {
            Verdict::Converged => None,
            Verdict::Requeue(delay) => Some(delay.as_secs()),
            retry @ Verdict::Retry { .. } => panic!("{retry:?}"),
        }
    }

    /// The registry is due after a minute. What was due before the pass began could not be done in it, and must not be repeated
    /// at once.
    #[test]
    fn a_query_that_becomes_due_during_a_pass_is_made_in_the_next() {
        let mut fixture = Fixture::new(&json!({}));
        let silence = Err(Failure::new(ErrorKind::Unavailable, "no answer"));
        fixture.memory.image = Some(Checked::take(None, "image", "1".to_owned(), silence, at(0)));
        for (began, ended, expected) in
            [(0, 20, Some(40)), (59, 60, Some(0)), (59, 61, Some(0)), (60, 60, None), (60, 61, None)]
        {
            assert_eq!(again(&fixture, began, ended), expected, "{began} to {ended}");
        }
    }

    /// The pass that makes a request makes no further one.
    #[test]
    fn a_request_for_an_address_that_becomes_due_during_a_pass_is_repeated_in_the_next() {
        let mut fixture = Fixture::new(&json!({}));
        fixture.cluster(NOW, &json!({})).service(&[], &json!({ REQUESTED_IPS[0]: ADDRESS }));
        let pool =
            json!({ "spec": { "addresses": [format!("{ADDRESS}/32")] }, "status": { "availableIPv4": 1 } });
        fixture.see(Source::Pools, &Name::new("metallb-system", "vips"), pool);
        assert!(vip::check(&fixture.snapshot()).is_none());
        let address = ADDRESS.parse().expect("an address");
        fixture.memory.asked = Some(AddressRequest::after(None, address, at(0)));
        for (began, ended, expected) in
            [(0, 20, Some(10)), (0, 30, Some(0)), (0, 90, Some(0)), (30, 31, None)]
        {
            assert_eq!(again(&fixture, began, ended), expected, "{began} to {ended}");
        }
    }
}
