//! The DPUService controller: it deploys every `DPUService`, which is a Helm chart, to every cluster of DPUs through Argo CD.
//!
//! This crate contains the decisions and the texts of the controller, and nothing else: its API types are in `lockstep-crds`,
//! what other controllers could use is in `lockstep-engine`, and its simulation is in `lockstep-subjects`. It does no I/O and
//! reads no clock.
//!
//! ```text
//!  DPUService ──▶ reconcile service ──▶ an Application for each cluster ──▶ (Argo CD deploys the chart)
//!       ▲                                          │ status
//!       └──────────── conditions, maps ◀───────────┘
//!  DPUCluster, its kubeconfig ──▶ reconcile cluster ──▶ Argo CD's Secret of the cluster   ─┐ shared by
//!  all of them ──────────────────▶ reconcile project ──▶ the AppProject                    ─┘ all services
//! ```
//!
//! No module knows one below it in this table:
//!
//! | what | where | source in the specification |
//! | --- | --- | --- |
//! | names and kinds; which of them are watched | [`names`], [`source`] | "Prerequisites" |
//! | the typed reading of objects; the kubeconfig; Argo CD's report | [`model`] | "Status" |
//! | cached state, results of earlier passes, syncs that delay a change, repeated repairs | [`store`] | |
//! | the server of an Application; the owner of a server | [`destination`], [`server_claims`] | |
//! | what is written: Applications and values, the AppProject, Secrets | [`desired`] | "Reconcile the ArgoCD `Applications`" |
//! | which clusters are changed now | [`rollout`] | decision 97 |
//! | conditions, Argo CD's reports for each cluster | [`status`] | "Status", "Reconcile the status of the DPUService" |
//! | the keys, and which of them a change enqueues | `key`, `enqueue`, `answers` | "Failures" |
//! | a cluster's Secret | [`reconcile::cluster`] | "Reconcile the secrets for each cluster" |
//! | the AppProject | [`reconcile::project`] | "Reconcile the ArgoCD `AppProject`" |
//! | deletion of a service | [`reconcile::service_delete`] | "Reconcile deletion if needed" |
//! | the orphans of a deleted service | [`reconcile::orphans`] | |
//! | a service's Applications, the eight steps | [`reconcile::service`] | "Controller flow" |
//! | watch events | `watches` | |
//!
//! The objects that services share are in Argo CD's namespace. An owner in another namespace would not be valid: the garbage
//! collector would delete them. They carry labels instead, and the controller deletes them with the last service. A cluster
//! that is down, or whose kubeconfig can't be used, does not delay the others.

use lockstep_engine::action::Outcome;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::operator;
use lockstep_engine::scheduler::{Next, Reconcile};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

mod answers;
pub mod desired;
pub mod destination;
mod enqueue;
#[cfg(test)]
mod fixture;
mod key;
pub mod model;
pub mod names;
pub mod reconcile;
mod recording;
pub mod rollout;
pub mod server_claims;
pub mod source;
mod state;
pub mod status;
pub mod store;
mod watches;

use reconcile::{cluster, project, service};

pub use key::{BACKOFF, Key};
pub use state::Controller;

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

impl Reconcile for Controller {
    type Key = Key;
    type Stage = Stage;

    fn reconciler(key: &Key) -> &'static str {
        key.reconciler()
    }

    fn object(key: &Key) -> ObjectRef {
        key.object()
    }

    fn begin(&mut self, key: &Key, now: Now) -> Next<Stage> {
        match key {
            Key::Cluster(name) => self.begin_cluster(name, now).map(Stage::Cluster),
            Key::Project => self.begin_project(now).map(Stage::Project),
            Key::Service(name) => self.begin_service(name, now).map(Stage::Service),
        }
    }

    fn resume(&mut self, key: &Key, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match (key, stage) {
            (Key::Cluster(name), Stage::Cluster(stage)) => {
                self.resume_cluster(name, stage, outcomes, now).map(Stage::Cluster)
            }
            (Key::Service(name), Stage::Service(stage)) => {
                self.resume_service(name, stage, outcomes, now).map(Stage::Service)
            }
            (_, Stage::Project(stage)) => self.resume_project(stage, outcomes, now).map(Stage::Project),
            (key, stage) => unreachable!("{key:?} waits for a stage of another reconciler: {stage:?}"),
        }
    }
}
