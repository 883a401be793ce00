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
//! | 5. AppProject | [`project`](super::project), likewise |
//! | 6. Applications | *Proving*, *Acting* |
//! | 7. status, 8. one patch | *Reporting* |
//!
//! *Proving* reads a cluster before its Application is removed. If a cluster has two Applications, it reads the first before
//! the second is removed. The absence of an object from a cache proves nothing. Each *Acting* is a batch of missing writes,
//! decided from the latest state. A failure on one cluster does not delay the others.
//!
//! Source: "Controller flow".

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_engine::action::{Action, Answer as _, ErrorKind, Failure, KubeRequest, Outcome, only};
use lockstep_engine::digest::digest;
use lockstep_engine::finalizer;
use lockstep_engine::object::{Name, annotation, is_deleting};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

mod missing;
mod pass;

use missing::{doubts, ends, missing};
use pass::{Doubt, Pass, Task, What};

use super::status_writer::Reporting;
use super::survey::{selector, survey, surveyed};
use super::verdict::lagging;
use super::{orphans, service_delete};
use crate::desired::application::{free_name, possible_names};
use crate::destination::{is_prepared, server};
use crate::model::application::{App, REFRESH, RETRY};
use crate::model::service::{Service, service_ref};
use crate::names::{self, APPLIED, FINALIZER, SERVICE_NAME, SERVICE_NAMESPACE};
use crate::state::Controller;
use crate::status;
use crate::store::repairs::Written;

/// The maximum number of writes of one service in flight.
const AT_A_TIME: usize = 10;

/// In the message of an API server with a CRD of Argo CD before 3.2.
const REFUSED: &str = ".spec.syncPolicy.retry.refresh: field not declared in schema";

/// What the reconcile of a service waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The finalizer is being added.
    Entering,
    /// The state that removals depend on is being read.
    Proving(Box<Pass>, Vec<Doubt>),
    /// These writes are in flight.
    Acting(Box<Pass>, Vec<Task>),
    /// The status is being written.
    Reporting(Reporting),
    /// The orphans of a deleted service are being removed.
    Sweeping(orphans::Stage),
    /// The service is being removed.
    Removing(service_delete::Stage),
}

impl From<service_delete::Step> for Stage {
    fn from(step: service_delete::Step) -> Self {
        match step {
            service_delete::Step::Deletion(stage) => Self::Removing(stage),
            service_delete::Step::Status(reporting) => Self::Reporting(reporting),
        }
    }
}

impl Controller {
    pub(crate) fn begin_service(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let Some(service) = self.store.services.get(key) else {
            self.store.status_written_at.remove(key);
            self.store.held_up.remove(key);
            self.store.repairs.remove(&service_ref(key));
            return self.begin_sweep(key).map(Stage::Sweeping);
        };
        if service.deleting {
            self.store.repairs.remove(&service_ref(key));
            return self.begin_removal(key, now).map(Stage::from);
        }
        match finalizer::add(&service_ref(key), &service.metadata, FINALIZER) {
            Some(enter) => Next::Await(vec![enter], Stage::Entering),
            None => self.prove(key, Pass::default(), now),
        }
    }

    pub(crate) fn resume_service(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        let is_deleting = self.store.services.get(key).map(|service| service.deleting);
        match stage {
            Stage::Sweeping(stage) => self.resume_sweep(key, stage, outcomes).map(Stage::Sweeping),
            // It was created again during the pass, and the new one stays.
            Stage::Removing(_) if is_deleting == Some(false) => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Removing(stage) => self.resume_removal(key, stage, outcomes, now).map(Stage::from),
            Stage::Reporting(reporting) => Next::Done(self.status_written(key, reporting, outcomes, now)),
            // A deletion began during the pass. What its requests did is known all the same.
            Stage::Acting(mut pass, tasks) if is_deleting != Some(false) => {
                self.take_in(key, &mut pass, tasks, outcomes, now);
                Next::Done(Verdict::Requeue(Duration::ZERO))
            }
            _ if is_deleting != Some(false) => Next::Done(Verdict::Requeue(Duration::ZERO)),
            Stage::Entering => self.entered(key, outcomes, now),
            Stage::Proving(pass, doubts) => self.proven(key, pass, doubts, outcomes, now),
            Stage::Acting(pass, tasks) => self.acted(key, pass, tasks, outcomes, now),
        }
    }

    fn entered(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match only(outcomes).object() {
            Ok(object) => {
                self.confirm_service(key, &object);
                self.prove(key, Pass { is_there: true, ..Pass::default() }, now)
            }
            Err(failure) => Next::Done(Verdict::retry("entering the finalizer", &failure)),
        }
    }

