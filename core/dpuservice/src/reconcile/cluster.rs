//! The reconcile of a cluster: it writes the Secret that gives Argo CD access to the cluster, from the cluster's kubeconfig.
//!
//! ```text
//!  begin ─┬─ services stay, and the cluster, or Applications exist ──▶ Reading ─▶ Writing ─▶ Retargeting
//!         └─ the cluster or the last service is deleted ──▶ Surveying ─▶ Removing
//! ```
//!
//! The Secret is shared by all services. Watches show Secrets by their metadata only. The Secret and the kubeconfig are read
//! when the version of either differs from the one that was compared last. Their content is never stored.
//!
//! A Secret is deleted when its cluster or the last service is deleted. Its Applications are deleted first, and the project
//! must no longer permit the cluster. Without the Secret, Argo CD abandons Applications and does not delete what they have
//! deployed.
//!
//! Source: "Reconcile the secrets for each cluster"; decisions on shared objects.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Answer, ErrorKind, Failure, KubeRequest, Outcome, only};
use lockstep_engine::object::Name;
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use lockstep_engine::write::create_or_apply;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::cluster_delete;
use super::verdict::lagging;
use crate::desired::cluster_secret::{is_applied, manifest, secret_name};
use crate::destination::is_prepared;
use crate::key::Key;
use crate::model::application::{Index, application_ref};
use crate::model::cluster::Cluster;
use crate::model::kubeconfig;
use crate::model::secret::Secret;
use crate::names;
use crate::server_claims::{has_unresolved_older, older_claimant};
use crate::state::Controller;
use crate::store::cluster_access::{Claim, Found, Problem};
use crate::store::repairs::Written;

/// What the reconcile of a cluster waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The kubeconfig is being read, and the Secret, if it exists.
    Reading,
    /// The Secret is being written, and this is the result if that succeeds.
    Writing(Box<Found>),
    /// Terminating Applications are being moved to the cluster's server.
    Retargeting,
    /// A stage of the removal of the Secret.
    Leaving(cluster_delete::Stage),
}

/// Returns the record of a write of a cluster's Secret. The content is identified by the version of the kubeconfig that it is made
/// from: a digest of credentials would be stored with the state.
fn written(key: &Name, found: &Found) -> Option<Written> {
    let (content, existing) = found.compared.clone()?;
    Some(Written { of: key.clone(), creates: existing.is_none(), content })
}

impl Controller {
    pub(crate) fn begin_cluster(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let is_wanted = self.store.is_wanted();
        // While a kind can't be watched, nothing can be decided.
        if is_wanted && self.store.unwatchable_kind().is_some() {
            return Next::Done(Verdict::Converged);
        }
        // Argo CD needs access as long as there is anything to remove. With the last service all Secrets stay until the last
        // Application is removed. An outdated one would keep its server from the cluster that has it now.
        let index = Index::Cluster(key.clone());
        let is_kept = || {
            !is_wanted
                && self.store.argo_secret(key).is_some()
                && self.store.applications.iter().next().is_some()
        };
        let is_used = self.store.applications.keys_by(&index).next().is_some();
        let existing = self.store.clusters.get(key).filter(|_| !self.store.is_gone(key)).cloned();
        match existing {
            Some(cluster) if is_used || (!cluster.deleting && (is_wanted || is_kept())) => {
                self.reconcile_secret(key, &cluster)
            }
            _ => {
                self.store.repairs.remove(&key.object(&names::dpu_cluster()));
                self.leave(key, now).map(Stage::Leaving)
            }
        }
    }

    pub(crate) fn resume_cluster(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match stage {
            Stage::Reading => self.cluster_read(key, outcomes, now),
            Stage::Writing(found) => self.secret_written(key, *found, outcomes, now),
            Stage::Retargeting => self.retargeted(key, outcomes),
            Stage::Leaving(stage) => self.resume_leaving(key, stage, outcomes, now).map(Stage::Leaving),
        }
    }

