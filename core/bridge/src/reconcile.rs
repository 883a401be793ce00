//! One pass over a bridge: read, copy Secrets, act, report.
//!
//! ```text
//!  begin ─┬─ being deleted ──▶ Removing
//!         ├─ no finalizer ──▶ Entering ─┐
//!         └─▶ Looking ◀────────────────┘
//!               └─▶ Copying ─▶ Acting ─▶ Acting … ─▶ Reporting ─▶ Reporting …
//! ```
//!
//! *Looking* reads what no watch shows: the content of Secrets that have changed, and objects before they are created. Each
//! *Acting* is one missing write, decided from the latest state. A stage without requests is skipped, so a pass over a bridge
//! in its desired state makes no requests.
//!
//! Source: "Reconciliation Flow", "Requeue Strategy".

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::{Answer as _, Outcome, only};
use lockstep_engine::finalizer;
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::scheduler::{Next, Reconcile, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::controller::{Controller, RECONCILER};
use super::desired::address;
use super::model::bridge::Bridge;
use super::model::encryption_key::Measured;
use super::model::managed_object::{ManagedObject, Written};
use super::model::source::Source;
use super::names::{FINALIZER, bridge_ref};
use super::snapshot::{BridgeSnapshot, KeyState};

pub mod delete;
pub mod plan;
pub mod progress;
pub mod read;
mod report;

use self::progress::ReconcileProgress;
use self::read::{PendingCopy, Read};

/// The maximum number of status writes in one pass: a phase may have two edges to traverse, and a deleted HostedCluster is
/// reported before it is re-created.
const REPORTS_MAX: u32 = 5;

/// What a pass waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The finalizer is being added.
    Entering,
    /// State that no watch shows is being read.
    Looking(ReconcileProgress, Vec<Read>),
    /// Secrets are being copied, and the registry is being queried.
    Copying(ReconcileProgress, Vec<PendingCopy>),
    /// One write is in flight.
    Acting(ReconcileProgress, Written),
    /// The status is being written.
    Reporting(ReconcileProgress, Vec<Condition>),
    /// The bridge is being deleted.
    Removing(delete::Stage),
}

impl Reconcile for Controller {
    type Key = Name;
    type Stage = Stage;

    fn reconciler(_: &Name) -> &'static str {
        RECONCILER
    }

    fn object(key: &Name) -> ObjectRef {
        bridge_ref(key)
    }

    fn begin(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        if bridge.deleting {
            return self.begin_removal(key, now).map(Stage::Removing);
        }
        match finalizer::add(&bridge_ref(key), &bridge.metadata, FINALIZER) {
            Some(enter) => Next::Await(vec![enter], Stage::Entering),
            None => self.look(key, now),
        }
    }

    fn resume(&mut self, key: &Name, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        // An event during the pass may have changed it.
        let is_deleting = self.store.bridges.get(key).map(|bridge| bridge.deleting);
        match stage {
            // It was created again during the pass, and the new one stays.
            Stage::Removing(_) if is_deleting == Some(false) => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Removing(stage) => self.resume_removal(key, stage, outcomes, now).map(Stage::Removing),
            // A deletion began during the write, or an outdated list hides the bridge. What the write did is known all the same.
            Stage::Reporting(_, changed) if is_deleting != Some(false) => {
                if self.status_written(key, &changed, outcomes).is_ok() {
                    self.announce(key, changed, now);
                }
                Next::Done(Verdict::Requeue(Duration::ZERO))
            }
            _ if is_deleting != Some(false) => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Entering => self.entered(key, outcomes, now),
            Stage::Looking(mut progress, reads) => {
                let (copies, actions) = self.plan_copies(key, &mut progress, reads, outcomes, now);
                Next::Await(actions, Stage::Copying(progress, copies))
            }
            Stage::Copying(mut progress, copies) => {
                self.store_copies(key, &mut progress, copies, outcomes, now);
                self.act(key, progress, now)
            }
            Stage::Acting(progress, written) => self.acted(key, progress, written, outcomes, now),
            Stage::Reporting(progress, changed) => self.reported(key, progress, changed, outcomes, now),
        }
    }
}

