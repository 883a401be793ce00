//! The reconcile of a cluster: Argo CD has the Secret by which it reaches the cluster, as the cluster's kubeconfig says.
//!
//! ```text
//!  begin ─┬─ services stay, and the cluster, or Applications are there ──▶ Reading ─▶ Writing ─▶ Following
//!         └─ the cluster goes, or the last service ──▶ Surveying ─▶ Removing
//! ```
//!
//! The Secret is shared by all services. Watches show Secrets by their metadata only: they are read when the version of
//! either is not the one that was compared last, and what they hold is never kept.
//!
//! A Secret goes when its cluster or the last service does, after the Applications and after the project has ceased to permit
//! the cluster: without it, Argo CD gives Applications up and leaves behind what they have deployed.
//!
//! Source: "Reconcile the secrets for each cluster"; decisions on what is shared.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::application::{self, App, Index, application_ref};
use super::kubeconfig;
use super::names::{
    self, ARGO_NAMESPACE, CLUSTER, CLUSTER_NAME, CLUSTER_NAMESPACE, SECRET_TYPE, SECRET_TYPE_CLUSTER, SERVER,
};
use super::service::is_prepared;
use super::source::Source;
use super::world::{Cluster, ClusterIndex, Secret, SecretIndex, World, label_value};
use super::{Controller, Key, lagging, project};
use crate::digest::{digest, shortened};
use crate::engine::action::{Action, Class, Failure, Outcome, Success};
use crate::engine::driver::{Next, Verdict};
use crate::engine::write::{covers, create_or_apply};
use crate::object::{Name, is_deleting};
use crate::time::Now;

/// The longest name of a Secret.
const NAME_MAX_BYTES: usize = 253;
/// How long Argo CD may take to remove what it has deployed to a cluster that is gone, before it is made to give up.
pub const GIVES_UP_AFTER: Duration = Duration::from_mins(5);
/// After which time it is looked again whether Applications are gone that no watch has shown.
const RECHECK: Duration = Duration::from_secs(10);

/// What was found out about a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The cluster's uid.
    pub uid: String,
    /// The server, as the kubeconfig said when it could last be used.
    pub server: Option<String>,
    /// Who has that server already.
    pub rival: Option<Rival>,
    /// Why the Secret is not as it should be.
    pub trouble: Option<Trouble>,
    /// Whether the last try failed, which is told when the next one does too.
    failing: bool,
    /// The version of the kubeconfig that was read, and of the Secret that it was compared with.
    compared: Option<Compared>,
}

/// A server that is about to be told to Argo CD as a cluster's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The cluster's uid.
    uid: String,
    server: String,
}

/// Another cluster, which has the same server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    cluster: Name,
    /// Whether it is there to stay.
    stays: bool,
}

/// Why a Secret is not as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// In words for people.
    pub words: String,
    /// Whether it may pass by itself.
    pub passes: bool,
}

impl Trouble {
    /// What somebody has to mend.
    fn lasting(words: String) -> Self {
        Self { words, passes: false }
    }
}

/// Versions of the kubeconfig and of Argo CD's Secret.
type Compared = (String, Option<String>);

/// What the reconcile of a cluster waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The kubeconfig is being read, and the Secret, if there is one.
    Reading,
    /// The Secret is being written, after which this holds.
    Writing(Box<Found>),
    /// Applications that are being removed are moved to the cluster's server.
    Following,
    /// The Applications are being listed that may be left.
    Surveying,
    /// The Secret is being removed: the one of that name and version.
    Removing(Vec<(Name, u64)>),
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<super::Stage> {
    Next::Await(actions, super::Stage::Cluster(stage))
}

