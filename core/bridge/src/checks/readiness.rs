//! Whether the hosted cluster works, and whether it ever has.
//!
//! Source: "Condition: Ready", "Phase Transition Rules".

use std::time::Duration;

use jiff::Timestamp;
use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::time::{Now, Wall};
use serde_json::Value;

use super::serving::{created_at, serves, was_ready};
use super::{encryption_key, exposure, upgrade};
use crate::model::hosted_cluster::has_endpoint;
use crate::model::hypershift::{condition as condition_of, describe, is};
use crate::model::rollout::{is_blocked, was_complete};
use crate::names::{condition, reason};
use crate::snapshot::{BridgeSnapshot, OwnedObject};

/// The time limit for a cluster to become ready for the first time.
pub const PROVISIONING_MAX: Duration = Duration::from_hours(1);

/// The time limit for a rollout of which HyperShift does not report the end.
const ROLLOUT_MAX: Duration = Duration::from_hours(1);

/// Returns the finding about `Ready`, from all others.
pub fn ready(snapshot: &BridgeSnapshot<'_>, findings: &[Finding]) -> Finding {
    // Unwatchable objects must not hide known obstacles.
    let is_known = |finding: &&Finding| finding.reason != reason::WATCH_FAILED;
    let find = |name: &str| findings.iter().filter(is_known).find(|finding| finding.condition == name);
    let unless = |name: &str, status: Status, reason: &'static str| {
        let finding = find(name).filter(|finding| finding.status != Status::True)?;
        Some((status, reason, finding.message.clone()))
    };
    let is_new =
        !matches!(snapshot.hosted_cluster(), OwnedObject::Ours(_)) && !snapshot.has_unwatchable_cluster();
    let is_invalid = find(condition::PREREQUISITES_MET).is_some_and(|it| it.reason == reason::INVALID);
    let has_lost_dpu_cluster = snapshot.connected_bridge().is_some();
    let prerequisites = || {
        // A running cluster no longer needs its prerequisites, except its DPUCluster: no DPU joins it without.
        (is_new || is_invalid || has_lost_dpu_cluster)
            .then(|| unless(condition::PREREQUISITES_MET, Status::False, reason::VALIDATION_FAILED))
            .flatten()
    };
    let creation = || {
        let finding = find(condition::HOSTED_CLUSTER_CREATED)?;
        match finding.status {
            Status::False if finding.reason == reason::CREATION_FAILED => {
                Some((Status::False, reason::VALIDATION_FAILED, finding.message.clone()))
            }
            Status::False => {
                Some((Status::False, reason::WAITING_FOR_CONTROL_PLANE, finding.message.clone()))
            }
            Status::Unknown => {
                Some((Status::Unknown, reason::WAITING_FOR_CONTROL_PLANE, finding.message.clone()))
            }
            Status::True => None,
        }
    };
    let injected = || {
        let finding = find(condition::KUBECONFIG_INJECTED)?;
        // A DPUCluster with a control plane that no bridge has created does not wait for ours.
        if finding.reason == reason::DPU_CLUSTER_HAS_ITS_OWN {
            return None;
        }
        unless(condition::KUBECONFIG_INJECTED, Status::False, reason::WAITING_FOR_INFRASTRUCTURE)
    };
    let exposure = || {
        // A cluster that is to get another address is still reachable at its current one, although that can't be requested.
        (!exposure::is_reached(snapshot))
            .then(|| {
                unless(condition::SERVICE_EXPOSURE_READY, Status::False, reason::WAITING_FOR_INFRASTRUCTURE)
            })
            .flatten()
    };
    let nodes = || {
        // Nodes that wait for a release do not prevent a cluster from working.
        let finding = find(condition::NODE_POOL_READY)?;
        (finding.reason != reason::RELEASE_PENDING)
            .then(|| unless(condition::NODE_POOL_READY, Status::False, reason::WAITING_FOR_INFRASTRUCTURE))
            .flatten()
    };
    let obstacle = unless(condition::DPU_CLUSTER_VALID, Status::False, reason::VALIDATION_FAILED)
        .or_else(prerequisites)
        .or_else(creation)
        .or_else(|| hung(snapshot))
        .or_else(|| control_plane(snapshot, snapshot.hosted_cluster().ours()?))
        .or_else(exposure)
        .or_else(injected)
        .or_else(nodes)
        .or_else(|| degraded(snapshot))
        .or_else(|| {
            // A cluster whose spec may have changed works nevertheless.
            let mut unknown = findings.iter().filter(|finding| finding.condition != condition::SPEC_APPLIED);
            let unknown = unknown.find(|finding| !is_known(finding))?;
            Some((Status::Unknown, reason::WATCH_FAILED, unknown.message.clone()))
        });
    let (status, reason, message) = obstacle.unwrap_or_else(|| {
        let place = exposure::api_endpoint(snapshot).unwrap_or_default();
        let mut message = format!("the hosted cluster is ready at {place}");
        if let Some(cluster) = snapshot.hosted_cluster().ours().filter(|cluster| is_blocked(cluster)) {
            message = format!(
                "{message}, but HyperShift can't change it now: {}",
                describe(cluster, "Progressing")
            );
        }
        if let Some(exposure) = find(condition::SERVICE_EXPOSURE_READY)
            && exposure.status == Status::False
        {
            message = format!("{message}; {}", exposure.message);
        }
        if let Some(lost) = encryption_key::lost(snapshot) {
            message = format!("{message}; {lost}");
        }
        (Status::True, reason::CLUSTER_READY, message)
    });
    Finding { condition: condition::READY, status, reason, message }
}

