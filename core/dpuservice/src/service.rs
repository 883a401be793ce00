//! The reconcile of a service: every cluster has exactly one Application of it.
//!
//! ```text
//!  begin ─┬─ gone ──▶ its orphans are removed (orphans)
//!         ├─ being deleted ──▶ service_delete
//!         ├─ no finalizer ──▶ Entering ─┐
//!         └─▶ Proving ─▶ Acting ─▶ Acting … ─▶ Reporting
//! ```
//!
//! | step of the specification | where |
//! | --- | --- |
//! | 1. deletion | [`service_delete`] |
//! | 2. finalizer | *Entering* |
//! | 3. clusters | watched; [`status`] reports which are not ready |
//! | 4. Secrets | [`cluster`](super::cluster), a reconcile of its own for each cluster, since all services share them |
//! | 5. AppProject | [`project`], likewise |
//! | 6. Applications | *Proving*, *Acting* |
//! | 7. status, 8. one patch | *Reporting* |
//!
//! *Proving* reads a cluster before its Application is removed. If a cluster has two Applications, it reads the first before
//! the second is removed. The absence of an object from a cache proves nothing. Each *Acting* is a batch of missing writes,
//! decided from the latest state. A failure on one cluster does not delay the others.
//!
//! Source: "Controller flow".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::dpuservice::DPUServiceStatus;
use lockstep_engine::action::{Action, Class, Failure, Outcome, Subresource, Success};
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::finalizer;
use lockstep_engine::object::{Name, annotation, is_deleting, metadata};
use lockstep_engine::pairs;
use lockstep_engine::time::Now;
use lockstep_engine::write::merge_patch;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::application::{self, App, of_service};
use super::names::{self, APPLIED, FINALIZER, SERVICE_NAME, SERVICE_NAMESPACE};
use super::world::{Cluster, Service, World, service_ref};
use super::{Controller, lagging, orphans, project, service_delete, status};

mod missing;

use missing::{doubts, ends, missing};

/// The minimum time between two status writes, unless a condition changes.
const SETTLES: Duration = Duration::from_secs(5);
/// The maximum number of writes of one service in flight.
const AT_A_TIME: usize = 10;

/// What the reconcile of a service waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The finalizer is being added.
    Entering,
    /// The state that removals depend on is being read.
    Proving(Box<Pass>, Vec<Doubt>),
    /// These writes are in flight.
    Acting(Box<Pass>, Vec<Task>),
    /// The status is being written. It changes these conditions.
    Reporting(Verdict, Vec<Condition>),
    /// The orphans of a deleted service are being removed.
    Sweeping(orphans::Stage),
    /// The service is being removed.
    Removing(service_delete::Stage),
}

/// The state of a pass.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pass {
    /// Whether the server has confirmed that the service exists.
    is_there: bool,
    /// Clusters that are being deleted or gone, confirmed by the server.
    gone: BTreeSet<Name>,
    /// Clusters with more than one Application, confirmed by the server.
    doubled: BTreeSet<Name>,
    /// The attempted writes, with the digest of what was applied: the desired state may have changed in the meantime.
    #[serde(with = "pairs")]
    tried: BTreeMap<Task, String>,
    /// Whether the cache turned out to be stale.
    lags: bool,
    /// The failures, by cluster.
    #[serde(with = "pairs")]
    failures: BTreeMap<Name, Failure>,
}

impl Pass {
    /// Returns the clusters with a failure that people have to fix.
    pub fn refusals(&self) -> impl Iterator<Item = (&Name, &Failure)> {
        self.failures.iter().filter(|(_, failure)| !failure.passes())
    }

    /// Returns a failure on a cluster that may be temporary.
    pub fn transient_failure(&self, cluster: &Name) -> Option<&Failure> {
        self.failures.get(cluster).filter(|failure| failure.passes())
    }
}

/// A cached state that the server must confirm, because an Application would be created or removed because of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Doubt {
    /// The service exists.
    Service,
    /// The cluster is being deleted, or is gone.
    Cluster(Name),
    /// This is the first of several Applications on a cluster, which stays.
    First(Name, Name),
}

/// One write: of the Application of a cluster, or the removal of an Application.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    cluster: Name,
    application: Name,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum What {
    Create,
    Apply,
    Remove,
    /// Ends the operation of an Application that is being removed, or an operation that delays a change.
    Terminate,
}

