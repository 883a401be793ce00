//! One pass over a bridge: read, copy Secrets, act, report.
//!
//! ```text
//!  begin ─┬─ being deleted ──▶ deletion
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

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::bridge::DPFHCPBridgeStatus;
use lockstep_engine::action::{Action, Failure, Outcome, Subresource, Success};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::finalizer;
use lockstep_engine::machine::Note;
use lockstep_engine::object::Name;
use lockstep_engine::time::{Monotonic, Now};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::deletion;
use super::dpucluster::{self, Lookup};
use super::names::FINALIZER;
use super::secrets::SecretRole;
use super::source::Source;
use super::view::BridgeSnapshot;
use super::world::{Bridge, Memory, bridge_ref};
use super::{Controller, address, metrics, status};

mod deciding;
mod looking;

use self::deciding::{next_write, verdict};
pub use self::looking::{PendingCopy, Read, lookup};

/// The backoff of failed status writes ("Requeue Strategy").
const STATUS_BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };
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
    Acting(ReconcileProgress, ManagedObject),
    /// The status is being written.
    Reporting(ReconcileProgress, StatusDelta),
    /// The bridge is being deleted.
    Removing(deletion::Stage),
}

/// The state of a pass.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ReconcileProgress {
    began: Monotonic,
    /// The DPUCluster, if it had to be read.
    dpu_cluster: Option<Lookup<Value>>,
    failures: Vec<(ManagedObject, Failure)>,
    written: BTreeSet<ManagedObject>,
    reports: u32,
}

/// A status with the conditions that it changes, whether it differs, and the verdict.
type Judged = (DPFHCPBridgeStatus, Vec<Condition>, bool, Verdict);

/// The differences between a status and the previous one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StatusDelta {
    /// The conditions with a changed status or reason.
    pub conditions: Vec<Condition>,
    /// Whether the phase has changed.
    pub phase: bool,
    /// Whether the spec had not been observed before.
    pub spec: bool,
}

/// An object that the Bridge writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ManagedObject {
    /// A Secret's copy.
    Secret(SecretRole),
    /// The HostedCluster.
    HostedCluster,
    /// The NodePool.
    NodePool,
    /// The annotation of the API server's Service.
    Service,
    /// The DPUCluster's reference to its kubeconfig.
    DpuCluster,
}

impl ManagedObject {
    const fn title(self) -> &'static str {
        match self {
            Self::Secret(SecretRole::Pull) => "the pull secret",
            Self::Secret(SecretRole::Ssh) => "the SSH keys",
            Self::Secret(SecretRole::Kubeconfig) => "the kubeconfig",
            Self::HostedCluster => "the HostedCluster",
            Self::NodePool => "the NodePool",
            Self::Service => "the API server's Service",
            Self::DpuCluster => "the DPUCluster",
        }
    }
}

impl ReconcileProgress {
    /// Returns the failure of an object's write in this pass.
    pub fn failure(&self, part: ManagedObject) -> Option<&Failure> {
        self.failures.iter().find(|(failed, _)| *failed == part).map(|(_, failure)| failure)
    }
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<Stage> {
    Next::Await(actions, stage)
}

impl Controller {
    pub(super) fn begin_pass(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let Some(bridge) = self.world.bridges.get(key) else {
            self.world.memories.remove(key);
            return Next::Done(Verdict::Converged);
        };
        if bridge.deleting {
            return self.begin_removal(key, now);
        }
        match finalizer::add(&bridge_ref(key), &bridge.metadata, FINALIZER) {
            Some(enter) => wait(vec![enter], Stage::Entering),
            None => self.look(key, now),
        }
    }