/// Returns that a control plane does not come up because its key is lost. HyperShift does not report that.
fn hung(snapshot: &BridgeSnapshot<'_>) -> Option<(Status, &'static str, String)> {
    snapshot.hosted_cluster().ours().filter(|_| !serves(snapshot))?;
    Some((Status::False, reason::WAITING_FOR_CONTROL_PLANE, encryption_key::lost(snapshot)?))
}

/// Returns the obstacle of a HostedCluster's control plane.
fn control_plane(snapshot: &BridgeSnapshot<'_>, cluster: &Value) -> Option<(Status, &'static str, String)> {
    // A control plane serves even if HyperShift is paused, or can't complete a change.
    if serves(snapshot) {
        return None;
    }
    if is_blocked(cluster) {
        return Some((Status::False, reason::VALIDATION_FAILED, describe(cluster, "Progressing")));
    }
    // Without Routes HyperShift fails before it writes any other condition.
    let is_early = condition_of(cluster, "Progressing").is_none();
    if is_early && is(cluster, "ValidConfiguration", "False") {
        return Some((Status::False, reason::VALIDATION_FAILED, describe(cluster, "ValidConfiguration")));
    }
    if !is(cluster, "Available", "True") {
        let available = condition_of(cluster, "Available");
        // This is normal for a cluster that is being created.
        let was_reachable =
            snapshot.bridge.condition(condition::PROVISIONED).is_some_and(|it| it.status == "True");
        let is_unreachable = was_reachable
            && available.is_some_and(|available| available["reason"] == "KASLoadBalancerNotReachable");
        let reason =
            if is_unreachable { reason::API_SERVER_UNREACHABLE } else { reason::WAITING_FOR_CONTROL_PLANE };
        return Some((Status::False, reason, describe(cluster, "Available")));
    }
    let message = if has_endpoint(cluster) {
        "the first version of the control plane is not installed completely yet"
    } else {
        "the HostedCluster does not report the address of its API server"
    };
    Some((Status::False, reason::WAITING_FOR_CONTROL_PLANE, message.to_owned()))
}

/// Returns that not all components of a control plane are healthy, although it serves. A rollout replaces replicas one by
/// one, which does not affect its health.
fn degraded(snapshot: &BridgeSnapshot<'_>) -> Option<(Status, &'static str, String)> {
    let cluster = snapshot.hosted_cluster().ours().filter(|cluster| is(cluster, "Degraded", "True"))?;
    let newest = &cluster["status"]["controlPlaneVersion"]["history"][0]["state"];
    let is_rolling =
        newest == "Partial" || upgrade::progress(snapshot).is_some() || rollout_remaining(snapshot).is_some();
    (!is_rolling).then(|| (Status::False, reason::WAITING_FOR_CONTROL_PLANE, describe(cluster, "Degraded")))
}

/// Returns the remaining time for a rollout that excuses a degraded control plane and of which HyperShift does not report the end:
/// an older HyperShift has no history of the control plane, and the version of the whole cluster completes only with nodes. The
/// installation of the first version is no rollout (decision 73).
pub fn rollout_remaining(snapshot: &BridgeSnapshot<'_>) -> Option<Duration> {
    let cluster = snapshot.hosted_cluster().ours().filter(|cluster| is(cluster, "Degraded", "True"))?;
    let history = cluster["status"]["version"]["history"].as_array().filter(|history| history.len() > 1)?;
    let newest = history.first().filter(|newest| newest["state"] == "Partial")?;
    let has_end = cluster["status"]["controlPlaneVersion"]["history"].is_array();
    let started = newest["startedTime"].as_str()?.parse().ok().filter(|_| !has_end)?;
    Some(left(ROLLOUT_MAX, started, snapshot.now)).filter(|left| !left.is_zero())
}