pub(super) fn wait(actions: Vec<Action>, stage: Stage) -> Next<super::Stage> {
    Next::Await(actions, super::Stage::Service(stage))
}

impl Controller {
    pub(super) fn begin_service(&mut self, key: &Name, now: Now) -> Next<super::Stage> {
        let Some(service) = self.world.services.get(key) else {
            self.world.told.remove(key);
            self.world.held_up.remove(key);
            return self.begin_sweep(key);
        };
        if service.deleting {
            return self.begin_removal(key, now);
        }
        match finalizer::add(&service_ref(key), &service.metadata, FINALIZER) {
            Some(enter) => wait(vec![enter], Stage::Entering),
            None => self.prove(key, Pass::default(), now),
        }
    }

    pub(super) fn resume_service(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        let is_deleting = self.world.services.get(key).is_none_or(|service| service.deleting);
        match stage {
            Stage::Sweeping(stage) => self.resume_sweep(key, stage, outcomes),
            Stage::Removing(stage) => self.resume_removal(key, stage, outcomes, now),
            Stage::Reporting(verdict, changed) => self.reported(key, verdict, &changed, outcomes, now),
            // A deletion began during the pass.
            _ if is_deleting => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Entering => self.entered(key, outcomes, now),
            Stage::Proving(pass, doubts) => self.proven(key, pass, doubts, outcomes, now),
            Stage::Acting(pass, tasks) => self.acted(key, pass, tasks, outcomes, now),
        }
    }