    fn reconcile_secret(&mut self, key: &Name, cluster: &Cluster) -> Next<Stage> {
        self.store.stuck.remove(key);
        let Some(kubeconfig) = &cluster.kubeconfig else {
            return self.complain(key, "it has no kubeconfig (spec.kubeconfig is empty)".to_owned());
        };
        let Some(source) = self.store.secrets.get(kubeconfig) else {
            return self.complain(key, format!("the Secret {kubeconfig} of its kubeconfig does not exist"));
        };
        let existing = self.store.argo_secret(key);
        let versions = Some((source.marker(), existing.map(|(_, secret)| secret.marker())));
        let found =
            self.store.found.get(key).filter(|found| found.uid == cluster.uid && found.compared == versions);
        if let Some(found) = found {
            let rival = found.server.as_ref().and_then(|server| older_claimant(&self.store, key, server));
            if rival == found.rival && (existing.is_some() || found.problem.is_some()) {
                return self.retarget_terminating(key);
            }
        }
        let reads = [Some(kubeconfig), existing.map(|(name, _)| name)].into_iter().flatten();
        let reads = reads.map(|name| {
            Action::Kube(KubeRequest::Get { target: name.object(&names::secret()), metadata_only: false })
        });
        Next::Await(reads.collect(), Stage::Reading)
    }

    fn cluster_read(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let Some(cluster) = self.store.clusters.get(key).cloned() else { return Next::Done(lagging()) };
        let mut outcomes = outcomes.into_iter();
        let source = match outcomes.next().map(Answer::object) {
            Some(Ok(source)) => source,
            Some(Err(failure)) => return self.fail(key, "its kubeconfig can't be read", &failure),
            None => return Next::Done(lagging()),
        };
        let existing = match outcomes.next().map(Answer::found) {
            Some(Ok(Some(existing))) => Some(existing),
            // It was deleted in between; that event enqueues this key.
            Some(Ok(None)) => return Next::Done(lagging()),
            Some(Err(failure)) => {
                return self.fail(key, "its Secret in Argo CD's namespace can't be read", &failure);
            }
            None => None,
        };
        for object in [Some(&source), existing.as_ref()].into_iter().flatten() {
            self.absorb_secret(object);
        }
        let Some(kubeconfig) = cluster.kubeconfig.filter(|kubeconfig| *kubeconfig == Name::of(&source))
        else {
            return Next::Done(lagging());
        };
        // Another leader has created it in between. Without this check it would count as another owner's Secret, and a second
        // one would be created under another name.
        if existing.is_none() && self.store.argo_secret(key).is_some() {
            return Next::Done(lagging());
        }
        let copy = existing.as_ref().map(|existing| Secret::read(existing));
        // It was ours when the watch showed it, and no longer is.
        if copy.as_ref().is_some_and(|copy| copy.cluster.as_ref() != Some(key)) {
            return Next::Done(lagging());
        }
        let compared = (Secret::read(&source).marker(), copy.as_ref().map(Secret::marker));
        let found = Found { compared: Some(compared), failing: false, ..self.stored_result(key) };
        let connection = match kubeconfig::of_secret(&source) {
            Ok(connection) => connection,
            Err(problem) => {
                let problem = Some(Problem::lasting(format!("Secret {kubeconfig} can't be used: {problem}")));
                return self.record_result(key, &Found { problem, ..found.unclaimed() });
            }
        };
        let server = &connection.server;
        if let Some(rival) = older_claimant(&self.store, key, server) {
            let problem = Some(Problem::lasting(rival.describe(server)));
            let server = Some(server.clone());
            let _ = self.record_result(key, &Found { server, rival: Some(rival), problem, ..found });
            return self.retarget_terminating(key);
        }
        let found = Found { server: Some(server.clone()), rival: None, problem: None, ..found };
        // An older cluster that has not been reconciled yet may have the same server. Its reconcile enqueues this key.
        if existing.is_none() && has_unresolved_older(&self.store, key) {
            return Next::Done(Verdict::Converged);
        }
        let name = match &existing {
            Some(existing) => Name::of(existing),
            None => secret_name(&self.store, key),
        };
        let mut manifest = manifest(key, &name, &connection);
        if existing.as_ref().is_some_and(|existing| is_applied(existing, &manifest)) {
            return self.secret_found(key, found, None, now);
        }
        let by = key.object(&names::dpu_cluster());
        if let Some(write) = written(key, &found) {
            self.store.repairs.settle(&by, std::slice::from_ref(&write), now);
            if let Some(wait) = self.store.repairs.wait(&by, &write, now) {
                return self.secret_found(key, found, Some(wait), now);
            }
        }
        // Another client may take it over in between. Then it must not be changed.
        if let Some(copy) = &copy {
            manifest["metadata"]["resourceVersion"] = json!(copy.version);
        }
        let seen = copy.as_ref().map(|copy| &copy.uid);
        let write = create_or_apply(name.object(&names::secret()), manifest, seen);
        // Other clusters are reconciled while this waits for the answer.
        let claim = Claim { uid: found.uid.clone(), server: connection.server };
        if let Some(earlier) = self.store.claims.insert(key.clone(), claim.clone())
            && earlier.server != claim.server
        {
            self.wake_sharers(key, Some(&earlier.server));
        }
        Next::Await(vec![write], Stage::Writing(Box::new(found)))
    }

