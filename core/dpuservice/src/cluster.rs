//! The reconcile of a cluster: it writes the Secret that gives Argo CD access to the cluster, from the cluster's kubeconfig.
//!
//! ```text
//!  begin ─┬─ services stay, and the cluster, or Applications exist ──▶ Reading ─▶ Writing ─▶ Following
//!         └─ the cluster or the last service is deleted ──▶ Surveying ─▶ Removing
//! ```
//!
//! The Secret is shared by all services. Watches show Secrets by their metadata only. The Secret and the kubeconfig are read
//! when the version of either differs from the one that was compared last. Their content is never stored.
//!
//! A Secret is deleted when its cluster or the last service is deleted. Its Applications are deleted first, and the project must
//! no longer permit the cluster. Without the Secret, Argo CD abandons Applications and does not delete what they have deployed.
//!
//! Source: "Reconcile the secrets for each cluster"; decisions on shared objects.

use std::sync::Arc;

use lockstep_engine::action::{Action, Class, Failure, Outcome, Success};
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::object::Name;
use lockstep_engine::time::Now;
use lockstep_engine::write::create_or_apply;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::application::{App, Index, application_ref};
use super::kubeconfig;
use super::names;
use super::service::is_prepared;
use super::world::{Cluster, Secret};
use super::{Controller, Key, lagging};

mod cluster_delete;
mod secret;
mod servers;

pub use cluster_delete::GIVES_UP_AFTER;
pub use secret::manifest;
use secret::{is_applied, secret_name};
pub use servers::{Claim, Rival};
use servers::{unclaimed, used_server};

/// The stored result of the reconcile of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The cluster's uid.
    pub uid: String,
    /// The server in the kubeconfig when it was last usable.
    pub server: Option<String>,
    /// The other cluster that has that server already.
    pub rival: Option<Rival>,
    /// Why the Secret is not in its desired state.
    pub trouble: Option<Problem>,
    /// Whether the last attempt failed. A failure is reported when the next attempt fails too.
    failing: bool,
    /// The version of the kubeconfig that was read, and of the Secret that it was compared with.
    compared: Option<Compared>,
}

/// Why a Secret is not in its desired state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// The message, for people.
    pub words: String,
    /// Whether it may be temporary.
    pub passes: bool,
}

impl Problem {
    /// Returns a problem that people have to fix.
    fn lasting(words: String) -> Self {
        Self { words, passes: false }
    }
}

/// The versions of the kubeconfig and of Argo CD's Secret.
type Compared = (String, Option<String>);

/// What the reconcile of a cluster waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The kubeconfig is being read, and the Secret, if it exists.
    Reading,
    /// The Secret is being written, and this is the result if that succeeds.
    Writing(Box<Found>),
    /// Terminating Applications are being moved to the cluster's server.
    Following,
    /// The remaining Applications are being listed.
    Surveying,
    /// The Secrets of these names and versions are being deleted.
    Removing(Vec<(Name, u64)>),
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<super::Stage> {
    Next::Await(actions, super::Stage::Cluster(stage))
}

impl Controller {
    pub(super) fn begin_cluster(&mut self, key: &Name, now: Now) -> Next<super::Stage> {
        let is_wanted = self.world.is_wanted();
        // While a kind can't be watched, nothing can be decided.
        if is_wanted && self.world.unwatchable_kind().is_some() {
            return Next::Done(Verdict::Converged);
        }
        // Argo CD needs access as long as there is anything to remove.
        let index = Index::Cluster(key.clone());
        let is_used = self.world.applications.keys_by(&index).next().is_some();
        let existing = self.world.clusters.get(key).filter(|_| !self.world.is_gone(key)).cloned();
        match existing {
            Some(cluster) if is_used || (is_wanted && !cluster.deleting) => {
                self.reconcile_secret(key, &cluster)
            }
            _ => self.leave(key, now),
        }
    }

    pub(super) fn resume_cluster(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        match stage {
            Stage::Reading => self.cluster_read(key, outcomes),
            Stage::Writing(found) => self.secret_written(key, *found, outcomes),
            Stage::Following => self.followed(outcomes),
            Stage::Surveying => self.surveyed(key, outcomes, now),
            Stage::Removing(removed) => self.secret_removed(key, &removed, outcomes),
        }
    }