    fn entered(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<super::Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.services.absorb(key.clone(), Service::read(&object));
                self.prove(key, Pass { is_there: true, ..Pass::default() }, now)
            }
            Some(Err(failure)) => Next::Done(Verdict::retry("entering the finalizer", &failure)),
            _ => Next::Done(lagging()),
        }
    }

    /// Reads the clusters that have an Application and seem to be deleted, or to be gone.
    fn prove(&mut self, key: &Name, pass: Pass, now: Now) -> Next<super::Stage> {
        if self.world.unwatchable_kind().is_some() {
            return self.report(key, &pass, now);
        }
        // Until then the permitted servers are unknown. The reconcile of the last cluster enqueues this key.
        if !self.world.is_judged() {
            return Next::Done(Verdict::Converged);
        }
        let mut doubts = doubts(&self.world, key);
        if pass.is_there {
            doubts.retain(|doubt| !matches!(doubt, Doubt::Service));
        }
        let reads = doubts.iter().map(|doubt| match doubt {
            Doubt::Service => Action::Get { target: service_ref(key), metadata_only: false },
            Doubt::Cluster(name) => {
                Action::Get { target: name.object(&names::dpu_cluster()), metadata_only: false }
            }
            Doubt::First(..) => {
                application::survey(application::selector([SERVICE_NAMESPACE, SERVICE_NAME], key))
            }
        });
        wait(reads.collect(), Stage::Proving(Box::new(pass), doubts))
    }

    fn proven(
        &mut self,
        key: &Name,
        mut pass: Box<Pass>,
        doubts: Vec<Doubt>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        for (doubt, outcome) in doubts.into_iter().zip(outcomes) {
            match (doubt, outcome) {
                (Doubt::Service, Ok(Success::Object(object))) => {
                    let read = Service::read(&object);
                    let known = self.world.services.get(key);
                    pass.is_there = known.is_some_and(|known| known.uid == read.uid) && !read.deleting;
                    pass.lags |= !pass.is_there;
                }
                (Doubt::Service, Err(failure)) if failure.class != Class::NotFound => {
                    return Next::Done(Verdict::retry("reading the DPUService", &failure));
                }
                (Doubt::Service, _) => pass.lags = true,
                (Doubt::Cluster(cluster), Ok(Success::Object(object))) if is_deleting(&object) => {
                    pass.gone.insert(cluster);
                }
                (Doubt::Cluster(cluster), Ok(Success::Object(object))) => {
                    self.world.clusters.absorb(cluster.clone(), Cluster::read(&object));
                    self.outbox.woken.push(super::Key::Cluster(cluster));
                }
                (Doubt::Cluster(cluster), Err(failure)) if failure.class == Class::NotFound => {
                    pass.gone.insert(cluster);
                }
                (Doubt::First(cluster, first), outcome) => {
                    let found = application::surveyed(Some(outcome)).unwrap_or_default();
                    let is_first =
                        |(name, app): &(Name, App)| *name == first && app.cluster == cluster && !app.deleting;
                    if found.iter().any(is_first) {
                        pass.doubled.insert(cluster);
                    } else {
                        pass.lags = true;
                    }
                }
                (Doubt::Cluster(_), Ok(_)) => {}
                (Doubt::Cluster(cluster), Err(failure)) => {
                    pass.failures.insert(cluster, failure);
                }
            }
        }
        self.act(key, pass, now)
    }

    /// Executes the next missing writes.
    fn act(&mut self, key: &Name, mut pass: Box<Pass>, now: Now) -> Next<super::Stage> {
        let Some(Ok(spec)) = self.world.services.get(key).map(|service| &service.spec) else {
            return self.report(key, &pass, now);
        };
        let mut missing = missing(&self.world, key, spec, &pass);
        self.world.note_held_up(key, now);
        missing.extend(ends(&self.world, key, &missing, now));
        let is_new = |(task, action): &(Task, Action)| pass.tried.get(task) != Some(&mark(action));
        let (tasks, actions): (Vec<Task>, Vec<Action>) =
            missing.into_iter().filter(is_new).take(AT_A_TIME).unzip();
        if tasks.is_empty() {
            self.complain_of_names(key, &mut pass);
            return self.report(key, &pass, now);
        }
        pass.tried.extend(tasks.iter().cloned().zip(actions.iter().map(mark)));
        // Failures of earlier attempts with another desired state no longer count.
        pass.failures.retain(|cluster, _| tasks.iter().all(|task| task.cluster != *cluster));
        wait(actions, Stage::Acting(pass, tasks))
    }

    /// Records that all names for an Application are taken, which people have to fix. When another owner's Application is
    /// deleted, services are enqueued.
    fn complain_of_names(&mut self, key: &Name, pass: &mut Pass) {
        let world = &self.world;
        let served: BTreeSet<&Name> = of_service(world, key).map(|(_, app)| &app.cluster).collect();
        let is_nameless = |cluster: &&Name| {
            !served.contains(cluster)
                && server(world, cluster, None).is_some_and(|server| is_prepared(world, cluster, server))
                && application::free_name(world, key, cluster).is_none()
        };
        let nameless: Vec<Name> =
            world.staying().map(|(cluster, _)| cluster).filter(is_nameless).cloned().collect();
        for cluster in nameless {
            let names = application::possible_names(&self.world, key, &cluster);
            let told: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
            let complaint =
                format!("Applications of others have its names; remove one of these: {}", told.join(", "));
            pass.failures.insert(cluster, Failure::new(Class::Invalid, complaint));
        }
    }

    fn acted(
        &mut self,
        key: &Name,
        mut pass: Box<Pass>,
        tasks: Vec<Task>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            match outcome {
                Ok(Success::Object(object)) => {
                    let app = App::read(&object);
                    if let (What::Terminate, Some(app)) = (task.what, &app) {
                        self.report_ended(key, &task.application, app, now);
                    }
                    self.absorb_application(&task.application, app);
                }
                Ok(_) => self.application_removed(&task.application),
                // The watch shows who has the name, or that an object that existed a moment ago is gone.
                Err(failure)
                    if (task.what == What::Create && failure.class == Class::AlreadyExists)
                        || (matches!(task.what, What::Remove | What::Terminate)
                            && failure.class == Class::NotFound)
                        // The sync that delayed a change may have ended by itself.
                        || (task.what == What::Terminate && failure.class == Class::Conflict) =>
                {
                    pass.lags = true;
                }
                Err(failure) => {
                    pass.failures.insert(task.cluster, failure);
                }
            }
        }
        self.act(key, pass, now)
    }

    fn report(&mut self, key: &Name, pass: &Pass, now: Now) -> Next<super::Stage> {
        let Some(service) = self.world.services.get(key) else { return Next::Done(Verdict::Converged) };
        let (wanted, changed) = status::wanted(&self.world, key, service, pass, now);
        // A mistake that users must correct is not a failure of the controller, unless something else has failed.
        let failures = || pass.failures.iter();
        let failed = failures().find(|(_, failure)| failure.class != Class::Invalid).or(failures().next());
        let verdict = match failed {
            Some((cluster, failure)) => {
                Verdict::retry_for_user(&format!("the Application of DPUCluster {cluster}"), failure)
            }
            None if pass.lags => lagging(),
            None => match self.world.next_overdue(key, now) {
                Some(rest) => Verdict::Requeue(rest),
                None => Verdict::Converged,
            },
        };
        self.write_status(key, &wanted, verdict, changed, now)
    }

    /// Writes a status if it differs from the current one.
    pub(super) fn write_status(
        &mut self,
        key: &Name,
        wanted: &DPUServiceStatus,
        verdict: Verdict,
        changed: Vec<Condition>,
        now: Now,
    ) -> Next<super::Stage> {
        let Some(service) = self.world.services.get(key) else { return Next::Done(Verdict::Converged) };
        // A new time of Argo CD's last comparison alone is not written: it is written with other changes.
        let silent =
            DPUServiceStatus { reconciled_at: service.status.reconciled_at.clone(), ..wanted.clone() };
        let status = merge_patch(&json!(service.status), &json!(wanted));
        let Some(status) = status.filter(|_| silent != service.status) else { return Next::Done(verdict) };
        // While Argo CD deploys or removes, each of its steps on each cluster would cause a write.
        let since = self.world.told.get(key).map_or(SETTLES, |told| now.monotonic.since(*told));
        let rest = SETTLES.saturating_sub(since);
        let again = match verdict {
            Verdict::Converged => Some(rest),
            Verdict::Requeue(after) => Some(after.min(rest)),
            Verdict::Retry { .. } => None,
        };
        if let Some(again) = again.filter(|_| changed.is_empty() && !rest.is_zero()) {
            return Next::Done(Verdict::Requeue(again));
        }
        let metadata = json!({
            "uid": service.uid,
            "resourceVersion": metadata(&service.metadata, "resourceVersion"),
        });
        let patch = Arc::new(json!({ "metadata": metadata, "status": status }));
        let write = Action::Patch { target: service_ref(key), subresource: Some(Subresource::Status), patch };
        wait(vec![write], Stage::Reporting(verdict, changed))
    }

    pub(super) fn reported(
        &mut self,
        key: &Name,
        verdict: Verdict,
        changed: &[Condition],
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.services.absorb(key.clone(), Service::read(&object));
                self.world.told.insert(key.clone(), now.monotonic);
                self.announce(key, changed, now);
                Next::Done(verdict)
            }
            Some(Err(failure)) => Next::Done(Verdict::retry("writing the status", &failure)),
            _ => Next::Done(lagging()),
        }
    }

    /// Stores the answer to a read or write of an Application, and enqueues the other keys that depend on it.
    pub(super) fn absorb_application(&mut self, name: &Name, app: Option<App>) {
        let Some(mut app) = app else { return };
        let before = self.world.applications.get(name).cloned();
        if let Some(before) = before.as_ref().filter(|before| before.uid == app.uid) {
            app.report.remember(&before.report);
        }
        if self.world.applications.absorb(name.clone(), app.clone()) {
            self.application_changed(before.as_ref(), &app);
        }
    }

    /// Records that an Application is gone.
    pub(super) fn application_removed(&mut self, name: &Name) {
        let Some(app) = self.world.applications.get(name).cloned() else { return };
        let version = lockstep_engine::cache::Cached::resource_version(&app);
        self.world.applications.removed(name.clone(), version);
        self.application_gone(&app);
    }
}

/// Returns the text that distinguishes an apply from others of the same Application.
fn mark(action: &Action) -> String {
    let Action::Apply { manifest, .. } = action else { return String::new() };
    annotation(manifest, APPLIED).unwrap_or_default().to_owned()
}

/// Returns the server that an Application deploys to: the cluster's, or, if that is unknown, its current one.
pub fn server<'a>(world: &'a World, cluster: &Name, app: Option<&'a App>) -> Option<&'a str> {
    world.server(cluster).or_else(|| app?.server())
}

/// Returns whether Argo CD has the Secret and the permission to deploy to a cluster.
pub fn is_prepared(world: &World, cluster: &Name, server: &str) -> bool {
    let known = world.argo_secret(cluster).and_then(|(_, secret)| secret.server.as_deref());
    known == Some(server) && project::permits(world, server)
}
