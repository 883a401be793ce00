//! The deletion of a cluster's Secret, when its cluster or the last service is deleted. It follows the deletion of the
//! Applications, and waits until the project no longer permits the cluster.

use std::time::Duration;

use lockstep_engine::action::{Action, Answer, KubeRequest, Outcome};
use lockstep_engine::object::{Name, ResourceVersion, is_deleting};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::survey::{selector, survey, surveyed_or_end};
use super::verdict::lagging;
use crate::desired::project::has_settled;
use crate::key::Key;
use crate::model::application::Index;
use crate::model::secret::Secret;
use crate::names::{self, CLUSTER_NAME, CLUSTER_NAMESPACE};
use crate::source::Source;
use crate::state::Controller;
use crate::store::GIVES_UP_AFTER;

/// The interval at which Applications are listed again that no watch has shown.
const RECHECK: Duration = Duration::from_secs(10);

/// What a deletion waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The remaining Applications are being listed.
    Surveying,
    /// The Secrets of these names and versions are being deleted.
    Removing(Vec<(Name, ResourceVersion)>),
}

/// Returns the requests that remove Secrets. None is removed if it has changed since it was seen.
pub(super) fn removal<'a>(secrets: impl Iterator<Item = (&'a Name, &'a Secret)>) -> Next<Stage> {
    let (removed, deletes) = secrets
        .map(|(name, secret)| {
            let delete = Action::Kube(KubeRequest::Delete {
                target: name.object(&names::secret()),
                uid: secret.uid.clone(),
                resource_version: Some(secret.version),
            });
            ((name.clone(), secret.version), delete)
        })
        .unzip();
    Next::Await(deletes, Stage::Removing(removed))
}

impl Controller {
    pub(super) fn leave(&mut self, key: &Name, now: Now) -> Next<Stage> {
        // Without a service the kubeconfig is not followed. It may have changed when the next service is created.
        let is_idle = !self.store.is_wanted() && self.store.argo_secret(key).is_none();
        if self.store.stays(key).is_none() || is_idle {
            let claimed = self.store.claims.remove(key).map(|claim| claim.server);
            let found = self.store.found.remove(key);
            if claimed.is_some() || found.is_some() {
                self.outbox.woken.push(Key::Project);
            }
            for server in [claimed, found.and_then(|found| found.server)] {
                self.wake_sharers(key, server.as_deref());
            }
        }
        if self.store.argo_secret(key).is_none() {
            self.store.stuck.remove(key);
            return Next::Done(Verdict::Converged);
        }
        if let Some(wait) = self.wait_for_applications(key, now) {
            return Next::Done(wait);
        }
        // The deletion or the change of the project enqueues this key. If Argo CD is made to abandon Applications, there is
        // no need to wait for the project.
        if !self.store.stuck.contains_key(key) && !has_settled(&self.store) && !self.holds_unused_server(key)
        {
            self.outbox.woken.push(Key::Project);
            return Next::Done(Verdict::Converged);
        }
        let left = survey(selector([CLUSTER_NAMESPACE, CLUSTER_NAME], key), true);
        // Before the deployed objects are abandoned, the server is queried whether the DPUCluster is really gone.
        let asked = self.store.stuck.contains_key(key).then(|| {
            Action::Kube(KubeRequest::Get { target: key.object(&names::dpu_cluster()), metadata_only: true })
        });
        Next::Await([Some(left), asked].into_iter().flatten().collect(), Stage::Surveying)
    }

    /// Returns whether a cluster that is gone keeps its server from another one although no Application needs it. With the
    /// last service the project stays until the last Application is removed, which may be one of that other cluster.
    fn holds_unused_server(&self, key: &Name) -> bool {
        let server = self.store.argo_secret(key).and_then(|(_, secret)| secret.server.clone());
        let is_needed = server
            .is_some_and(|server| self.store.applications.keys_by(&Index::Server(server)).next().is_some());
        !self.store.is_wanted() && self.store.stays(key).is_none() && !is_needed
    }

    /// Waits for the Applications to be removed. Only if their cluster is gone, the wait is limited: what they have deployed
    /// is lost with the cluster.
    fn wait_for_applications(&mut self, key: &Name, now: Now) -> Option<Verdict> {
        let index = Index::Cluster(key.clone());
        let apps: Vec<bool> = self
            .store
            .applications
            .keys_by(&index)
            .filter_map(|name| Some(self.store.applications.get(name)?.deleting))
            .collect();
        if apps.is_empty() {
            self.store.stuck.remove(key);
            return None;
        }
        if !self.store.is_gone(key) || apps.contains(&false) {
            self.store.stuck.remove(key);
            return Some(Verdict::Converged);
        }
        let since = *self.store.stuck.entry(key.clone()).or_insert(now.monotonic);
        let left = GIVES_UP_AFTER.saturating_sub(now.monotonic.since(since));
        (!left.is_zero()).then_some(Verdict::Requeue(left))
    }

    pub(super) fn resume_leaving(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match stage {
            Stage::Surveying => self.applications_surveyed(key, outcomes, now),
            Stage::Removing(removed) => Next::Done(self.secret_removed(key, &removed, outcomes)),
        }
    }

    fn applications_surveyed(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let mut outcomes = outcomes.into_iter();
        let Some(survey) = outcomes.next() else { return Next::Done(lagging()) };
        let found = match surveyed_or_end(&self.store, survey) {
            Ok(found) => found,
            Err(verdict) => return Next::Done(verdict),
        };
        match outcomes.next().map(Answer::found) {
            Some(Ok(Some(_))) => return Next::Done(lagging()),
            Some(Err(failure)) if !self.store.is_known_absence(Source::Clusters, &failure) => {
                return Next::Done(Verdict::retry("reading the DPUCluster", &failure));
            }
            Some(Ok(None) | Err(_)) | None => {}
        }
        // The state may have changed in the meantime.
        if self.store.is_wanted() && self.store.stays(key).is_some() {
            return Next::Done(lagging());
        }
        let is_given_up =
            self.store.stuck.contains_key(key) && self.wait_for_applications(key, now).is_none();
        let mut left = found.into_iter().filter(|(_, app)| app.cluster == *key);
        if left.any(|(_, app)| !(app.deleting && is_given_up)) {
            return Next::Done(Verdict::Requeue(RECHECK));
        }
        removal(self.store.argo_secrets(key))
    }

    fn secret_removed(
        &mut self,
        key: &Name,
        removed: &[(Name, ResourceVersion)],
        outcomes: Vec<Outcome>,
    ) -> Verdict {
        let mut failed = None;
        for ((name, version), outcome) in removed.iter().zip(outcomes) {
            let message = outcome.as_ref().err().map(|failure| failure.message.as_str());
            self.set_removal_failure(name, message);
            match outcome.remaining() {
                Ok(Some(object)) if is_deleting(&object) => {
                    self.absorb_secret(&object);
                }
                Ok(_) => {
                    let server = self.store.secrets.get(name).and_then(|secret| secret.server.clone());
                    self.store.secrets.removed(name.clone(), *version);
                    self.wake_sharers(key, server.as_deref());
                    self.wake_leaving_services();
                }
                // This includes NotFound: it existed a moment ago. The watch shows when it is gone.
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) => Verdict::retry("removing a cluster's Secret", &failure),
            None => Verdict::Converged,
        }
    }
}
