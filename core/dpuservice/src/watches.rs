//! Maps watch events to keys: each event enqueues only the keys that depend on it.
//!
//! | change | enqueued keys |
//! | --- | --- |
//! | a DPUService | itself; with the first and after the last, the shared objects |
//! | a DPUCluster | itself, and every service: each has an Application on it |
//! | a kubeconfig's Secret, or Argo CD's | its cluster, and others that have the same server |
//! | the AppProject | itself, every service, clusters that are being removed |
//! | an Application | its service; once it is gone, the keys that waited for that |
//!
//! Repeated reports of Argo CD enqueue nothing, nor does a status of our own.

use std::sync::Arc;

use lockstep_crds::dpuservice::CONTROLLER;
use lockstep_engine::action::{Action, Failure, WatchCommand};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::object::{Kind, Name, ResourceVersion};
use lockstep_engine::operator::{Control, Outbox};
use lockstep_engine::recording::Traits;
use lockstep_engine::time::Now;
use serde_json::Value;

use crate::key::{BACKOFF, Key, RECONCILERS};
use crate::model::application::App;
use crate::model::cluster::{Cluster, ClusterIndex};
use crate::model::project::Project;
use crate::model::secret::Secret;
use crate::model::service::Service;
use crate::recording::TRAITS;
use crate::source::Source;
use crate::state::Controller;
use crate::store::Store;

impl Control for Controller {
    const NAME: &'static str = CONTROLLER;
    const BACKOFF: Backoff = BACKOFF;
    const RECONCILERS: &'static [&'static str] = RECONCILERS;
    const TRAITS: Traits = TRAITS;

    fn new(outbox: Outbox<Key>) -> Self {
        Self { store: Store::default(), outbox }
    }

    fn outbox(&mut self) -> &mut Outbox<Key> {
        &mut self.outbox
    }

    fn keys(&self) -> Vec<Key> {
        let store = &self.store;
        let clusters = store.clusters.iter().map(|(name, _)| name).chain(store.registered_clusters());
        let clusters = clusters.map(|name| Key::Cluster(name.clone()));
        let services = store.services.iter().map(|(name, _)| name.clone());
        let orphans = store.applications.iter().map(|(_, app)| &app.service);
        let orphans = orphans.filter(|service| store.services.get(service).is_none()).cloned();
        clusters.chain([Key::Project]).chain(services.chain(orphans).map(Key::Service)).collect()
    }

    fn is_synced(&self) -> bool {
        self.store.is_synced()
    }

    fn start(&mut self) {
        let watches = Source::ALL
            .map(|source| Action::Watch(WatchCommand::Start { kind: source.kind(), scope: source.scope() }));
        self.outbox.requests.extend(watches);
    }

    fn list_started(&mut self, kind: &Arc<Kind>) {
        match Source::of(kind) {
            Some(Source::Services) => self.store.services.start_list(),
            Some(Source::Clusters) => self.store.clusters.start_list(),
            Some(Source::Secrets) => self.store.secrets.start_list(),
            Some(Source::Projects) => self.store.projects.start_list(),
            Some(Source::Applications) => {
                self.store.applications.start_list();
                let taken = std::mem::take(&mut self.store.taken);
                self.store.taken_before.extend(taken);
            }
            None => {}
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>) {
        let Some(source) = Source::of(kind) else { return };
        match source {
            Source::Services => {
                let was_wanted = self.store.is_wanted();
                for (name, _) in self.store.services.complete_list() {
                    self.outbox.woken.push(Key::Service(name));
                }
                self.service_changed(was_wanted);
            }
            Source::Clusters => {
                for (name, _) in self.store.clusters.complete_list() {
                    self.cluster_changed(&name);
                }
            }
            Source::Secrets => {
                for (name, secret) in self.store.secrets.complete_list() {
                    self.secret_gone(&name, &secret);
                }
            }
            Source::Projects => {
                if !self.store.projects.complete_list().is_empty() {
                    self.project_changed();
                }
            }
            Source::Applications => {
                for (_, app) in self.store.applications.complete_list() {
                    self.application_gone(&app);
                }
                // A service may have waited for a name.
                let before = std::mem::take(&mut self.store.taken_before);
                if before.iter().any(|name| !self.store.taken.contains(name)) {
                    self.wake_services();
                }
                // Argo CD may have been upgraded.
                self.store.refuses_refresh = false;
            }
        }
        if self.store.permit(source) {
            self.wake_everything();
        }
    }

    fn observed(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let name = Name::of(object);
        match Source::of(kind) {
            Some(Source::Services) => {
                let service = Service::read(object);
                let is_unchanged =
                    self.store.services.get(&name).is_some_and(|before| before.is_same(&service));
                let was_wanted = self.store.is_wanted();
                if self.store.services.observe(name.clone(), service) && !is_unchanged {
                    self.outbox.woken.push(Key::Service(name));
                    self.service_changed(was_wanted);
                }
            }
            Some(Source::Clusters) => {
                let cluster = Cluster::read(object);
                let is_unchanged =
                    self.store.clusters.get(&name).is_some_and(|before| before.is_same(&cluster));
                if self.store.clusters.observe(name.clone(), cluster) && !is_unchanged {
                    self.cluster_changed(&name);
                }
            }
            Some(Source::Secrets) => {
                let secret = Secret::read(object);
                let before = self.store.secrets.get(&name).cloned();
                if self.store.secrets.observe(name.clone(), secret.clone()) {
                    self.secret_changed(before.as_ref(), &secret);
                    self.wake_readers(&name);
                }
            }
            Some(Source::Projects) => {
                let project = Project::read(object);
                let is_unchanged =
                    self.store.projects.get(&name).is_some_and(|before| before.is_same(&project));
                if self.store.projects.observe(name, project) && !is_unchanged {
                    self.project_changed();
                }
            }
            Some(Source::Applications) => {
                if let Some(app) = App::read(object) {
                    self.application_seen(&name, app);
                    // An answer may have shown that another client has taken it over since.
                    if self.store.applications.get(&name).is_some() {
                        self.store.taken.remove(&name);
                    }
                } else {
                    self.application_vanished(&name, ResourceVersion::of(object));
                    self.store.taken.insert(name);
                }
            }
            None => {}
        }
    }

    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let (name, version) = (Name::of(object), ResourceVersion::of(object));
        match Source::of(kind) {
            Some(Source::Services) => {
                let was_wanted = self.store.is_wanted();
                self.store.status_written_at.remove(&name);
                if self.store.services.vanish(&name, version) {
                    // It may have orphans.
                    self.outbox.woken.push(Key::Service(name));
                    self.service_changed(was_wanted);
                }
            }
            Some(Source::Clusters) => {
                let has_changed = self.store.clusters.vanish(&name, version);
                if has_changed {
                    self.cluster_changed(&name);
                }
            }
            Some(Source::Secrets) => {
                let before = self.store.secrets.get(&name).cloned();
                if self.store.secrets.vanish(&name, version)
                    && let Some(secret) = before
                {
                    self.secret_gone(&name, &secret);
                }
            }
            Some(Source::Projects) => {
                let has_changed = self.store.projects.vanish(&name, version);
                if has_changed {
                    self.project_changed();
                }
            }
            Some(Source::Applications) => {
                // A service may have waited for the name.
                if self.store.taken.remove(&name) {
                    self.wake_services();
                }
                self.application_vanished(&name, version);
            }
            None => {}
        }
    }

    fn watch_failed(&mut self, kind: &Arc<Kind>, failure: Failure, now: Now) {
        if let Some(source) = Source::of(kind)
            && self.store.refuse(source, failure, now.monotonic)
        {
            self.wake_everything();
        }
    }
}

