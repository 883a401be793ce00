//! The status writes of a pass.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::bridge::DPFHCPBridgeStatus;
use lockstep_engine::action::{Action, Answer as _, Outcome, only};
use lockstep_engine::machine::Note;
use lockstep_engine::object::Name;
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::time::Now;

use super::plan;
use super::progress::ReconcileProgress;
use crate::controller::Controller;
use crate::desired::address;
use crate::events::{self, StatusDelta};
use crate::model::bridge::Bridge;
use crate::names::bridge_ref;
use crate::store::Announced;
use crate::{retry, status};

/// A status with the conditions that it changes, and the verdict.
type Judged = (DPFHCPBridgeStatus, Vec<Condition>, Verdict);

impl Controller {
    /// Returns the status write that is needed, or the verdict with which the pass ends.
    pub(super) fn plan_report(
        &mut self,
        key: &Name,
        progress: &ReconcileProgress,
        now: Now,
    ) -> Result<(Action, Vec<Condition>), Verdict> {
        self.announce_unconfirmed(key, now);
        // As soon as the address is free, the request to MetalLB is repeated.
        if progress.with_snapshot(&self.store, key, now, address::is_over) == Some(true)
            && let Some(memory) = self.store.memories.get_mut(key)
        {
            memory.asked = None;
        }
        let judged = progress.with_snapshot(&self.store, key, now, |snapshot| {
            let (wanted, changed) = status::wanted(snapshot);
            (wanted, changed, plan::verdict(snapshot, progress))
        });
        let judged = judged.or_else(|| self.judge_unreadable(key, progress, now));
        let bridge = self.store.bridges.get(key).ok_or(Verdict::Converged)?;
        let (wanted, changed, verdict) = judged.ok_or(Verdict::Converged)?;
        // After a write without an answer, the status may be newer than the cached one.
        if wanted == bridge.status && !self.store.bridges.is_doubted(key) {
            return Err(verdict);
        }
        Ok((status::write(key, bridge, &wanted), changed))
    }

    /// Returns the status of a bridge whose spec can't be parsed. It is only reported.
    fn judge_unreadable(&self, key: &Name, progress: &ReconcileProgress, now: Now) -> Option<Judged> {
        let bridge = self.store.bridges.get(key)?;
        let problem = bridge.spec.as_ref().err()?;
        let dpu_cluster = progress.dpu_cluster(&self.store, bridge);
        let (wanted, changed) = status::unreadable(bridge, &dpu_cluster, problem, &self.store, now);
        Some((wanted, changed, Verdict::Converged))
    }

    /// Announces what a write has changed that ended without an answer and turns out to have taken effect.
    pub(super) fn announce_unconfirmed(&mut self, key: &Name, now: Now) {
        let Some(bridge) = self.store.bridges.get(key) else { return };
        let conditions = self.store.unconfirmed.take_shown(key, &bridge.status.conditions);
        self.announce(key, conditions, now);
    }

    /// Announces changed conditions of the status, and its phase and generation unless that was done.
    pub(super) fn announce(&mut self, key: &Name, conditions: Vec<Condition>, now: Now) {
        let Some(bridge) = self.store.bridges.get(key) else { return };
        let shown = Announced::of(bridge);
        let memory = self.store.memories.entry(key.clone()).or_default();
        // What this process has not written was announced by the one that wrote it.
        let before = memory.announced.replace(shown.clone()).filter(|before| before.uid == shown.uid);
        let before = before.unwrap_or_else(|| shown.clone());
        // Another client may have removed the status.
        let has_status = shown.phase.is_some();
        let delta = StatusDelta {
            conditions,
            phase: has_status && before.phase != shown.phase,
            // The deletion is a generation as well, without a change of the spec.
            spec: has_status && !bridge.deleting && before.generation != shown.generation,
        };
        events::announce(&mut self.outbox, key, bridge, &delta, now);
    }