    /// Reads the clusters that have an Application and seem to be deleted, or to be gone.
    fn prove(&mut self, key: &Name, pass: Pass, now: Now) -> Next<Stage> {
        if self.store.unwatchable_kind().is_some() {
            return self.report(key, &pass, now);
        }
        // Until then the permitted servers are unknown. The reconcile of the last cluster enqueues this key.
        if !self.store.is_judged() {
            return Next::Done(Verdict::Converged);
        }
        let mut doubts = doubts(&self.store, key);
        if pass.is_there {
            doubts.retain(|doubt| !matches!(doubt, Doubt::Service));
        }
        let reads = doubts.iter().map(|doubt| match doubt {
            Doubt::Service => {
                Action::Kube(KubeRequest::Get { target: service_ref(key), metadata_only: false })
            }
            Doubt::Cluster(name) => Action::Kube(KubeRequest::Get {
                target: name.object(&names::dpu_cluster()),
                metadata_only: false,
            }),
            Doubt::First(..) => survey(selector([SERVICE_NAMESPACE, SERVICE_NAME], key), true),
        });
        Next::Await(reads.collect(), Stage::Proving(Box::new(pass), doubts))
    }

    fn proven(
        &mut self,
        key: &Name,
        mut pass: Box<Pass>,
        doubts: Vec<Doubt>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        for (doubt, outcome) in doubts.into_iter().zip(outcomes) {
            match doubt {
                Doubt::Service => match outcome.found() {
                    Ok(Some(object)) => {
                        let read = Service::read(&object);
                        let known = self.store.services.get(key);
                        pass.is_there = known.is_some_and(|known| known.uid == read.uid) && !read.deleting;
                        pass.lags |= !pass.is_there;
                    }
                    Ok(None) => pass.lags = true,
                    Err(failure) => return Next::Done(Verdict::retry("reading the DPUService", &failure)),
                },
                Doubt::Cluster(cluster) => match outcome.found() {
                    Ok(Some(object)) if !is_deleting(&object) => {
                        self.absorb_cluster(&cluster, &object);
                    }
                    Ok(_) => {
                        pass.gone.insert(cluster);
                    }
                    Err(failure) => {
                        pass.failures.insert(cluster, failure);
                    }
                },
                Doubt::First(cluster, first) => {
                    let found = surveyed(&self.store, outcome).unwrap_or_default();
                    let is_first =
                        |(name, app): &(Name, App)| *name == first && app.cluster == cluster && !app.deleting;
                    if found.iter().any(is_first) {
                        pass.doubled.insert(cluster);
                    } else {
                        pass.lags = true;
                    }
                }
            }
        }
        self.act(key, pass, now)
    }