    /// Records the state of the Secret: it is as it should be, or its repair waits. In the latter case, and as long as other
    /// clients keep changing it, each pass compares it again.
    fn secret_found(&mut self, key: &Name, found: Found, waits: Option<Duration>, now: Now) -> Next<Stage> {
        let problem = self.store.repairs.problem(&key.object(&names::dpu_cluster()), waits, now);
        let Some((problem, delay)) = problem else {
            let _ = self.record_result(key, &found);
            return self.retarget_terminating(key);
        };
        let _ = self.record_result(key, &Found { problem: Some(problem), compared: None, ..found });
        match self.retarget_terminating(key) {
            Next::Done(verdict) => Next::Done(verdict.within(Some(delay))),
            // Another pass follows.
            more @ Next::Await(..) => more,
        }
    }

    fn secret_written(&mut self, key: &Name, found: Found, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let write: Vec<Written> = written(key, &found).into_iter().collect();
        let by = key.object(&names::dpu_cluster());
        if outcomes.iter().all(Result::is_ok) {
            self.store.repairs.record(by, write, &[], now);
        } else {
            self.store.repairs.record(by, Vec::new(), &write, now);
        }
        match only(outcomes).object() {
            Ok(object) => {
                let compared =
                    found.compared.map(|(source, _)| (source, Some(Secret::read(&object).marker())));
                self.absorb_secret(&object);
                self.secret_found(key, Found { compared, ..found }, None, now)
            }
            Err(failure) => self.fail(key, "its Secret in Argo CD's namespace can't be written", &failure),
        }
    }

    /// Moves terminating Applications to the new server of their cluster, as is done with other Applications. At the old
    /// server Argo CD would abandon them, and not delete what they have deployed.
    fn retarget_terminating(&mut self, key: &Name) -> Next<Stage> {
        let store = &self.store;
        let mut stale = store.on_stale_server(&Index::Cluster(key.clone())).peekable();
        if stale.peek().is_none() {
            return self.remove_other_secrets(key);
        }
        let Some(server) = store.server(key).filter(|server| is_prepared(store, key, server)) else {
            return Next::Done(Verdict::Converged);
        };
        let patches = stale
            .map(|(name, app)| {
                let spec = json!({ "destination": { "server": server } });
                let patch = Arc::new(json!({ "metadata": { "uid": app.uid }, "spec": spec }));
                Action::Kube(KubeRequest::Patch { target: application_ref(name), subresource: None, patch })
            })
            .collect();
        Next::Await(patches, Stage::Retargeting)
    }

