//! The reconcile of the AppProject: it permits what has to be deployed, and nothing else.
//!
//! ```text
//!  begin ─┬─ services stay, or Applications ──▶ Narrowing (if a server is no longer needed) ─▶ Writing
//!         └─ neither ──▶ Surveying ─▶ Removing
//! ```
//!
//! All services share it. A server stays permitted as long as an Application deploys to it, because Argo CD does not delete
//! objects on servers that are not permitted. Nothing waits for the end of the project's deletion: Argo CD, which removes its
//! finalizer, may not be running.
//!
//! Source: "Reconcile the ArgoCD `AppProject`".

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::action::{Action, Answer as _, Failure, KubeRequest, Outcome, only};
use lockstep_engine::cache::Cached as _;
use lockstep_engine::digest::digest;
use lockstep_engine::object::{ObjectRef, is_deleting};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use lockstep_engine::write::create_or_apply;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::survey::{survey, surveyed_or_end};
use super::verdict::lagging;
use crate::desired::project::{is_applied, manifest, servers};
use crate::model::project::{Project, name};
use crate::names::{self, SERVICE_NAME};
use crate::state::Controller;
use crate::store::cluster_access::Problem;
use crate::store::repairs::Written;

/// What the reconcile of the project waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The project is being written.
    Writing(Written),
    /// All Applications are being listed, before servers are removed from the project.
    Narrowing,
    /// All Applications are being listed, before the project is removed.
    Surveying,
    /// The project is being removed.
    Removing,
}

/// Returns the object of the reconcile that writes the project.
fn written_by() -> ObjectRef {
    name().object(&names::project())
}

impl Controller {
    pub(crate) fn begin_project(&mut self, now: Now) -> Next<Stage> {
        if self.store.is_wanted() && self.store.unwatchable_kind().is_some() {
            return Next::Done(Verdict::Converged);
        }
        let project = self.store.project().cloned();
        if !self.store.is_wanted() && self.store.applications.iter().next().is_none() {
            self.store.repairs.remove(&written_by());
            self.set_project_problem(None);
            let Some(_) = project.filter(|project| project.is_ours && !project.deleting) else {
                return Next::Done(Verdict::Converged);
            };
            return Next::Await(vec![survey(SERVICE_NAME.to_owned(), true)], Stage::Surveying);
        }
        if project.as_ref().is_some_and(|project| !project.is_ours) {
            self.set_project_failure(None);
            self.set_project_problem(None);
            return Next::Done(Verdict::Converged);
        }
        let is_wanted = self.store.is_wanted();
        if is_wanted && !self.store.is_judged() {
            return Next::Done(Verdict::Converged);
        }
        let servers = servers(&self.store);
        // A watch that is behind may not show an Application yet, and without its server Argo CD could not remove what it
        // deployed there.
        let is_narrower = |project: &Project| !project.servers.is_subset(&servers);
        if is_wanted && project.as_ref().is_some_and(is_narrower) {
            return Next::Await(vec![survey(SERVICE_NAME.to_owned(), false)], Stage::Narrowing);
        }
        self.write_project(project.as_ref(), servers, now)
    }

    /// Writes the project with these servers.
    fn write_project(
        &mut self,
        project: Option<&Project>,
        mut servers: BTreeSet<String>,
        now: Now,
    ) -> Next<Stage> {
        // Before the whole project is deleted, no server is removed from it. Without the project, though, Argo CD could not
        // remove anything.
        if let Some(project) = project.filter(|_| !self.store.is_wanted()) {
            if servers.is_subset(&project.servers) {
                return Next::Done(Verdict::Converged);
            }
            servers.extend(project.servers.iter().cloned());
        }
        let mut manifest = manifest(&servers);
        if let Some(project) = project.filter(|project| project.deleting) {
            manifest["metadata"]["finalizers"] = json!(project.finalizers);
        }
        if project.is_some_and(|project| is_applied(project, &manifest)) {
            self.set_project_failure(None);
            self.wake_leaving_clusters();
            return self.project_repaired(None, now);
        }
        let write = Written { of: name(), creates: project.is_none(), content: digest(&manifest["spec"]) };
        self.store.repairs.settle(&written_by(), std::slice::from_ref(&write), now);
        if let Some(wait) = self.store.repairs.wait(&written_by(), &write, now) {
            return self.project_repaired(Some(wait), now);
        }
        // Another client may take it over in between. Then it must not be changed.
        if let Some(project) = project {
            manifest["metadata"]["resourceVersion"] = json!(project.resource_version());
        }
        let seen = project.map(|project| &project.uid);
        let action = create_or_apply(name().object(&names::project()), manifest, seen);
        Next::Await(vec![action], Stage::Writing(write))
    }