impl Controller {
    pub(super) fn begin_cluster(&mut self, key: &Name, now: Now) -> Next<super::Stage> {
        let is_wanted = self.world.is_wanted();
        // Nothing can be said of what can't be seen.
        if is_wanted && self.world.blind_spot().is_some() {
            return Next::Done(Verdict::Converged);
        }
        // Argo CD has to get in as long as there is anything to remove.
        let index = Index::Cluster(key.clone());
        let is_used = self.world.applications.keys_by(&index).next().is_some();
        match self.world.clusters.get(key).cloned() {
            Some(cluster) if is_used || (is_wanted && !cluster.deleting) => self.tend(key, &cluster),
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

    fn tend(&mut self, key: &Name, cluster: &Cluster) -> Next<super::Stage> {
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
            let rival = found.server.as_ref().and_then(|server| self.rival(key, server));
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
            // It went in between; its end wakes this one.
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
        let copy = existing.as_ref().map(|existing| Secret::read(existing));
        // It was ours when it was seen, and is no more.
        if copy.as_ref().is_some_and(|copy| copy.cluster.as_ref() != Some(key)) {
            return Next::Done(lagging());
        }
        let compared = (Secret::read(&source).marker(), copy.as_ref().map(Secret::marker));
        let found = Found { compared: Some(compared), failing: false, ..self.known(key) };
        let connection = match kubeconfig::of_secret(&source) {
            Ok(connection) => connection,
            Err(complaint) => {
                let trouble =
                    Some(Trouble::lasting(format!("Secret {kubeconfig} can't be used: {complaint}")));
                return self.find(key, &Found { trouble, ..unclaimed(found) });
            }
        };
        let server = &connection.server;
        if let Some(rival) = self.rival(key, server) {
            let trouble = Some(Trouble::lasting(rival.words(server)));
            return self
                .find(key, &Found { server: Some(server.clone()), rival: Some(rival), trouble, ..found });
        }
        let found = Found { server: Some(server.clone()), rival: None, trouble: None, ..found };
        // An older one that nobody has looked at yet may have the same. It wakes this one when it has been.
        if existing.is_none() && self.has_unknown_elder(key) {
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
        // Somebody may take it over in between; then it is none of our business.
        if let Some(copy) = &copy {
            manifest["metadata"]["resourceVersion"] = json!(copy.version.to_string());
        }
        let seen = copy.as_ref().map(|copy| &*copy.uid);
        let write = create_or_apply(name.object(&names::secret()), manifest, seen);
        // Others are looked at while the answer is awaited.
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

    /// Applications that are being removed follow their cluster to its new server, as others do: at the old one Argo CD would
    /// give them up, and leave behind what they have deployed.
    fn follow(&mut self, key: &Name) -> Next<super::Stage> {
        let world = &self.world;
        let Some(server) = world.server(key).filter(|server| is_prepared(world, key, server)) else {
            return Next::Done(Verdict::Converged);
        };
        let strays = world.strays(key);
        let patches: Vec<Action> = strays
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

    /// What is known of a cluster, to go on from. Another cluster of that name is another cluster.
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

    /// Nothing can be done until somebody mends it.
    fn complain(&mut self, key: &Name, complaint: String) -> Next<super::Stage> {
        let trouble = Some(Trouble::lasting(complaint));
        let found = Found { trouble, failing: false, compared: None, ..unclaimed(self.known(key)) };
        self.find(key, &found)
    }

    /// Something failed that is tried again. What may pass by itself is told when it has not passed by the next try, or of a
    /// cluster that nothing is known of.
    fn fail(&mut self, key: &Name, what: &str, failure: &Failure) -> Next<super::Stage> {
        let known = self.known(key);
        let is_unknown = self.world.found.get(key).is_none_or(|found| found.uid != known.uid);
        let trouble = if is_unknown || known.failing || !failure.passes() {
            let words = format!("{what} ({})", failure.message);
            Some(Trouble { words, passes: failure.passes() })
        } else {
            known.trouble.clone()
        };
        // What was asked for may have come about.
        let claimed = self.world.claims.get(key).cloned();
        // The answer to this is the next try.
        let _ = self.find(key, &Found { trouble, failing: true, compared: None, ..known });
        self.world.claims.extend(claimed.map(|claim| (key.clone(), claim)));
        Next::Done(Verdict::retry(what, failure))
    }

    /// Remembers what was found out, and wakes whoever goes by it.
    fn find(&mut self, key: &Name, found: &Found) -> Next<super::Stage> {
        let claimed = self.world.claims.remove(key);
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
        if claimed.is_some() || before.as_ref().map(place) != Some(place(found)) {
            let before = before.and_then(|before| before.server);
            for server in [claimed.map(|claim| claim.server), before, found.server.clone()] {
                self.wake_sharers(key, server.as_deref());
            }
        }
        Next::Done(Verdict::Converged)
    }

    /// Who has a cluster's server as well may have it now, or has to leave it.
    pub(super) fn wake_sharers(&mut self, cluster: &Name, server: Option<&str>) {
        let Some(server) = server else { return };
        let sharers = self
            .world
            .found
            .iter()
            .filter(|(other, found)| *other != cluster && found.server.as_deref() == Some(server));
        self.outbox.woken.extend(sharers.map(|(other, _)| Key::Cluster(other.clone())));
    }

    /// Takes in a Secret that was answered.
    fn absorb_secret(&mut self, object: &Value) {
        let (name, secret) = (Name::of(object), Secret::read(object));
        let before = self.world.secrets.get(&name).cloned();
        if self.world.secrets.absorb(name, secret.clone()) {
            self.secret_changed(before.as_ref(), &secret);
        }
    }

    /// Services go by whether Argo CD knows a cluster by its server; others may wait for the server.
    pub(super) fn secret_changed(&mut self, before: Option<&Secret>, secret: &Secret) {
        let told = |secret: &Secret| (secret.cluster.clone(), secret.server.clone(), secret.deleting);
        let is_argos = secret.cluster.is_some() || before.is_some_and(|before| before.cluster.is_some());
        if is_argos && before.map(told) != Some(told(secret)) {
            self.wake_services();
        }
        if let Some(Secret { cluster: Some(cluster), server, .. }) = before
            && (cluster, server) != (secret.cluster.as_ref().unwrap_or(cluster), &secret.server)
        {
            self.wake_sharers(cluster, server.as_deref());
        }
    }

    /// The clusters that have not been looked at yet.
    fn unknown(&self) -> impl Iterator<Item = &Name> {
        let is_unknown = |name: &Name, cluster: &Cluster| {
            let uids = [
                self.world.found.get(name).map(|found| &found.uid),
                self.world.claims.get(name).map(|claim| &claim.uid),
            ];
            !uids.contains(&Some(&cluster.uid))
        };
        self.world.staying().filter(move |(name, cluster)| is_unknown(name, cluster)).map(|(name, _)| name)
    }

    /// Whether an older cluster has not been looked at yet.
    fn has_unknown_elder(&self, key: &Name) -> bool {
        self.unknown().any(|name| name != key && self.world.is_older(name, key))
    }

    /// Of those that wait for their elders, the eldest waits for nobody any more.
    pub(super) fn wake_eldest_unknown(&mut self) {
        let eldest =
            self.unknown().reduce(|one, other| if self.world.is_older(other, one) { other } else { one });
        self.outbox.woken.extend(eldest.cloned().map(Key::Cluster));
    }

    /// Another cluster that has the same server: the one that Argo CD knows by it, else the one whose Secret is being written,
    /// else, if this one never had it, an older one that waits for it too.
    fn rival(&self, key: &Name, server: &str) -> Option<Rival> {
        let world = &self.world;
        let says = |name: &Name| world.found.get(name).and_then(|found| found.server.as_deref());
        let is_older = |rival: &&Name| *rival != key && world.is_older(rival, key);
        let rival = if world.told_of(server).any(|holder| holder == key) {
            let mut holders =
                world.told_of(server).filter(|name| says(name).is_none_or(|said| said == server));
            holders.find(is_older)
        } else {
            let mut holders = world.told_of(server).filter(|holder| !self.waits_for(holder, server, key));
            let sharers = || {
                world.found.iter().filter(|(name, found)| {
                    *name != key && found.server.as_deref() == Some(server) && world.stays(name).is_some()
                })
            };
            let mut claims =
                world.claims.iter().filter(|(name, claim)| *name != key && claim.server == server);
            let has_claimed = world.claims.get(key).is_some_and(|claim| claim.server == server);
            let had_it = has_claimed || world.found.get(key).and_then(used_server).as_deref() == Some(server);
            holders
                .next()
                .or_else(|| claims.next().map(|(name, _)| name))
                .or_else(|| sharers().find(|(_, found)| found.rival.is_none()).map(|(name, _)| name))
                .or_else(|| sharers().map(|(name, _)| name).filter(|_| !had_it).find(is_older))
        };
        rival.map(|cluster| Rival { cluster: cluster.clone(), stays: world.stays(cluster).is_some() })
    }

    /// Whether the holder of a server waits for another server, whose holder waits in turn, and so on, down to this cluster:
    /// somebody has to begin.
    fn waits_for(&self, holder: &Name, server: &str, key: &Name) -> bool {
        let (mut holder, mut held) = (holder, server);
        for _ in 0..self.world.found.len() {
            let said = self.world.found.get(holder).and_then(|found| found.server.as_deref());
            let Some(wanted) = said.filter(|said| *said != held) else { return false };
            let Some(next) = self.world.told_of(wanted).find(|next| *next != holder) else { return false };
            if next == key {
                return true;
            }
            (holder, held) = (next, wanted);
        }
        false
    }

    fn leave(&mut self, key: &Name, now: Now) -> Next<super::Stage> {
        if self.world.stays(key).is_none() {
            let claimed = self.world.claims.remove(key).map(|claim| claim.server);
            let found = self.world.found.remove(key);
            if claimed.is_some() || found.is_some() {
                self.outbox.woken.push(Key::Project);
            }
            for server in [claimed, found.and_then(|found| found.server)] {
                self.wake_sharers(key, server.as_deref());
            }
        }
        if self.world.argo_secret(key).is_none() {
            self.world.stuck.remove(key);
            return Next::Done(Verdict::Converged);
        }
        if let Some(wait) = self.awaits_applications(key, now) {
            return Next::Done(wait);
        }
        // Its end, or its change, wakes this one. Where Argo CD is made to give up, it need not be waited for.
        if !self.world.stuck.contains_key(key) && !project::has_settled(&self.world) {
            self.outbox.woken.push(Key::Project);
            return Next::Done(Verdict::Converged);
        }
        let survey = application::survey(application::selector([CLUSTER_NAMESPACE, CLUSTER_NAME], key));
        // That DPF has it no more is asked of the server, before what runs there is given up.
        let asked = self
            .world
            .stuck
            .contains_key(key)
            .then(|| Action::Get { target: key.object(&names::dpu_cluster()), metadata_only: true });
        wait([Some(survey), asked].into_iter().flatten().collect(), Stage::Surveying)
    }

    /// The Applications come first. Only where their cluster is gone they need not be waited for without end: what they have
    /// deployed is lost with it.
    fn awaits_applications(&mut self, key: &Name, now: Now) -> Option<Verdict> {
        let index = Index::Cluster(key.clone());
        let apps: Vec<bool> = self
            .world
            .applications
            .keys_by(&index)
            .filter_map(|name| Some(self.world.applications.get(name)?.deleting))
            .collect();
        if apps.is_empty() {
            self.world.stuck.remove(key);
            return None;
        }
        let is_gone =
            self.world.clusters.get(key).is_none() && !self.world.refused.contains_key(&Source::Clusters);
        if !is_gone || apps.contains(&false) {
            self.world.stuck.remove(key);
            return Some(Verdict::Converged);
        }
        let since = *self.world.stuck.entry(key.clone()).or_insert(now.monotonic);
        let left = GIVES_UP_AFTER.saturating_sub(now.monotonic.since(since));
        (!left.is_zero()).then_some(Verdict::Requeue(left))
    }

    fn surveyed(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<super::Stage> {
        let mut outcomes = outcomes.into_iter();
        let found = match application::surveyed(outcomes.next()) {
            Ok(found) => found,
            Err(Some(failure)) => return Next::Done(Verdict::retry("listing Applications", &failure)),
            Err(None) => return Next::Done(lagging()),
        };
        match outcomes.next() {
            Some(Ok(_)) => return Next::Done(lagging()),
            Some(Err(failure)) if failure.class != Class::NotFound => {
                return Next::Done(Verdict::retry("reading the DPUCluster", &failure));
            }
            _ => {}
        }
        // Much may have changed in the meantime.
        if self.world.is_wanted() && self.world.stays(key).is_some() {
            return Next::Done(lagging());
        }
        let is_given_up = self.world.stuck.contains_key(key) && self.awaits_applications(key, now).is_none();
        let mut left = found.into_iter().filter(|(_, app)| app.cluster == *key);
        if left.any(|(_, app)| !(app.deleting && is_given_up)) {
            return Next::Done(Verdict::Requeue(RECHECK));
        }
        let secrets = self
            .world
            .secrets
            .keys_by(&SecretIndex::Cluster(key.clone()))
            .filter_map(|name| Some((name, self.world.secrets.get(name)?)));
        let (removed, deletes) = secrets
            .filter(|(_, secret)| !secret.deleting)
            .map(|(name, secret)| {
                let delete = Action::Delete {
                    target: name.object(&names::secret()),
                    uid: secret.uid.clone(),
                    resource_version: Some(secret.version.to_string()),
                };
                ((name.clone(), secret.version), delete)
            })
            .unzip();
        wait(deletes, Stage::Removing(removed))
    }

    fn secret_removed(
        &mut self,
        key: &Name,
        removed: &[(Name, u64)],
        outcomes: Vec<Outcome>,
    ) -> Next<super::Stage> {
        let mut failed = None;
        for ((name, version), outcome) in removed.iter().zip(outcomes) {
            let told = outcome.as_ref().err().map(|failure| failure.message.clone());
            self.tell_leaving(name, told);
            match outcome {
                Ok(Success::Object(object)) if is_deleting(&object) => {
                    self.absorb_secret(&object);
                }
                Ok(_) => {
                    let server = self.world.secrets.get(name).and_then(|secret| secret.server.clone());
                    self.world.secrets.removed(name.clone(), *version);
                    self.wake_sharers(key, server.as_deref());
                    self.wake_leaving_services();
                }
                // NotFound too: it was there a moment ago. The watch tells when it is gone.
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) => Next::Done(Verdict::retry("removing a cluster's Secret", &failure)),
            None => Next::Done(Verdict::Converged),
        }
    }
}

/// The server that is a cluster's own.
pub fn used_server(found: &Found) -> Option<String> {
    found.server.clone().filter(|_| found.rival.is_none())
}

/// What is known of a cluster that does not ask any more for a server which it never had.
fn unclaimed(found: Found) -> Found {
    Found { server: used_server(&found), rival: None, ..found }
}

impl Rival {
    fn words(&self, server: &str) -> String {
        let cluster = &self.cluster;
        if self.stays {
            format!(
                "DPUCluster {cluster} has the same server {server}, by which Argo CD tells clusters apart; give one of them another"
            )
        } else {
            format!(
                "DPUCluster {cluster}, which goes, has the same server {server} until nothing of it is left"
            )
        }
    }
}

/// A name for the Secret of a cluster that has none.
///
/// The cluster's name, if no older one has the same and nobody else the Secret; else with a digest that no other cluster has.
fn secret_name(world: &World, cluster: &Name) -> Name {
    let plain =
        Name::new(ARGO_NAMESPACE, &format!("{}-argocd", shortened(&cluster.name, NAME_MAX_BYTES - 7)));
    let mut named = world.clusters.keys_by(&ClusterIndex::Named(cluster.name.clone()));
    let is_contested = named.any(|other| other != cluster && world.is_older(other, cluster));
    if !is_contested && world.secrets.get(&plain).is_none() {
        return plain;
    }
    let digest = &digest(&json!([cluster]))[..8];
    let name = format!("{}-{digest}-argocd", shortened(&cluster.name, NAME_MAX_BYTES - 16));
    Name::new(ARGO_NAMESPACE, &name)
}

/// What the Secret of a cluster should be.
pub fn manifest(cluster: &Name, name: &Name, connection: &kubeconfig::Connection) -> Value {
    // By which name Argo CD shows it. Only the one whose Secret bears its plain name is shown by it.
    let is_plain = name.name == format!("{}-argocd", cluster.name);
    let title = if is_plain { cluster.name.clone() } else { cluster.to_string() };
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "namespace": name.namespace,
            "name": name.name,
            "labels": {
                SECRET_TYPE: SECRET_TYPE_CLUSTER,
                CLUSTER_NAME: label_value(&cluster.name),
                CLUSTER_NAMESPACE: label_value(&cluster.namespace),
            },
            "annotations": { CLUSTER: cluster.to_string(), SERVER: connection.server },
        },
        "type": "Opaque",
        "data": {
            "name": encoded(&title),
            "server": encoded(&connection.server),
            "config": encoded(&connection.config.to_string()),
        },
    })
}

fn encoded(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn is_applied(existing: &Value, manifest: &Value) -> bool {
    covers(&existing["data"], &manifest["data"])
        && ["labels", "annotations"]
            .iter()
            .all(|field| covers(&existing["metadata"][*field], &manifest["metadata"][*field]))
}
