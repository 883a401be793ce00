//! The DPUService controller: it deploys every `DPUService`, which is a Helm chart, to every cluster of DPUs through Argo CD.
//!
//! This crate contains the decisions and the texts of the controller, and nothing else: its API types are in `lockstep-crds`, what
//! other controllers could use is in `lockstep-engine`, and its simulation is in `lockstep-subjects`. It does no I/O and reads no
//! clock.
//!
//! ```text
//!  DPUService ──▶ reconcile service ──▶ an Application for each cluster ──▶ (Argo CD deploys the chart)
//!       ▲                                          │ status
//!       └──────────── conditions, maps ◀───────────┘
//!  DPUCluster, its kubeconfig ──▶ reconcile cluster ──▶ Argo CD's Secret of the cluster   ─┐ shared by
//!  all of them ──────────────────▶ reconcile project ──▶ the AppProject                    ─┘ all services
//! ```
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | a service's Applications, the eight steps | [`service`] | "Controller flow" |
//! | an Application: name, manifest | [`application`], [`values`] | "Reconcile the ArgoCD `Applications`" |
//! | a sync that delays a change | [`outdated`] | |
//! | a cluster's Secret | [`cluster`], [`kubeconfig`] | "Reconcile the secrets for each cluster" |
//! | the AppProject | [`project`] | "Reconcile the ArgoCD `AppProject`" |
//! | the status | [`status`], [`report`] | "Status", "Reconcile the status of the DPUService" |
//! | deletion of a service; its orphans | [`service_delete`], [`orphans`] | "Reconcile deletion if needed" |
//! | cached state, keys that each event enqueues | [`world`], [`source`], `watches` | "Failures" |
//!
//! The objects that services share are in Argo CD's namespace. An owner in another namespace would not be valid: the garbage
//! collector would delete them. They carry labels instead, and the controller deletes them with the last service. A cluster
//! that is down, or whose kubeconfig can't be used, does not delay the others.

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

pub mod application;
pub mod cluster;
pub mod kubeconfig;
pub mod names;
pub mod orphans;
pub mod outdated;
pub mod project;
mod recording;
pub mod report;
pub mod service;
pub mod service_delete;
pub mod source;
pub mod status;
pub mod values;
mod watches;
pub mod world;

use names::{condition, reason};
use world::{World, service_ref};

/// The backoff of a failing key: a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) };

/// The reconcilers, in the order of their dependencies.
const RECONCILERS: &[&str] = &["cluster", "project", "service"];

fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}

/// The keys that the controller reconciles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A DPUCluster. Its reconcile gives Argo CD access to it.
    Cluster(Name),
    /// The AppProject. Its reconcile ensures that it permits what has to be deployed.
    Project,
    /// A DPUService. Its reconcile deploys it to every cluster.
    Service(Name),
}

/// What a pass waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// A stage of the reconcile of a cluster.
    Cluster(cluster::Stage),
    /// A stage of the reconcile of the project.
    Project(project::Stage),
    /// A stage of the reconcile of a service.
    Service(service::Stage),
}

/// The DPUService controller.
pub type Operator = operator::Operator<Controller>;

/// The decisions of the controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Controller {
    world: World,
    outbox: Outbox<Key>,
}

impl Reconcile for Controller {
    type Key = Key;
    type Stage = Stage;

    fn reconciler(key: &Key) -> &'static str {
        match key {
            Key::Cluster(_) => RECONCILERS[0],
            Key::Project => RECONCILERS[1],
            Key::Service(_) => RECONCILERS[2],
        }
    }

    fn object(key: &Key) -> ObjectRef {
        match key {
            Key::Cluster(name) => name.object(&names::dpu_cluster()),
            Key::Project => project::name().object(&names::project()),
            Key::Service(name) => service_ref(name),
        }
    }

    fn begin(&mut self, key: &Key, now: Now) -> Next<Stage> {
        match key {
            Key::Cluster(name) => self.begin_cluster(name, now),
            Key::Project => self.begin_project(),
            Key::Service(name) => self.begin_service(name, now),
        }
    }

    fn resume(&mut self, key: &Key, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match (key, stage) {
            (Key::Cluster(name), Stage::Cluster(stage)) => self.resume_cluster(name, stage, outcomes, now),
            (Key::Service(name), Stage::Service(stage)) => self.resume_service(name, stage, outcomes, now),
            (_, Stage::Project(stage)) => self.resume_project(&stage, outcomes),
            // A key never waits for a stage of another reconciler.
            _ => Next::Done(lagging()),
        }
    }
}

impl Controller {
    /// Reports a written status in the log and as Events.
    fn announce(&mut self, key: &Name, changed: &[Condition], now: Now) {
        for condition in changed {
            self.outbox.notes.push(Note::ConditionChanged {
                object: service_ref(key),
                condition: condition.type_.clone(),
                status: condition.status.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                warning: !is_good(condition) && !UNDER_WAY.contains(&condition.reason.as_str()),
            });
            // Ready repeats the other conditions, except if nothing can be decided: that has one cause for all of them. Work
            // in progress is not reported.
            let is_summary = condition.type_ == condition::READY;
            let is_unknown = condition.status == Status::Unknown.as_str();
            let is_news = is_summary == is_unknown && condition.reason != reason::PENDING;
            if is_news {
                self.tell(key, condition, now);
            }
        }
    }

    fn tell(&mut self, key: &Name, changed: &Condition, now: Now) {
        let Some(service) = self.world.services.get(key) else { return };
        let is_good = is_good(changed);
        let occurrence = Occurrence {
            regarding: service_ref(key),
            uid: service.uid.clone(),
            severity: if is_good { Severity::Normal } else { Severity::Warning },
            reason: if is_good {
                changed.type_.clone()
            } else {
                format!("{}{}", changed.type_, changed.reason)
            },
            action: "Reconcile",
            note: changed.message.clone(),
        };
        self.outbox.record(occurrence, now);
    }
}

/// Returns whether a condition has its normal status.
fn is_good(condition: &Condition) -> bool {
    condition.status == Status::True.as_str() && condition.reason == reason::SUCCESS
}

/// Reasons for work in progress.
const UNDER_WAY: [&str; 2] = [reason::PENDING, reason::AWAITING_DELETION];