    pub(super) fn resume_pass(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        // An event during the pass may have changed it.
        let is_deleting = self.world.bridges.get(key).is_none_or(|bridge| bridge.deleting);
        match stage {
            Stage::Removing(stage) => self.resume_removal(key, stage, outcomes, now),
            _ if is_deleting => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Entering => self.entered(key, outcomes, now),
            Stage::Looking(pass, reads) => self.looked(key, pass, reads, outcomes, now),
            Stage::Copying(pass, handed) => self.copied(key, pass, handed, outcomes, now),
            Stage::Acting(pass, part) => self.acted(key, pass, part, outcomes, now),
            Stage::Reporting(pass, news) => self.reported(key, pass, &news, outcomes, now),
        }
    }

    fn entered(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.bridges.absorb(key.clone(), Bridge::read(&object));
                self.look(key, now)
            }
            Some(Err(failure)) => Next::Done(Verdict::retry("entering the finalizer", &failure)),
            _ => Next::Done(super::lagging()),
        }
    }

    /// Executes the next missing write.
    fn act(&mut self, key: &Name, pass: ReconcileProgress, now: Now) -> Next<Stage> {
        let next = self.with_view(key, &pass, now, |view| next_write(view, &pass)).flatten();
        match next {
            Some((part, action)) => wait(vec![action], Stage::Acting(pass, part)),
            None => self.report(key, pass, now),
        }
    }

    fn acted(
        &mut self,
        key: &Name,
        mut pass: ReconcileProgress,
        part: ManagedObject,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        pass.written.insert(part);
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                if let (ManagedObject::DpuCluster, Some(_)) = (part, &pass.dpu_cluster) {
                    pass.dpu_cluster = Some(Ok(Source::DpuClusters.trim(&object)));
                }
                self.absorb(key, source_of(part), &object);
                if part == ManagedObject::Service {
                    let asked = self.with_view(key, &pass, now, address::asked).flatten();
                    self.world.memories.entry(key.clone()).or_default().asked = asked;
                }
            }
            Some(Err(failure)) => pass.failures.push((part, failure)),
            _ => {}
        }
        self.act(key, pass, now)
    }

    fn report(&mut self, key: &Name, pass: ReconcileProgress, now: Now) -> Next<Stage> {
        // As soon as the address is free, the request to MetalLB is repeated.
        if self.with_view(key, &pass, now, address::is_over) == Some(true)
            && let Some(memory) = self.world.memories.get_mut(key)
        {
            memory.asked = None;
        }
        let judged = self.with_view(key, &pass, now, |view| {
            let (wanted, changed) = status::wanted(view, &pass);
            let differs = wanted != view.bridge.status;
            (wanted, changed, differs, verdict(view, &pass))
        });
        let judged = judged.or_else(|| self.judge_unreadable(key, &pass, now));
        let Some((wanted, changed, differs, verdict)) = judged else { return Next::Done(Verdict::Converged) };
        if !differs {
            return Next::Done(verdict);
        }
        let Some(bridge) = self.world.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        let news = StatusDelta {
            conditions: changed,
            phase: wanted.phase != bridge.status.phase,
            spec: wanted.observed_generation != bridge.status.observed_generation,
        };
        wait(vec![write_status(key, bridge, &wanted)], Stage::Reporting(pass, news))
    }

    /// Returns the status of a bridge whose spec can't be parsed. It is only reported.
    fn judge_unreadable(&self, key: &Name, pass: &ReconcileProgress, now: Now) -> Option<Judged> {
        let bridge = self.world.bridges.get(key)?;
        let problem = bridge.spec.as_ref().err()?;
        let (wanted, changed) = status::unreadable(bridge, &self.dpu_cluster(bridge, pass), problem, now);
        let differs = wanted != bridge.status;
        Some((wanted, changed, differs, Verdict::Converged))
    }

    /// Records metrics and logs of the DPUCluster's validation, once in a pass.
    fn measure(&mut self, key: &Name, pass: &ReconcileProgress, now: Now) {
        let Some(bridge) = self.world.bridges.get(key) else { return };
        let lookup = self.dpu_cluster(bridge, pass);
        let result = dpucluster::result(bridge, &lookup);
        let lines = dpucluster::log(key, bridge, &lookup);
        self.outbox.notes.extend(lines);
        self.outbox.notes.extend(metrics::validated(result, now.monotonic.since(pass.began)));
    }

    fn reported(
        &mut self,
        key: &Name,
        mut pass: ReconcileProgress,
        news: &StatusDelta,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        if let Err(verdict) = self.status_written(key, outcomes) {
            return Next::Done(verdict);
        }
        self.announce(key, news, now);
        pass.reports += 1;
        if pass.reports > REPORTS_MAX {
            return Next::Done(Verdict::because("the server does not keep the status that is written"));
        }
        // The new status may permit another write, and the phase may have a further edge to traverse.
        self.act(key, pass, now)
    }

    /// Processes the answer to a status write. An error is the verdict with which the pass ends.
    pub(super) fn status_written(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Result<(), Verdict> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.bridges.absorb(key.clone(), Bridge::read(&object));
                Ok(())
            }
            Some(Err(failure)) => {
                let message = format!("Failed to update DPFHCPBridge status of {key}: {failure}");
                self.outbox.notes.push(Note::Error { message });
                Err(Verdict::Retry {
                    reason: format!("writing the status: {failure}"),
                    backoff: Some(STATUS_BACKOFF),
                    within: None,
                    user_error: false,
                })
            }
            _ => Err(super::lagging()),
        }
    }

    /// Calls a function with the snapshot of a bridge; `None` if the bridge is gone or can't be parsed.
    pub(super) fn with_view<T>(
        &self,
        key: &Name,
        pass: &ReconcileProgress,
        now: Now,
        look: impl FnOnce(&BridgeSnapshot<'_>) -> T,
    ) -> Option<T> {
        let bridge = self.world.bridges.get(key)?;
        let spec = bridge.spec.as_ref().ok()?;
        let nothing = Memory::default();
        let memory = self.world.memories.get(key).unwrap_or(&nothing);
        let dpu_cluster = self.dpu_cluster(bridge, pass);
        Some(look(&BridgeSnapshot {
            key,
            bridge,
            spec,
            world: &self.world,
            memory,
            dpu_cluster: &dpu_cluster,
            now,
        }))
    }

    /// Returns the DPUCluster of a bridge, as it was read in this pass or is watched.
    fn dpu_cluster(&self, bridge: &Bridge, pass: &ReconcileProgress) -> Lookup<Value> {
        match (&pass.dpu_cluster, &bridge.dpu_cluster) {
            (Some(read), _) => read.clone(),
            (None, None) => Ok(None),
            (None, Some(name)) => {
                self.world.find(Source::DpuClusters, name).map(Option::<&Value>::cloned).map_err(Clone::clone)
            }
        }
    }
}

fn source_of(part: ManagedObject) -> Source {
    match part {
        ManagedObject::Secret(_) => Source::Secrets,
        ManagedObject::HostedCluster => Source::HostedClusters,
        ManagedObject::NodePool => Source::NodePools,
        ManagedObject::Service => Source::Services,
        ManagedObject::DpuCluster => Source::DpuClusters,
    }
}

/// Returns the write of a status over the one that it was compared with.
pub fn write_status(key: &Name, bridge: &Bridge, status: &impl Serialize) -> Action {
    let version = &bridge.metadata["metadata"]["resourceVersion"];
    let metadata = json!({ "uid": bridge.uid, "resourceVersion": version });
    let mut status = json!(status);
    // A merge patch removes only fields that it names.
    for (field, _) in json!(bridge.status).as_object().into_iter().flatten() {
        if status.get(field).is_none() {
            status[field] = Value::Null;
        }
    }
    let patch = Arc::new(json!({ "metadata": metadata, "status": status }));
    Action::Patch { target: bridge_ref(key), subresource: Some(Subresource::Status), patch }
}