    /// Removes all Secrets of a cluster but the one that is kept up to date: Argo CD could use the others, with credentials or a
    /// server of the past. If another cluster owns the server in the kubeconfig, this cluster keeps the server in that Secret.
    /// Source: "The ArgoCD Secret - one for each cluster".
    fn remove_other_secrets(&self, key: &Name) -> Next<Stage> {
        let found = self.store.found.get(key);
        let is_settled = found.is_some_and(|found| found.problem.is_none() || found.rival.is_some());
        let kept = self.store.argo_secret(key).filter(|_| is_settled).map(|(name, _)| name);
        let Some(kept) = kept else { return Next::Done(Verdict::Converged) };
        let others = self.store.argo_secrets(key).filter(|(name, _)| *name != kept);
        cluster_delete::removal(others).map(Stage::Leaving)
    }

    fn retargeted(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Next<Stage> {
        let mut failed = None;
        for outcome in outcomes {
            match outcome.object() {
                Ok(object) => self.absorb_application(&Name::of(&object), &object),
                // It is gone.
                Err(failure) if failure.class == ErrorKind::NotFound => {}
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) => {
                Next::Done(Verdict::retry("moving an Application that is being removed", &failure))
            }
            None => self.remove_other_secrets(key),
        }
    }

    /// Returns the stored result of a cluster. Another cluster of the same name starts from an empty one.
    fn stored_result(&self, key: &Name) -> Found {
        let uid = self.store.clusters.get(key).map(|cluster| cluster.uid.clone()).unwrap_or_default();
        let known = self.store.found.get(key).filter(|found| found.uid == uid).cloned();
        known.unwrap_or(Found {
            uid,
            server: None,
            rival: None,
            problem: None,
            failing: false,
            compared: None,
        })
    }

    /// Records a problem that people have to fix.
    fn complain(&mut self, key: &Name, problem: String) -> Next<Stage> {
        let problem = Some(Problem::lasting(problem));
        let found = Found { problem, failing: false, compared: None, ..self.stored_result(key).unclaimed() };
        self.record_result(key, &found)
    }

    /// Records a failure that is retried. A failure that may be temporary is reported if the next attempt fails too, or if
    /// nothing is known about the cluster.
    fn fail(&mut self, key: &Name, what: &str, failure: &Failure) -> Next<Stage> {
        let known = self.stored_result(key);
        let is_unknown = self.store.found.get(key).is_none_or(|found| found.uid != known.uid);
        let problem = if is_unknown || known.failing || !failure.passes() {
            let message = format!("{what} ({})", failure.message);
            Some(Problem { message, passes: failure.passes() })
        } else {
            known.problem.clone()
        };
        // A claim stays: the request may have taken effect.
        self.learn(key, &Found { problem, failing: true, compared: None, ..known });
        Next::Done(Verdict::retry(what, failure))
    }

    /// Records the result. No request is in flight any more.
    fn record_result(&mut self, key: &Name, found: &Found) -> Next<Stage> {
        if let Some(claim) = self.store.claims.remove(key) {
            self.wake_sharers(key, Some(&claim.server));
        }
        self.learn(key, found);
        Next::Done(Verdict::Converged)
    }

    /// Stores the result, and enqueues the keys that depend on it.
    fn learn(&mut self, key: &Name, found: &Found) {
        let before = self.store.found.insert(key.clone(), found.clone());
        if before.as_ref().is_none_or(|before| before.uid != found.uid) {
            self.wake_eldest_unresolved();
        }
        let relevant = |found: &Found| (found.uid.clone(), found.problem.clone(), found.used_server());
        if before.as_ref().map(relevant) != Some(relevant(found)) {
            self.wake_services();
            self.outbox.woken.push(Key::Project);
        }
        let place = |found: &Found| (found.server.clone(), found.rival.is_some());
        if before.as_ref().map(place) != Some(place(found)) {
            self.wake_sharers(key, before.as_ref().and_then(|before| before.server.as_deref()));
            self.wake_sharers(key, found.server.as_deref());
        }
    }
}
