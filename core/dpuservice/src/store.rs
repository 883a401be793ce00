//! The cached state of the cluster, and what is stored between passes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::cache::Cache;
use lockstep_engine::doubts::Doubts;
use lockstep_engine::object::Name;
use lockstep_engine::pairs;
use lockstep_engine::refusals::Refusals;
use lockstep_engine::time::{Monotonic, Now};
use lockstep_engine::unconfirmed::Unconfirmed;
use serde::{Deserialize, Serialize};

pub mod cluster_access;
pub mod outdated_sync;
pub mod repairs;

use cluster_access::{Claim, Found, Problem};
use outdated_sync::HeldUp;
use repairs::Repairs;

use crate::model::application::{App, Index};
use crate::model::cluster::{Cluster, ClusterIndex};
use crate::model::project::{self, Project};
use crate::model::secret::{Secret, SecretIndex};
use crate::model::service::Service;
use crate::source::Source;

/// The time that Argo CD has to remove what it has deployed to a cluster that is gone. Then the Applications are abandoned.
pub const GIVES_UP_AFTER: Duration = Duration::from_mins(5);

/// Everything that watches and answers have shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Store {
    /// The services.
    pub services: Cache<Name, Service>,
    /// The DPUClusters.
    pub clusters: Cache<Name, Cluster>,
    /// Secrets, by their metadata.
    pub secrets: Cache<Name, Secret>,
    /// The AppProject, if there is one.
    pub projects: Cache<Name, Project>,
    /// The Applications of services.
    pub applications: Cache<Name, App>,
    /// The kinds that can't be watched, and why.
    #[serde(with = "pairs")]
    pub refused: BTreeMap<Source, Failure>,
    /// The kinds that are said not to be served.
    #[serde(default)]
    unserved: Doubts<Source>,
    /// The failures of kinds that have not been listed since the start.
    #[serde(default, with = "pairs")]
    pub failing: BTreeMap<Source, Refusals>,
    /// The stored result of each cluster's reconcile.
    #[serde(with = "pairs")]
    pub found: BTreeMap<Name, Found>,
    /// The clusters whose Secrets are being written.
    #[serde(with = "pairs")]
    pub claims: BTreeMap<Name, Claim>,
    /// Why the last write of the AppProject failed.
    pub project_failure: Option<Failure>,
    /// Why the AppProject is not in its desired state although it was written.
    #[serde(default)]
    pub project_problem: Option<Problem>,
    /// What was written recently: other clients may undo it.
    #[serde(default)]
    pub repairs: Repairs,
    /// Whether the API server has refused the field `retry.refresh` of Applications since they were last listed: the CRD of
    /// Argo CD before 3.2 does not declare it (decision 70).
    #[serde(default)]
    pub refuses_refresh: bool,
    /// The Applications of other owners, whose names are taken.
    pub taken: BTreeSet<Name>,
    /// Those of them that the current list has not shown yet.
    #[serde(default)]
    pub taken_before: BTreeSet<Name>,
    /// The shared objects that could not be removed, and why.
    #[serde(with = "pairs")]
    pub irremovable: BTreeMap<Name, String>,
    /// The conditions of status writes that ended without an answer.
    #[serde(default)]
    pub unconfirmed: Unconfirmed<Name>,
    /// When the status of a service was last written.
    #[serde(with = "pairs")]
    pub status_written_at: BTreeMap<Name, Monotonic>,
    /// Syncs that delay a change, by service.
    #[serde(with = "pairs")]
    pub held_up: BTreeMap<Name, Vec<HeldUp>>,
    /// The time since which deleted clusters have Applications that are not removed.
    #[serde(with = "pairs")]
    pub stuck: BTreeMap<Name, Monotonic>,
}

impl Store {
    /// Returns whether any service is not being deleted. As long as there is one, the shared objects are kept.
    pub fn is_wanted(&self) -> bool {
        self.services.keys_by(&false).next().is_some()
    }

    /// Returns the clusters that services are deployed to.
    pub fn staying(&self) -> impl Iterator<Item = (&Name, &Cluster)> {
        self.clusters.iter().filter(|(_, cluster)| !cluster.deleting)
    }

    /// Returns the cluster, if services are deployed to it.
    pub fn stays(&self, name: &Name) -> Option<&Cluster> {
        self.clusters.get(name).filter(|cluster| !cluster.deleting)
    }

    /// Returns whether every cluster has been reconciled since the process began: only then the permitted servers are known.
    pub fn is_judged(&self) -> bool {
        self.staying()
            .all(|(name, cluster)| self.found.get(name).is_some_and(|found| found.uid == cluster.uid))
    }

