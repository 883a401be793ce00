//! The DPUService controller: every `DPUService`, which is a Helm chart, is deployed to every cluster of DPUs through Argo CD.
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
//! | a sync that holds up a change | [`outdated`] | |
//! | a cluster's Secret | [`cluster`], [`kubeconfig`] | "Reconcile the secrets for each cluster" |
//! | the AppProject | [`project`] | "Reconcile the ArgoCD `AppProject`" |
//! | the status | [`status`], [`report`] | "Status", "Reconcile the status of the DPUService" |
//! | removal of a service; what is left of one | [`removal`], [`sweep`] | "Reconcile deletion if needed" |
//! | what is known, what each event wakes | [`world`], [`source`], `watches` | "Failures" |
//!
//! What services share stands in Argo CD's namespace, where an owner in another namespace would be none: the garbage collector
//! would delete it. It carries labels instead, and the last service takes it along. A cluster that is down, or whose kubeconfig
//! can't be used, holds up no other.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::{Deserialize, Serialize};

use crate::engine::action::Outcome;
use crate::engine::backoff::Backoff;
use crate::engine::conditions::Status;
use crate::engine::driver::{Next, Reconcile, Verdict};
use crate::engine::machine::Note;
use crate::engine::operator::{self, Outbox};
use crate::engine::recorder::{Occurrence, Severity};
use crate::object::{Name, ObjectRef};
use crate::time::Now;

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

/// How long a failing key is left alone: a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) };

/// The reconcilers, in the order in which they build upon one another.
const RECONCILERS: &[&str] = &["cluster", "project", "service"];

fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}

/// What is reconciled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A DPUCluster: can Argo CD reach it?
    Cluster(Name),
    /// The AppProject: does it permit what is to be deployed?
    Project,
    /// A DPUService: does it run on every cluster?
    Service(Name),
}

/// What a pass waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// Of the reconcile of a cluster.
    Cluster(cluster::Stage),
    /// Of the reconcile of the project.
    Project(project::Stage),
    /// Of the reconcile of a service.
    Service(service::Stage),
}

/// The DPUService controller.
pub type Operator = operator::Operator<Controller>;

/// What decides.
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
            // No key waits for a stage of another.
            _ => Next::Done(lagging()),
        }
    }
}

impl Controller {
    /// Tells in the log, and as events, what a status tells that was written.
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
            // Ready repeats what the others say, except for what can't be judged: that has one cause for all of them. What
            // takes its time is no news.
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

/// Whether all is well, as far as a condition goes.
fn is_good(condition: &Condition) -> bool {
    condition.status == Status::True.as_str() && condition.reason == reason::SUCCESS
}

/// Reasons that something takes its time.
const UNDER_WAY: [&str; 2] = [reason::PENDING, reason::AWAITING_DELETION];