impl Controller {
    fn entered(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match only(outcomes).object() {
            Ok(object) => {
                self.store.bridges.absorb(key.clone(), Bridge::read(&object));
                self.look(key, now)
            }
            Err(failure) => Next::Done(Verdict::retry("entering the finalizer", &failure)),
        }
    }

    fn look(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let mut progress = ReconcileProgress::begin(now);
        let lacks_key = |snapshot: &BridgeSnapshot<'_>| snapshot.encryption_key() == Some(KeyState::Missing);
        progress.lacks_key = progress.with_snapshot(&self.store, key, now, lacks_key) == Some(true);
        match self.plan_reads(key, &progress, now) {
            Some((reads, gets)) => Next::Await(gets, Stage::Looking(progress, reads)),
            None => self.report(key, progress, now),
        }
    }

    /// Executes the next missing write.
    fn act(&mut self, key: &Name, mut progress: ReconcileProgress, now: Now) -> Next<Stage> {
        let mut postponed = None;
        let next = progress.with_snapshot(&self.store, key, now, |snapshot| {
            plan::next_write(snapshot, &progress, &mut postponed)
        });
        progress.postponed = postponed;
        match next.flatten() {
            Some((written, action)) => Next::Await(vec![action], Stage::Acting(progress, written)),
            None => self.report(key, progress, now),
        }
    }

    fn acted(
        &mut self,
        key: &Name,
        mut progress: ReconcileProgress,
        written: Written,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        let managed = written.object;
        progress.written.insert(managed);
        let answer = only(outcomes).object();
        if managed == ManagedObject::HostedCluster {
            let failures = &mut self.store.memories.entry(key.clone()).or_default().cluster_failures;
            *failures = if answer.is_ok() { 0 } else { failures.saturating_add(1) };
        }
        match answer {
            Ok(object) => {
                progress.repaired.push(written);
                if let (ManagedObject::DpuCluster, Some(_)) = (managed, &progress.dpu_cluster) {
                    progress.dpu_cluster = Some(Ok(Source::DpuClusters.trim(&object)));
                }
                self.absorb(key, managed.source(), &object);
                if managed == ManagedObject::EncryptionKey {
                    self.store.memories.entry(key.clone()).or_default().key = Some(Measured::new(&object));
                }
                if managed == ManagedObject::Service {
                    let asked = progress.with_snapshot(&self.store, key, now, address::asked).flatten();
                    self.store.memories.entry(key.clone()).or_default().asked = asked;
                }
            }
            Err(failure) => {
                progress.refused.push(written);
                progress.failures.push((managed, failure));
            }
        }
        self.act(key, progress, now)
    }

    /// Records what the pass has written so far.
    fn record_writes(&mut self, key: &Name, progress: &mut ReconcileProgress, now: Now) {
        let repaired = std::mem::take(&mut progress.repaired);
        if repaired.is_empty() && !self.store.memories.contains_key(key) {
            return;
        }
        let repairs = &mut self.store.memories.entry(key.clone()).or_default().repairs;
        repairs.settle(now.monotonic, |earlier| !repaired.iter().any(|written| written.replaces(earlier)));
        repairs.take_in(repaired, &progress.refused, now.monotonic);
    }

    fn report(&mut self, key: &Name, mut progress: ReconcileProgress, now: Now) -> Next<Stage> {
        self.record_writes(key, &mut progress, now);
        match self.plan_report(key, &progress, now) {
            Ok((write, changed)) => Next::Await(vec![write], Stage::Reporting(progress, changed)),
            Err(verdict) => Next::Done(verdict),
        }
    }

    fn reported(
        &mut self,
        key: &Name,
        mut progress: ReconcileProgress,
        changed: Vec<Condition>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        if let Err(verdict) = self.status_written(key, &changed, outcomes) {
            return Next::Done(verdict);
        }
        self.announce(key, changed, now);
        progress.reports += 1;
        if progress.reports > REPORTS_MAX {
            return Next::Done(Verdict::because("the server does not keep the status that is written"));
        }
        // The new status may permit another write, and the phase may have a further edge to traverse.
        self.act(key, progress, now)
    }
}
