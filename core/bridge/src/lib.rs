//! The DPF-HCP Bridge: it creates a hosted control plane of HyperShift for a cluster of DPUs from every `DPFHCPBridge`.
//!
//! This crate contains the decisions and the texts of the controller, and nothing else: its API types are in `lockstep-crds`, what
//! other controllers could use is in `lockstep-engine`, and its simulation is in `lockstep-subjects`. It does no I/O and reads no
//! clock.
//!
//! ```text
//!  DPFHCPBridge ──▶ HostedCluster, NodePool, copies of two Secrets ──▶ (HyperShift creates the control plane)
//!       ▲                                                                      │ kubeconfig
//!       └── status: phase, conditions, endpoints          DPUCluster ◀─────────┘
//! ```
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | one pass: read, copy, act, report | [`pass`] | "Reconciliation Flow", "Requeue Strategy" |
//! | `DPUClusterValid` | [`dpucluster`] | "DPUCluster Validation" |
//! | `PrerequisitesMet` | [`prerequisites`], [`image`], [`vip`], [`pool`], [`parse`] | "Reconciliation Validation" |
//! | HostedCluster, NodePool; `HostedClusterCreated`, `SpecApplied` | [`hosted_cluster`] | "Spec Fields" |
//! | upgrades | [`upgrade`] | "Field: `ocpReleaseImage`" |
//! | copies of Secrets | [`secrets`] | "Field: `sshKeySecretRef`", "Field: `pullSecretRef`" |
//! | `NodePoolReady` | [`node_pool`] | "Condition: NodePoolReady" |
//! | the request for MetalLB's address | [`address`] | "Field: `metalLBVirtualIP`" |
//! | `ServiceExposureReady`, endpoints | [`exposure`] | "Condition: ServiceExposureReady" |
//! | `KubeconfigInjected` | [`kubeconfig`] | "Field: `kubeconfigSecretRef`" |
//! | `Ready`, `Provisioned` | [`readiness`] | "Condition: Ready" |
//! | the phase | [`phase`] | "Status Phases" |
//! | deletion | [`deletion`] | "Finalizer Management" |
//! | cached state, keys that each event enqueues | [`world`], [`source`], `watches` | "Field Indexing" |
//!
//! The Bridge waits for missing prerequisites: watches enqueue only the bridges that depend on them. It never deletes a
//! running cluster because one of its prerequisites is gone.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::Outcome;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::conditions::Status;
use lockstep_engine::driver::{Next, Reconcile, Verdict};
use lockstep_engine::machine::Note;
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::operator::{self, Outbox};
use lockstep_engine::recorder::{Occurrence, Severity};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

pub mod address;
pub mod deletion;
pub mod dpucluster;
pub mod exposure;
pub mod hosted_cluster;
pub mod image;
pub mod kubeconfig;
pub mod metrics;
#[allow(missing_docs)]
pub mod names;
pub mod node_pool;
pub mod parse;
pub mod pass;
pub mod phase;
pub mod pool;
pub mod prerequisites;
pub mod readiness;
mod recording;
pub mod secrets;
pub mod source;
pub mod status;
pub mod upgrade;
pub mod view;
pub mod vip;
mod watches;
pub mod world;

use names::{condition, reason};
use pass::StatusDelta;
use world::{World, bridge_ref};

/// The default backoff of a failing bridge, for failures without a backoff of their own ("Rate Limiting").
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };

/// The default number of bridges that are reconciled concurrently ("Parallelism", `MaxConcurrentReconciles`).
pub const CONCURRENCY: u16 = 5;

fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}

/// The Bridge.
pub type Operator = operator::Operator<Controller>;

/// The decisions of the Bridge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    world: World,
    outbox: Outbox<Name>,
}

const RECONCILER: &str = "bridge";

impl Reconcile for Controller {
    type Key = Name;
    type Stage = pass::Stage;

    fn reconciler(_: &Name) -> &'static str {
        RECONCILER
    }

    fn object(key: &Name) -> ObjectRef {
        bridge_ref(key)
    }

    fn begin(&mut self, key: &Name, now: Now) -> Next<pass::Stage> {
        self.begin_pass(key, now)
    }

    fn resume(
        &mut self,
        key: &Name,
        stage: pass::Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<pass::Stage> {
        self.resume_pass(key, stage, outcomes, now)
    }
}