/// Returns the finding about `Provisioned`: once true, it stays true for as long as the HostedCluster exists. The time limit
/// applies only while the cluster needs nothing but time.
pub fn provisioned(snapshot: &BridgeSnapshot<'_>, ready: &Finding) -> Finding {
    let before = snapshot.bridge.condition(condition::PROVISIONED);
    let has_timed_out = before.is_some_and(|before| before.reason == reason::TIMED_OUT);
    let cluster = snapshot.hosted_cluster().ours();
    // Another client may have removed the status. HyperShift completes a version only with nodes.
    let is_shown = before.is_none() && cluster.is_some_and(was_complete);
    let (status, reason, message) = match snapshot.hosted_cluster() {
        OwnedObject::Absent | OwnedObject::Foreign => {
            (Status::False, reason::IN_PROGRESS, "the cluster is not provisioned yet")
        }
        _ if was_ready(snapshot) || is_shown || ready.status == Status::True => {
            (Status::True, reason::COMPLETED, "the cluster has been ready")
        }
        OwnedObject::Ours(cluster)
            if is_waiting(ready.reason) && remaining(cluster, snapshot.now).is_zero() =>
        {
            (Status::False, reason::TIMED_OUT, "the cluster is not ready an hour after its creation")
        }
        hosted_cluster @ (OwnedObject::Ours(_) | OwnedObject::Unknown(_))
            if has_timed_out
                && (matches!(hosted_cluster, OwnedObject::Unknown(_))
                    || ready.reason == reason::WATCH_FAILED) =>
        {
            (Status::False, reason::TIMED_OUT, "the cluster was not ready an hour after its creation")
        }
        OwnedObject::Ours(_) | OwnedObject::Going | OwnedObject::Unknown(_) => {
            (Status::False, reason::IN_PROGRESS, "the cluster is being provisioned")
        }
    };
    Finding { condition: condition::PROVISIONED, status, reason, message: message.to_owned() }
}

/// Returns the time of a transition of `Provisioned`. It is not before the creation of the HostedCluster, which the clock of the
/// API server shows: if the clock of this process is behind, the condition would seem to refer to an earlier HostedCluster.
pub fn provisioned_at(snapshot: &BridgeSnapshot<'_>) -> Now {
    let created = snapshot.hosted_cluster().ours().and_then(created_at).map(Wall::from_timestamp);
    let now = snapshot.now;
    Now { wall: created.map_or(now.wall, |created| now.wall.max(created)), ..now }
}

/// Returns whether a reason of `Ready` reports work in progress.
pub fn is_waiting(reason: &str) -> bool {
    !matches!(reason, reason::VALIDATION_FAILED | reason::WATCH_FAILED)
}

/// Returns the remaining time for a HostedCluster to become ready.
pub fn remaining(cluster: &Value, now: Now) -> Duration {
    let Some(created) = created_at(cluster) else { return PROVISIONING_MAX };
    left(PROVISIONING_MAX, created, now)
}