    /// Returns the Secrets that define a cluster for Argo CD, without those that are being deleted. There is more than one after
    /// two leaders have chosen different names, or another client has made a copy.
    pub fn argo_secrets(&self, cluster: &Name) -> impl Iterator<Item = (&Name, &Secret)> {
        let names = self.secrets.keys_by(&SecretIndex::Cluster(cluster.clone()));
        let secrets = names.filter_map(|name| Some((name, self.secrets.get(name)?)));
        secrets.filter(|(_, secret)| !secret.deleting)
    }

    /// Returns the Secret that defines a cluster for Argo CD: the oldest. Every leader chooses the same one.
    pub fn argo_secret(&self, cluster: &Name) -> Option<(&Name, &Secret)> {
        self.argo_secrets(cluster).min_by_key(|(name, secret)| (&secret.created, *name))
    }

    /// Returns the clusters that have a Secret for Argo CD.
    pub fn registered_clusters(&self) -> impl Iterator<Item = &Name> {
        self.secrets.keys_by(&SecretIndex::Any).filter_map(|name| self.secrets.get(name)?.cluster.as_ref())
    }

    /// Returns the servers in Secrets for Argo CD.
    pub fn registered_servers(&self) -> impl Iterator<Item = &str> {
        let names = self.secrets.keys_by(&SecretIndex::Any);
        names.filter_map(|name| self.secrets.get(name)?.server.as_deref())
    }

    /// Returns the clusters whose Secret for Argo CD names a server.
    pub fn clusters_with_server(&self, server: &str) -> impl Iterator<Item = &Name> {
        let names = self.secrets.keys_by(&SecretIndex::Server(server.to_owned()));
        names.filter_map(|name| self.secrets.get(name)?.cluster.as_ref())
    }

    /// Returns whether any shared object exists that the last service has to remove. A project that is being deleted is left
    /// to Argo CD.
    pub fn holds_shared(&self) -> bool {
        let is_kept = |project: &Project| project.is_ours && !project.deleting;
        self.registered_clusters().next().is_some() || self.project().is_some_and(is_kept)
    }