    /// Processes the answer to a status write that changes these conditions. An error is the verdict with which the pass ends.
    pub(super) fn status_written(
        &mut self,
        key: &Name,
        changed: &[Condition],
        outcomes: Vec<Outcome>,
    ) -> Result<(), Verdict> {
        match only(outcomes).object() {
            Ok(object) => {
                self.store.bridges.confirm(key.clone(), Bridge::read(&object));
                self.store.unconfirmed.forget(key);
                // An outdated list hides it. It is announced when the watch shows it again.
                if self.store.bridges.get(key).is_none() {
                    self.store.unconfirmed.remember(key.clone(), changed);
                }
                Ok(())
            }
            Err(failure) => {
                self.store.bridges.write_failed(key.clone(), &failure);
                self.store.unconfirmed.write_failed(key.clone(), changed, &failure);
                let message = format!("Failed to update DPFHCPBridge status: {failure}");
                self.outbox.notes.push(Note::Error { message, objects: vec![bridge_ref(key)] });
                Err(Verdict::Retry {
                    reason: format!("writing the status: {failure}"),
                    backoff: Some(retry::STATUS),
                    within: None,
                    user_error: false,
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockstep_engine::action::Success;
    use lockstep_engine::operator::{Config, Control as _, Operator};
    use lockstep_engine::recording::Recordable as _;
    use lockstep_engine::scheduler::Reconcile as _;
    use lockstep_engine::time::{Monotonic, Wall};
    use serde_json::{Value, json};

    use super::super::Stage;
    use super::*;
    use crate::fixture::NOW;
    use crate::names;

    fn controller() -> Controller {
        let mut state = Operator::<Controller>::new(Config::default()).checkpoint()().expect("JSON");
        serde_json::from_value(state["controller"].take()).expect("the state of a controller")
    }

    /// The bridge is announced as `Pending`. A list that does not have it arrives, and later its new phase.
    #[test]
    fn a_phase_is_announced_although_an_outdated_list_hid_the_bridge() {
        let key = Name::new("team", "a");
        let seen = |version: &str, uid: &str, phase: &str| {
            let metadata =
                json!({ "namespace": "team", "name": "a", "uid": uid, "resourceVersion": version });
            Arc::new(json!({ "metadata": metadata, "status": { "phase": phase } }))
        };
        let now =
            Now { wall: Wall::from_timestamp(NOW.parse().expect("a time")), monotonic: Monotonic::default() };
        for (uid, is_same) in [("1", true), ("2", false)] {
            let (mut controller, kind) = (controller(), Arc::new(names::bridge()));
            controller.observed(&kind, &seen("1", "1", "Pending"));
            controller.announce(&key, Vec::new(), now);
            controller.list_started(&kind);
            controller.list_completed(&kind);
            assert!(controller.store.bridges.get(&key).is_none());
            controller.observed(&kind, &seen("3", uid, "Provisioning"));
            controller.announce(&key, Vec::new(), now);
            let notes = format!("{:?}", controller.outbox.notes);
            assert_eq!(notes.contains("DPFHCPBridge team/a is Provisioning"), is_same, "{notes}");
        }
    }

    /// The answer to the write may be older than another bridge that the watch has shown: then it does not bring the bridge back.
    #[test]
    fn what_a_write_changed_is_announced_although_an_outdated_list_hides_the_bridge() {
        let key = Name::new("team", "a");
        let now =
            Now { wall: Wall::from_timestamp(NOW.parse().expect("a time")), monotonic: Monotonic::default() };
        let seen = |name: &str, version: &str, conditions: Value| {
            let metadata =
                json!({ "namespace": "team", "name": name, "uid": name, "resourceVersion": version });
            Arc::new(json!({ "metadata": metadata, "status": { "conditions": conditions } }))
        };
        let changed = json!([{
            "type": "PrerequisitesMet", "status": "True", "reason": "AllMet", "message": "all are met", "lastTransitionTime": NOW,
        }]);
        let conditions: Vec<Condition> = serde_json::from_value(changed.clone()).expect("conditions");
        for (version, is_restored) in [("2", true), ("9", false)] {
            let (mut controller, kind) = (controller(), Arc::new(names::bridge()));
            controller.observed(&kind, &seen("a", "1", json!([])));
            controller.observed(&kind, &seen("b", version, json!([])));
            controller.list_started(&kind);
            controller.list_completed(&kind);
            let written = seen("a", "3", changed.clone());
            let stage = Stage::Reporting(ReconcileProgress::begin(now), conditions.clone());
            controller.resume(&key, stage, vec![Ok(Success::Object(Arc::clone(&written)))], now);
            let announced = |controller: &Controller| {
                let is_it = |note: &&Note| matches!(note, Note::ConditionChanged { .. });
                controller.outbox.notes.iter().filter(is_it).count()
            };
            assert_eq!(announced(&controller), usize::from(is_restored), "{version}");
            controller.observed(&kind, &written);
            controller.announce_unconfirmed(&key, now);
            assert_eq!(announced(&controller), 1, "{version}");
        }
    }
}