impl Controller {
    /// Records that an Application is gone, or no longer belongs to a service.
    fn application_vanished(&mut self, name: &Name, version: ResourceVersion) {
        let before = self.store.applications.get(name).cloned();
        if self.store.applications.vanish(name, version)
            && let Some(app) = before
        {
            self.application_gone(&app);
        }
    }

    /// Enqueues the clusters that depend on a Secret.
    fn wake_readers(&mut self, secret: &Name) {
        let registered = self.store.secrets.get(secret).and_then(|secret| secret.cluster.clone());
        let read = self.store.clusters.keys_by(&ClusterIndex::Kubeconfig(secret.clone())).cloned();
        self.outbox.woken.extend(registered.into_iter().chain(read).map(Key::Cluster));
    }

    /// Enqueues the keys that depend on a deleted Secret: its cluster, and the services, which need it or waited for its
    /// deletion.
    fn secret_gone(&mut self, name: &Name, secret: &Secret) {
        self.wake_readers(name);
        self.store.irremovable.remove(name);
        if let Some(cluster) = &secret.cluster {
            self.outbox.woken.push(Key::Cluster(cluster.clone()));
            self.wake_sharers(cluster, secret.server.as_deref());
            self.wake_leaving_services();
            self.wake_services();
        }
    }

    fn application_seen(&mut self, name: &Name, mut app: App) {
        let before = self.store.applications.get(name).cloned();
        if let Some(before) = before.as_ref().filter(|before| before.uid == app.uid) {
            app.report.remember(&before.report);
        }
        let is_unchanged = before.as_ref().is_some_and(|before| before.is_same(&app));
        if self.store.applications.observe(name.clone(), app.clone()) && !is_unchanged {
            self.outbox.woken.push(Key::Service(app.service.clone()));
            self.application_changed(before.as_ref(), &app);
        }
    }

    fn wake_everything(&mut self) {
        let keys = self.keys();
        self.outbox.woken.extend(keys);
    }
}