    /// Ends a pass over a project that is as it should be, or of which a repair waits.
    fn project_repaired(&mut self, waits: Option<Duration>, now: Now) -> Next<Stage> {
        let problem = self.store.repairs.problem(&written_by(), waits, now);
        let (problem, delay) = problem.unzip();
        self.set_project_problem(problem);
        Next::Done(Verdict::Converged.within(delay))
    }

    pub(crate) fn resume_project(&mut self, stage: Stage, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        match stage {
            Stage::Narrowing => self.servers_surveyed(outcomes, now),
            Stage::Writing(write) => self.project_written(write, outcomes, now),
            Stage::Surveying => self.project_surveyed(outcomes),
            Stage::Removing => self.project_removed(outcomes),
        }
    }

    fn servers_surveyed(&mut self, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let found = match surveyed_or_end(&self.store, only(outcomes)) {
            Ok(found) => found,
            Err(verdict) => return Next::Done(verdict),
        };
        let Some(project) = self.store.project().filter(|project| project.is_ours).cloned() else {
            return Next::Done(lagging());
        };
        let used = found.iter().filter_map(|(_, app)| app.server()).map(str::to_owned);
        let mut servers = servers(&self.store);
        servers.extend(used.filter(|server| project.servers.contains(server)));
        self.write_project(Some(&project), servers, now)
    }

    fn project_written(&mut self, write: Written, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let failure = match only(outcomes).object() {
            Ok(object) => {
                self.store.projects.absorb(name(), Project::read(&object));
                self.wake_by_project();
                self.store.repairs.record(written_by(), vec![write], &[], now);
                None
            }
            Err(failure) => {
                self.store.repairs.record(written_by(), Vec::new(), &[write], now);
                Some(failure)
            }
        };
        if failure.as_ref().is_none_or(|failure| !failure.passes()) {
            self.set_project_failure(failure.as_ref());
        }
        match failure {
            Some(failure) => Next::Done(Verdict::retry("writing the AppProject", &failure)),
            // If the server has changed what was written, that is repaired later.
            None => self.begin_project(now),
        }
    }

    /// Records why the project is not as it was written, or that it is.
    fn set_project_problem(&mut self, problem: Option<Problem>) {
        if self.store.project_problem != problem {
            self.store.project_problem = problem;
            self.wake_services();
        }
    }

    /// Records why the project could not be written, or that it could.
    fn set_project_failure(&mut self, failure: Option<&Failure>) {
        let relevant = |failure: &Failure| (failure.class, failure.message.clone());
        if self.store.project_failure.as_ref().map(relevant) != failure.map(relevant) {
            self.store.project_failure = failure.cloned();
            self.wake_services();
        }
    }

    fn project_surveyed(&mut self, outcomes: Vec<Outcome>) -> Next<Stage> {
        let left = match surveyed_or_end(&self.store, only(outcomes)) {
            Ok(found) => !found.is_empty(),
            Err(verdict) => return Next::Done(verdict),
        };
        let is_removable = |project: &&Project| project.is_ours && !project.deleting;
        let project = self.store.project().filter(is_removable);
        match project {
            // The watch has not shown them yet.
            Some(_) if left || self.store.is_wanted() => Next::Done(lagging()),
            Some(project) => {
                let delete = Action::Kube(KubeRequest::Delete {
                    target: name().object(&names::project()),
                    uid: project.uid.clone(),
                    resource_version: Some(project.resource_version()),
                });
                Next::Await(vec![delete], Stage::Removing)
            }
            None => Next::Done(Verdict::Converged),
        }
    }

    fn project_removed(&mut self, outcomes: Vec<Outcome>) -> Next<Stage> {
        match only(outcomes).remaining() {
            Ok(Some(object)) if is_deleting(&object) => {
                self.store.projects.absorb(name(), Project::read(&object));
            }
            // This includes NotFound: it existed a moment ago. The watch shows when it is gone.
            Err(failure) => {
                self.set_removal_failure(&name(), Some(&failure.message));
                return Next::Done(Verdict::retry("removing the AppProject", &failure));
            }
            Ok(_) => {
                if let Some(project) = self.store.project() {
                    let version = project.resource_version();
                    self.store.projects.removed(name(), version);
                }
            }
        }
        self.set_removal_failure(&name(), None);
        self.project_changed();
        Next::Done(Verdict::Converged)
    }
}