    /// Returns the terminating Applications that name a server which is no longer their cluster's.
    pub fn on_stale_server<'a>(
        &'a self,
        among: &Index,
    ) -> impl Iterator<Item = (&'a Name, &'a App)> + use<'a> {
        let apps = self.applications.keys_by(among);
        let apps = apps.filter_map(|name| Some((name, self.applications.get(name)?)));
        apps.filter(|(_, app)| self.is_on_stale_server(app))
    }

    /// Returns whether an Application is one of these.
    pub fn is_on_stale_server(&self, app: &App) -> bool {
        let is_elsewhere = |server| app.server() != Some(server);
        app.deleting
            && self.clusters.get(&app.cluster).is_some()
            && self.server(&app.cluster).is_some_and(is_elsewhere)
    }

    /// Returns the AppProject.
    pub fn project(&self) -> Option<&Project> {
        self.projects.get(&project::name())
    }

    /// Returns the server of a cluster, from its kubeconfig when it was last usable. If another cluster owns that server, or
    /// none is known, it is the server in the Secret for Argo CD.
    pub fn server(&self, cluster: &Name) -> Option<&str> {
        let said = self.found.get(cluster).filter(|found| found.rival.is_none());
        said.and_then(|found| found.server.as_deref())
            .or_else(|| self.argo_secret(cluster)?.1.server.as_deref())
    }

    /// Returns the title of a cluster in a status: its name, with its namespace if several clusters have that name.
    pub fn title(&self, cluster: &Name) -> String {
        let mut named = self.clusters.keys_by(&ClusterIndex::Named(cluster.name.clone()));
        if named.any(|other| other != cluster) { cluster.to_string() } else { cluster.name.clone() }
    }

    /// Returns whether a cluster is older than another, and so has precedence.
    pub fn is_older(&self, cluster: &Name, other: &Name) -> bool {
        let created = |name: &Name| self.clusters.get(name).map(|cluster| cluster.created.clone());
        (created(cluster), cluster) < (created(other), other)
    }

    /// Returns whether a cluster no longer exists. If DPUClusters are not served, there are none. If they can't be watched
    /// for another reason, that is not known.
    pub fn is_gone(&self, cluster: &Name) -> bool {
        let is_watched = !self.refused.contains_key(&Source::Clusters);
        self.is_unserved(Source::Clusters) || (is_watched && self.clusters.get(cluster).is_none())
    }

    /// Returns whether a kind is not served, and so has no objects.
    pub fn is_unserved(&self, source: Source) -> bool {
        self.unserved.is_believed(&source)
    }

    /// Returns whether an answer shows that there is no object of a kind: its watch has got the same answer for long enough.
    pub fn is_known_absence(&self, source: Source, failure: &Failure) -> bool {
        failure.class == ErrorKind::KindNotServed && self.is_unserved(source)
    }

    /// Returns a kind that can't be watched, with the reason.
    pub fn unwatchable_kind(&self) -> Option<(Source, &Failure)> {
        self.refused.iter().map(|(source, failure)| (*source, failure)).next()
    }

    /// Returns whether all kinds that decisions need have been listed, or can't be.
    pub fn is_synced(&self) -> bool {
        Source::ALL.into_iter().all(|source| {
            self.is_listed(source) || (source != Source::Services && self.refused.contains_key(&source))
        })
    }

    fn is_listed(&self, source: Source) -> bool {
        match source {
            Source::Services => self.services.is_synced(),
            Source::Clusters => self.clusters.is_synced(),
            Source::Secrets => self.secrets.is_synced(),
            Source::Projects => self.projects.is_synced(),
            Source::Applications => self.applications.is_synced(),
        }
    }

    /// Records that a kind is watched again. Returns whether it was not.
    pub fn permit(&mut self, source: Source) -> bool {
        self.failing.remove(&source);
        self.unserved.end(&source);
        self.refused.remove(&source).is_some()
    }

    /// Records that a watch failed. A kind that can't be listed at all is reported, and not waited for. Returns whether this
    /// changed the recorded state.
    pub fn refuse(&mut self, source: Source, failure: Failure, now: Monotonic) -> bool {
        let was_unserved = self.is_unserved(source);
        if failure.class != ErrorKind::KindNotServed {
            self.unserved.end(&source);
        } else if self.unserved.believes(source, now) && !was_unserved {
            // There are no objects of it. If DPF is gone, its clusters may still exist.
            match source {
                Source::Applications => self.applications = Cache::default(),
                Source::Projects => self.projects = Cache::default(),
                Source::Services | Source::Clusters | Source::Secrets => {}
            }
        }
        let has_changed = was_unserved != self.is_unserved(source);
        let is_refusal = matches!(failure.class, ErrorKind::Forbidden | ErrorKind::KindNotServed);
        let is_known = self.refused.get(&source).is_some_and(|before| before.class == failure.class);
        let mut fails_from_the_start = || {
            !self.is_listed(source) && self.failing.entry(source).or_default().count_of_first_list(&failure)
        };
        if is_known || !(is_refusal || fails_from_the_start()) {
            return has_changed;
        }
        self.refused.insert(source, failure);
        true
    }

    /// Returns whether a service is paused.
    pub fn is_paused(&self, service: &Name) -> bool {
        self.services.get(service).is_some_and(Service::is_paused)
    }

    /// Returns the Applications of a service.
    pub fn of_service(&self, service: &Name) -> impl Iterator<Item = (&Name, &App)> + use<'_> {
        let names: Vec<&Name> = self.applications.keys_by(&Index::Service(service.clone())).collect();
        names.into_iter().filter_map(|name| Some((name, self.applications.get(name)?)))
    }

    /// Returns the Applications of a service by cluster. If a cluster has several, the one that stays, or is to stay, is the first.
    pub fn by_cluster(&self, service: &Name) -> BTreeMap<&Name, Vec<(&Name, &App)>> {
        let mut by_cluster: BTreeMap<&Name, Vec<(&Name, &App)>> = BTreeMap::new();
        for (name, app) in self.of_service(service) {
            by_cluster.entry(&app.cluster).or_default().push((name, app));
        }
        for apps in by_cluster.values_mut() {
            apps.sort_by_key(|(name, app)| (app.deleting, &app.created, *name));
        }
        by_cluster
    }

    /// Records which syncs delay a change of a service.
    pub fn note_held_up(&mut self, service: &Name, now: Now) {
        let known = self.held_up.remove(service).unwrap_or_default();
        let held_up = self.of_service(service).filter_map(|(name, app)| HeldUp::of(name, app, &known, now));
        let held_up: Vec<HeldUp> = held_up.collect();
        if !held_up.is_empty() {
            self.held_up.insert(service.clone(), held_up);
        }
    }

    /// Returns the Applications of a service whose syncs have to be ended, because they delay a change.
    pub fn overdue(&self, service: &Name, now: Now) -> impl Iterator<Item = (&Name, &App)> {
        let held_up = self.held_up.get(service).into_iter().flatten();
        held_up.filter_map(move |held| {
            let app = self.applications.get(&held.application)?;
            held.is_overdue(app, now).then_some((&held.application, app))
        })
    }

    /// Returns the delay until the next of them is overdue. If one could not be ended, it is retried after the same time. While the
    /// service is paused, none is ended.
    pub fn next_overdue(&self, service: &Name, now: Now) -> Option<Duration> {
        if self.is_paused(service) {
            return None;
        }
        self.held_up.get(service)?.iter().map(|held| held.rest(now)).min()
    }
}

#[cfg(test)]
pub(crate) mod tests;