impl Controller {
    /// Reports a written status in the log and as Events.
    fn announce(&mut self, key: &Name, news: &StatusDelta, now: Now) {
        if news.phase {
            self.tell_phase(key);
        }
        for condition in &news.conditions {
            // Waiting is not reported, unless the cluster was ready before.
            let is_quiet = QUIET.contains(&condition.reason.as_str())
                && !(condition.type_ == condition::READY && self.was_ready(key));
            let is_mirror = MIRRORS.contains(&condition.type_.as_str());
            self.outbox.notes.push(Note::ConditionChanged {
                object: bridge_ref(key),
                condition: condition.type_.clone(),
                status: condition.status.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                // Some of the mirrored conditions are False in normal operation.
                warning: condition.status == Status::False.as_str() && !is_quiet && !is_mirror,
            });
            if condition.reason == reason::IMAGE_UNCHECKED {
                let message = format!("DPFHCPBridge {key}: {}", condition.message);
                self.outbox.notes.push(Note::Warning { message });
            }
            let is_news = condition.status != Status::Unknown.as_str() && !is_quiet && !is_mirror;
            if is_news {
                self.tell_condition(key, condition, now);
            }
        }
        let Some(bridge) = self.world.bridges.get(key) else { return };
        let Some(spec) = bridge.spec.as_ref().ok().filter(|_| news.spec) else { return };
        if spec.control_plane_availability_policy != spec.infrastructure_availability_policy {
            let note = "ControlPlane and Infrastructure availability policies differ - this may indicate misconfiguration";
            self.tell(key, Severity::Warning, "MismatchedAvailability", note.to_owned(), now);
        }
    }

    /// Returns whether the hosted cluster of a bridge has been ready since it was created.
    fn was_ready(&self, key: &Name) -> bool {
        let provisioned =
            self.world.bridges.get(key).and_then(|bridge| bridge.condition(condition::PROVISIONED));
        provisioned.is_some_and(|provisioned| provisioned.status == Status::True.as_str())
    }

    /// Logs the phase of a bridge.
    fn tell_phase(&mut self, key: &Name) {
        let Some(bridge) = self.world.bridges.get(key) else { return };
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let (phase, message) = (text(&bridge.status.phase), text(&bridge.status.message));
        let message = format!("DPFHCPBridge {key} is {phase}: {message}");
        self.outbox.notes.push(Note::Log { debug: false, message });
    }

    fn tell_condition(&mut self, key: &Name, changed: &Condition, now: Now) {
        let Some(bridge) = self.world.bridges.get(key) else { return };
        let holds = changed.status == Status::True.as_str() && changed.reason != reason::IMAGE_UNCHECKED;
        let severity = if holds { Severity::Normal } else { Severity::Warning };
        if changed.type_ == condition::DPU_CLUSTER_VALID {
            let (reason, note) = dpucluster::event(bridge, &changed.reason, &changed.message);
            return self.tell(key, severity, reason, note, now);
        }
        let (reason, note) = (changed.reason.clone(), changed.message.clone());
        self.tell(key, severity, &reason, note, now);
    }

    fn tell(&mut self, key: &Name, severity: Severity, reason: &str, note: String, now: Now) {
        let Some(bridge) = self.world.bridges.get(key) else { return };
        let occurrence = Occurrence {
            regarding: bridge_ref(key),
            uid: bridge.uid.clone(),
            severity,
            reason: reason.to_owned(),
            action: "Reconcile",
            note,
        };
        self.outbox.record(occurrence, now);
    }
}

/// Reasons that only report work in progress.
const QUIET: &[&str] = &[
    reason::WAITING_FOR_CONTROL_PLANE,
    reason::WAITING_FOR_INFRASTRUCTURE,
    reason::WAITING_FOR_NODES,
    reason::LOAD_BALANCER_PENDING,
    reason::ADDRESS_CHANGE_PENDING,
    reason::KUBECONFIG_PENDING,
    reason::IN_PROGRESS,
    reason::APPLIED,
    reason::ALL_MET,
];

/// Conditions that are copied from other controllers, which report events of their own.
const MIRRORS: &[&str] = &[
    condition::HOSTED_CLUSTER_AVAILABLE,
    condition::HOSTED_CLUSTER_PROGRESSING,
    condition::HOSTED_CLUSTER_DEGRADED,
];