    /// Executes the next missing writes.
    fn act(&mut self, key: &Name, mut pass: Box<Pass>, now: Now) -> Next<Stage> {
        let Some(Ok(spec)) = self.store.services.get(key).map(|service| &service.spec) else {
            return self.report(key, &pass, now);
        };
        let mut missing = missing(&self.store, key, spec, &pass);
        self.store.note_held_up(key, now);
        missing.extend(ends(&self.store, key, &missing, now));
        let repairs = self.take_out_repairs(key, &mut missing, now);
        pass.repairs_in = repairs.values().min().copied();
        let is_new = |(task, action): &(Task, Action)| pass.tried.get(task) != Some(&mark(action));
        let (new, tried): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_new);
        let (tasks, actions): (Vec<Task>, Vec<Action>) = new.into_iter().take(AT_A_TIME).unzip();
        if tasks.is_empty() {
            let applied = tried.into_iter().map(|(task, _)| task).filter(|task| task.what == What::Apply);
            pass.contested = applied.map(|task| task.cluster).chain(repairs.into_keys()).collect();
            self.complain_of_names(key, &mut pass);
            return self.report(key, &pass, now);
        }
        pass.tried.extend(tasks.iter().cloned().zip(actions.iter().map(mark)));
        // Failures of earlier attempts with another desired state no longer count.
        pass.failures.retain(|cluster, _| tasks.iter().all(|task| task.cluster != *cluster));
        Next::Await(actions, Stage::Acting(pass, tasks))
    }

    /// Takes out the writes that have to wait: another client has undone them shortly after the last time. Returns their clusters,
    /// and for how long each waits.
    fn take_out_repairs(
        &mut self,
        key: &Name,
        missing: &mut Vec<(Task, Action)>,
        now: Now,
    ) -> BTreeMap<Name, Duration> {
        let by = service_ref(key);
        let wanted = missing.iter().filter_map(|(task, action)| task.written(mark(action)));
        let wanted: Vec<Written> = wanted.collect();
        self.store.repairs.settle(&by, &wanted, now);
        let mut waits = BTreeMap::new();
        missing.retain(|(task, action)| {
            let written = task.written(mark(action));
            let wait = written.and_then(|written| self.store.repairs.wait(&by, &written, now));
            waits.extend(wait.map(|wait| (task.cluster.clone(), wait)));
            wait.is_none()
        });
        waits
    }

    /// Records that all names for an Application are taken, which people have to fix. When another owner's Application is
    /// deleted, services are enqueued.
    fn complain_of_names(&mut self, key: &Name, pass: &mut Pass) {
        let store = &self.store;
        let served: BTreeSet<&Name> = store.of_service(key).map(|(_, app)| &app.cluster).collect();
        let is_nameless = |cluster: &&Name| {
            !served.contains(cluster)
                && server(store, cluster, None).is_some_and(|server| is_prepared(store, cluster, server))
                && free_name(store, key, cluster).is_none()
        };
        let nameless: Vec<Name> =
            store.staying().map(|(cluster, _)| cluster).filter(is_nameless).cloned().collect();
        for cluster in nameless {
            let names = possible_names(&self.store, key, &cluster);
            let taken: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
            let problem =
                format!("Applications of others have its names; remove one of these: {}", taken.join(", "));
            pass.failures.insert(cluster, Failure::new(ErrorKind::Invalid, problem));
        }
    }

    fn acted(
        &mut self,
        key: &Name,
        mut pass: Box<Pass>,
        tasks: Vec<Task>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        self.take_in(key, &mut pass, tasks, outcomes, now);
        self.act(key, pass, now)
    }

    /// Records what the requests of a pass did.
    fn take_in(&mut self, key: &Name, pass: &mut Pass, tasks: Vec<Task>, outcomes: Vec<Outcome>, now: Now) {
        let by = service_ref(key);
        let (mut written, mut failed) = (Vec::new(), Vec::new());
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let list = if outcome.is_ok() { &mut written } else { &mut failed };
            list.extend(task.written(pass.tried.get(&task).cloned().unwrap_or_default()));
            if task.what == What::Remove {
                self.store.repairs.forget(&by, &task.cluster, now);
            }
            match outcome.remaining() {
                Ok(Some(object)) => {
                    if task.what == What::Terminate
                        && let Some(app) = App::read(&object)
                    {
                        self.report_ended(key, &task.application, &app, now);
                    }
                    self.absorb_application(&task.application, &object);
                }
                Ok(None) => self.application_removed(&task.application),
                // The watch shows who has the name, or that an object that existed a moment ago is gone.
                Err(failure)
                    if (task.what == What::Create && failure.class == ErrorKind::AlreadyExists)
                        || (matches!(task.what, What::Remove | What::Terminate)
                            && failure.is_absence())
                        // The sync that delayed a change may have ended by itself.
                        || (task.what == What::Terminate && failure.class == ErrorKind::Conflict) =>
                {
                    pass.lags = true;
                }
                Err(failure) => {
                    self.note_refresh_refused(&failure);
                    pass.failures.insert(task.cluster, failure);
                }
            }
        }
        self.store.repairs.record(by, written, &failed, now);
    }

    /// Records that the server does not know `retry.refresh` (decision 70). The pass then applies without it.
    fn note_refresh_refused(&mut self, failure: &Failure) {
        let is_refused = failure.class == ErrorKind::Invalid && failure.message.contains(REFUSED);
        if is_refused && !self.store.refuses_refresh {
            self.store.refuses_refresh = true;
            // Passes of other services have failed too.
            self.wake_services();
        }
    }

    fn report(&mut self, key: &Name, pass: &Pass, now: Now) -> Next<Stage> {
        let Some(service) = self.store.services.get(key) else { return Next::Done(Verdict::Converged) };
        let (wanted, changed) =
            status::wanted(&self.store, key, service, &pass.failures, &pass.contested, now);
        // A mistake that users must correct is not a failure of the controller, unless something else has failed.
        let failures = || pass.failures.iter();
        let failed =
            failures().find(|(_, failure)| failure.class != ErrorKind::Invalid).or(failures().next());
        let verdict = match failed {
            Some((cluster, failure)) => {
                Verdict::retry_for_user(&format!("the Application of DPUCluster {cluster}"), failure)
            }
            None if pass.lags => lagging(),
            None => match self.store.next_overdue(key, now) {
                Some(rest) => Verdict::Requeue(rest),
                None => Verdict::Converged,
            },
        };
        // A failure on one cluster does not delay the repairs on the others.
        let reported = self.store.repairs.contested(&service_ref(key), now).map(|(_, rest)| rest);
        let verdict = verdict.within(reported.chain(pass.repairs_in).min());
        self.write_status(key, &wanted, verdict, changed, now).map(Stage::Reporting)
    }
}

/// Returns the text that distinguishes a write from others of the same Application: the digest of what it writes, and whether it
/// has the field that a server may refuse.
fn mark(action: &Action) -> String {
    let manifest = match action {
        Action::Kube(KubeRequest::Apply { manifest, .. }) => manifest,
        Action::Kube(KubeRequest::Create { manifest, .. }) => return digest(&manifest["spec"]),
        _ => return String::new(),
    };
    let has_refresh = manifest["spec"].pointer(RETRY).is_some_and(|retry| retry.get(REFRESH).is_some());
    format!("{} {has_refresh}", annotation(manifest, APPLIED).unwrap_or_default())
}

#[cfg(test)]
mod tests;