    fn reconcile_secret(&mut self, key: &Name, cluster: &Cluster) -> Next<super::Stage> {
        self.world.stuck.remove(key);
        let Some(kubeconfig) = &cluster.kubeconfig else {
            return self.complain(key, "it has no kubeconfig (spec.kubeconfig is empty)".to_owned());
        };
        let Some(source) = self.world.secrets.get(kubeconfig) else {
            return self.complain(key, format!("the Secret {kubeconfig} of its kubeconfig does not exist"));
        };
        let existing = self.world.argo_secret(key);
        let versions = Some((source.marker(), existing.map(|(_, secret)| secret.marker())));
        let found =
            self.world.found.get(key).filter(|found| found.uid == cluster.uid && found.compared == versions);
        if let Some(found) = found {
            let rival = found.server.as_ref().and_then(|server| self.older_claimant(key, server));
            if rival == found.rival && (existing.is_some() || found.trouble.is_some()) {
                return self.follow(key);
            }
        }
        let reads = [Some(kubeconfig), existing.map(|(name, _)| name)].into_iter().flatten();
        let reads =
            reads.map(|name| Action::Get { target: name.object(&names::secret()), metadata_only: false });
        wait(reads.collect(), Stage::Reading)
    }

    fn cluster_read(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        let Some(cluster) = self.world.clusters.get(key).cloned() else { return Next::Done(lagging()) };
        let mut outcomes = outcomes.into_iter();
        let source = match outcomes.next() {
            Some(Ok(Success::Object(source))) => source,
            Some(Err(failure)) => return self.fail(key, "its kubeconfig can't be read", &failure),
            _ => return Next::Done(lagging()),
        };
        let existing = match outcomes.next() {
            Some(Ok(Success::Object(existing))) => Some(existing),
            // It was deleted in between; that event enqueues this key.
            Some(Err(failure)) if failure.class == Class::NotFound => return Next::Done(lagging()),
            Some(Err(failure)) => {
                return self.fail(key, "its Secret in Argo CD's namespace can't be read", &failure);
            }
            _ => None,
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
        if existing.is_none() && self.world.argo_secret(key).is_some() {
            return Next::Done(lagging());
        }
        let copy = existing.as_ref().map(|existing| Secret::read(existing));
        // It was ours when the watch showed it, and no longer is.
        if copy.as_ref().is_some_and(|copy| copy.cluster.as_ref() != Some(key)) {
            return Next::Done(lagging());
        }
        let compared = (Secret::read(&source).marker(), copy.as_ref().map(Secret::marker));
        let found = Found { compared: Some(compared), failing: false, ..self.known(key) };
        let connection = match kubeconfig::of_secret(&source) {
            Ok(connection) => connection,
            Err(complaint) => {
                let trouble =
                    Some(Problem::lasting(format!("Secret {kubeconfig} can't be used: {complaint}")));
                return self.find(key, &Found { trouble, ..unclaimed(found) });
            }
        };
        let server = &connection.server;
        if let Some(rival) = self.older_claimant(key, server) {
            let trouble = Some(Problem::lasting(rival.words(server)));
            return self
                .find(key, &Found { server: Some(server.clone()), rival: Some(rival), trouble, ..found });
        }
        let found = Found { server: Some(server.clone()), rival: None, trouble: None, ..found };
        // An older cluster that has not been reconciled yet may have the same server. Its reconcile enqueues this key.
        if existing.is_none() && self.has_unresolved_older(key) {
            return Next::Done(Verdict::Converged);
        }
        let name = match &existing {
            Some(existing) => Name::of(existing),
            None => secret_name(&self.world, key),
        };
        let mut manifest = manifest(key, &name, &connection);
        if existing.as_ref().is_some_and(|existing| is_applied(existing, &manifest)) {
            return self.find(key, &found);
        }
        // Another client may take it over in between. Then it must not be changed.
        if let Some(copy) = &copy {
            manifest["metadata"]["resourceVersion"] = json!(copy.version.to_string());
        }
        let seen = copy.as_ref().map(|copy| &*copy.uid);
        let write = create_or_apply(name.object(&names::secret()), manifest, seen);
        // Other clusters are reconciled while this waits for the answer.
        let claim = Claim { uid: found.uid.clone(), server: connection.server };
        self.world.claims.insert(key.clone(), claim);
        wait(vec![write], Stage::Writing(Box::new(found)))
    }

    fn secret_written(&mut self, key: &Name, found: Found, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                let compared =
                    found.compared.map(|(source, _)| (source, Some(Secret::read(&object).marker())));
                self.absorb_secret(&object);
                let _ = self.find(key, &Found { compared, ..found });
                self.follow(key)
            }
            Some(Err(failure)) => {
                self.fail(key, "its Secret in Argo CD's namespace can't be written", &failure)
            }
            _ => Next::Done(lagging()),
        }
    }

    /// Moves terminating Applications to the new server of their cluster, as is done with other Applications. At the old
    /// server Argo CD would abandon them, and not delete what they have deployed.
    fn follow(&mut self, key: &Name) -> Next<super::Stage> {
        let world = &self.world;
        let Some(server) = world.server(key).filter(|server| is_prepared(world, key, server)) else {
            return Next::Done(Verdict::Converged);
        };
        let patches: Vec<Action> = world
            .on_stale_server(&Index::Cluster(key.clone()))
            .map(|(name, app)| {
                let spec = json!({ "destination": { "server": server } });
                let patch = Arc::new(json!({ "metadata": { "uid": app.uid }, "spec": spec }));
                Action::Patch { target: application_ref(name), subresource: None, patch }
            })
            .collect();
        if patches.is_empty() {
            return Next::Done(Verdict::Converged);
        }
        wait(patches, Stage::Following)
    }

    fn followed(&mut self, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        let mut failed = None;
        for outcome in outcomes {
            match outcome {
                Ok(Success::Object(object)) => {
                    self.absorb_application(&Name::of(&object), App::read(&object));
                }
                // It is gone.
                Err(failure) if failure.class == Class::NotFound => {}
                Err(failure) => failed = Some(failure),
                Ok(_) => {}
            }
        }
        match failed {
            Some(failure) => {
                Next::Done(Verdict::retry("moving an Application that is being removed", &failure))
            }
            None => Next::Done(Verdict::Converged),
        }
    }

    /// Returns the stored result of a cluster. Another cluster of the same name starts from an empty one.
    fn known(&self, key: &Name) -> Found {
        let uid = self.world.clusters.get(key).map(|cluster| cluster.uid.clone()).unwrap_or_default();
        let known = self.world.found.get(key).filter(|found| found.uid == uid).cloned();
        known.unwrap_or(Found {
            uid,
            server: None,
            rival: None,
            trouble: None,
            failing: false,
            compared: None,
        })
    }

    /// Records a problem that people have to fix.
    fn complain(&mut self, key: &Name, complaint: String) -> Next<super::Stage> {
        let trouble = Some(Problem::lasting(complaint));
        let found = Found { trouble, failing: false, compared: None, ..unclaimed(self.known(key)) };
        self.find(key, &found)
    }

    /// Records a failure that is retried. A failure that may be temporary is reported if the next attempt fails too, or if
    /// nothing is known about the cluster.
    fn fail(&mut self, key: &Name, what: &str, failure: &Failure) -> Next<super::Stage> {
        let known = self.known(key);
        let is_unknown = self.world.found.get(key).is_none_or(|found| found.uid != known.uid);
        let trouble = if is_unknown || known.failing || !failure.passes() {
            let words = format!("{what} ({})", failure.message);
            Some(Problem { words, passes: failure.passes() })
        } else {
            known.trouble.clone()
        };
        // A claim stays: the request may have taken effect.
        self.learn(key, &Found { trouble, failing: true, compared: None, ..known });
        Next::Done(Verdict::retry(what, failure))
    }

    /// Records the result. No request is in flight any more.
    fn find(&mut self, key: &Name, found: &Found) -> Next<super::Stage> {
        if let Some(claim) = self.world.claims.remove(key) {
            self.wake_sharers(key, Some(&claim.server));
        }
        self.learn(key, found);
        Next::Done(Verdict::Converged)
    }

    /// Stores the result, and enqueues the keys that depend on it.
    fn learn(&mut self, key: &Name, found: &Found) {
        let before = self.world.found.insert(key.clone(), found.clone());
        if before.as_ref().is_none_or(|before| before.uid != found.uid) {
            self.wake_eldest_unknown();
        }
        let told = |found: &Found| (found.uid.clone(), found.trouble.clone(), used_server(found));
        if before.as_ref().map(told) != Some(told(found)) {
            self.wake_services();
            self.outbox.woken.push(Key::Project);
        }
        let place = |found: &Found| (found.server.clone(), found.rival.is_some());
        if before.as_ref().map(place) != Some(place(found)) {
            self.wake_sharers(key, before.as_ref().and_then(|before| before.server.as_deref()));
            self.wake_sharers(key, found.server.as_deref());
        }
    }

    /// Stores a Secret from an answer.
    fn absorb_secret(&mut self, object: &Value) {
        let (name, secret) = (Name::of(object), Secret::read(object));
        let before = self.world.secrets.get(&name).cloned();
        if self.world.secrets.absorb(name, secret.clone()) {
            self.secret_changed(before.as_ref(), &secret);
        }
    }
}