/// Returns how much of a time limit is left.
fn left(limit: Duration, since: Timestamp, now: Now) -> Duration {
    limit.saturating_sub(Duration::try_from(now.wall.timestamp().duration_since(since)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use lockstep_engine::action::ErrorKind;
    use serde_json::json;

    use super::*;
    use crate::fixture::{ADDRESS, Fixture, NOW};
    use crate::model::source::Source;

    const LONG_AGO: &str = "2026-01-01T10:00:00Z";

    /// Returns the reason of `Provisioned` after this one.
    fn after(before: &str, created: Option<&str>, is_refused: bool, ready: &'static str) -> &'static str {
        let condition = json!({
            "type": "Provisioned", "status": "False", "reason": before, "message": "", "lastTransitionTime": NOW,
        });
        let conditions = if before.is_empty() { json!([]) } else { json!([condition]) };
        let mut fixture = Fixture::new(&json!({ "conditions": conditions }));
        if let Some(created) = created {
            fixture.cluster(created, &json!({}));
        }
        if is_refused {
            fixture.refuse(Source::HostedClusters, ErrorKind::Forbidden);
        }
        let ready = Finding::broken(condition::READY, ready, String::new());
        provisioned(&fixture.snapshot(), &ready).reason
    }

    #[test]
    fn a_cluster_times_out_after_an_hour_unless_it_needs_more_than_time() {
        let late = |ready| after("", Some(LONG_AGO), false, ready);
        assert_eq!(late(reason::WAITING_FOR_CONTROL_PLANE), reason::TIMED_OUT);
        assert_eq!(late(reason::WAITING_FOR_INFRASTRUCTURE), reason::TIMED_OUT);
        assert_eq!(late(reason::VALIDATION_FAILED), reason::IN_PROGRESS);
        assert_eq!(late(reason::WATCH_FAILED), reason::IN_PROGRESS);
        assert_eq!(after("", Some(NOW), false, reason::WAITING_FOR_CONTROL_PLANE), reason::IN_PROGRESS);
    }

    /// The API server sets the creation time of the cluster, and the operator that of the condition.
    #[test]
    fn a_cluster_stays_provisioned_although_the_clock_of_the_operator_is_behind() {
        let (created, complete) = ("2026-01-01T12:30:00Z", json!({ "history": [{ "state": "Completed" }] }));
        let mut fixture = Fixture::new(&json!({}));
        fixture.cluster(created, &json!({ "version": complete }));
        let (status, _) = crate::status::wanted(&fixture.snapshot());
        let provisioned = |status: &Value| {
            let mut fixture = Fixture::new(status);
            fixture.cluster(created, &json!({ "version": complete }));
            let ready = Finding::broken(condition::READY, reason::WAITING_FOR_CONTROL_PLANE, String::new());
            provisioned(&fixture.snapshot(), &ready).reason
        };
        assert_eq!(provisioned(&json!(status)), reason::COMPLETED);
    }

    /// Returns the reason of `Ready` of a bridge that was ready at a time. Its cluster has this status and is available.
    fn later(provisioned: &str, mut status: Value) -> &'static str {
        let condition = json!({
            "type": "Provisioned", "status": "True", "reason": "Completed", "message": "", "lastTransitionTime": provisioned,
        });
        let mut fixture = Fixture::new(&json!({ "conditions": [condition] }));
        status["controlPlaneEndpoint"] = json!({ "host": ADDRESS, "port": 6443 });
        fixture.cluster("2026-01-01T11:00:00Z", &status).service(&[ADDRESS], &json!({}));
        ready(&fixture.snapshot(), &[]).reason
    }

    fn reported(conditions: &[&str]) -> Value {
        let condition =
            |name: &&str| json!({ "type": name, "status": "True", "reason": "UnavailableReplicas" });
        conditions.iter().map(condition).collect()
    }

    #[test]
    fn a_cluster_that_was_ready_is_installed() {
        let partial = json!({ "history": [{ "state": "Partial" }] });
        let status = json!({ "conditions": reported(&["Available"]), "controlPlaneVersion": partial, "version": partial });
        assert_eq!(later(NOW, status.clone()), reason::CLUSTER_READY);
        assert_eq!(later(LONG_AGO, status), reason::WAITING_FOR_CONTROL_PLANE, "an earlier one was");
    }

    /// An older HyperShift reports the versions of the whole cluster only, and none completes without nodes.
    #[test]
    fn replicas_that_a_rollout_replaces_are_no_failure() {
        let entry = |started: &str| json!({ "state": "Partial", "startedTime": started });
        let recent = "2026-01-01T11:00:01Z";
        for (history, of_control_plane, expected) in [
            (json!([entry(recent), entry(LONG_AGO)]), json!(null), reason::CLUSTER_READY),
            // It takes too long.
            (
                json!([entry("2026-01-01T11:00:00Z"), entry(LONG_AGO)]),
                json!(null),
                reason::WAITING_FOR_CONTROL_PLANE,
            ),
            // It is the installation.
            (json!([entry(recent)]), json!(null), reason::WAITING_FOR_CONTROL_PLANE),
            // It has ended.
            (
                json!([entry(recent), entry(LONG_AGO)]),
                json!([{ "state": "Completed" }]),
                reason::WAITING_FOR_CONTROL_PLANE,
            ),
            (
                json!([{ "state": "Completed", "startedTime": recent }, entry(LONG_AGO)]),
                json!(null),
                reason::WAITING_FOR_CONTROL_PLANE,
            ),
            (json!([entry(recent), entry(LONG_AGO)]), json!([{ "state": "Partial" }]), reason::CLUSTER_READY),
        ] {
            let status = json!({
                "conditions": reported(&["Available", "Degraded"]),
                "version": { "history": history },
                "controlPlaneVersion": { "history": of_control_plane },
            });
            assert_eq!(later(NOW, status), expected, "{history} {of_control_plane}");
        }
    }

    #[test]
    fn a_cluster_that_has_timed_out_stays_so_while_it_can_not_be_watched() {
        let waits = reason::WAITING_FOR_CONTROL_PLANE;
        let timed_out = |created, is_refused, ready| after(reason::TIMED_OUT, created, is_refused, ready);
        assert_eq!(timed_out(Some(LONG_AGO), true, reason::WATCH_FAILED), reason::TIMED_OUT);
        assert_eq!(timed_out(Some(LONG_AGO), true, waits), reason::TIMED_OUT);
        assert_eq!(timed_out(Some(LONG_AGO), false, reason::WATCH_FAILED), reason::TIMED_OUT);
        assert_eq!(timed_out(Some(NOW), false, waits), reason::IN_PROGRESS, "it is another one");
        assert_eq!(timed_out(None, false, waits), reason::IN_PROGRESS, "it is gone");
        assert_eq!(after("", Some(LONG_AGO), true, reason::WATCH_FAILED), reason::IN_PROGRESS);
    }
}
