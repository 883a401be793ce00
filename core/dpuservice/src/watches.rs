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
use lockstep_engine::action::{Action, Failure};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::object::{Kind, Name, resource_version};
use lockstep_engine::operator::{Control, Outbox};
use lockstep_engine::recording::Traits;
use serde_json::Value;

use super::application::App;
use super::recording::TRAITS;
use super::source::Source;
use super::world::{Cluster, ClusterIndex, Project, Secret, Service, World};
use super::{BACKOFF, Controller, Key, RECONCILERS};

impl Control for Controller {
    const NAME: &'static str = CONTROLLER;
    const BACKOFF: Backoff = BACKOFF;
    const RECONCILERS: &'static [&'static str] = RECONCILERS;
    const TRAITS: Traits = TRAITS;

    fn new(outbox: Outbox<Key>) -> Self {
        Self { world: World::default(), outbox }
    }

    fn outbox(&mut self) -> &mut Outbox<Key> {
        &mut self.outbox
    }

    fn keys(&self) -> Vec<Key> {
        let world = &self.world;
        let clusters = world.clusters.iter().map(|(name, _)| name).chain(world.told_clusters());
        let clusters = clusters.map(|name| Key::Cluster(name.clone()));
        let services = world.services.iter().map(|(name, _)| name.clone());
        let orphans = world.applications.iter().map(|(_, app)| &app.service);
        let orphans = orphans.filter(|service| world.services.get(service).is_none()).cloned();
        clusters.chain([Key::Project]).chain(services.chain(orphans).map(Key::Service)).collect()
    }

    fn is_synced(&self) -> bool {
        self.world.is_synced()
    }

    fn start(&mut self) {
        let watches = Source::ALL.map(|source| Action::Watch { kind: source.kind(), scope: source.scope() });
        self.outbox.requests.extend(watches);
    }

    fn list_started(&mut self, kind: &Arc<Kind>) {
        match Source::of(kind) {
            Some(Source::Services) => self.world.services.start_list(),
            Some(Source::Clusters) => self.world.clusters.start_list(),
            Some(Source::Secrets) => self.world.secrets.start_list(),
            Some(Source::Projects) => self.world.projects.start_list(),
            Some(Source::Applications) => {
                self.world.applications.start_list();
                self.world.taken.clear();
            }
            None => {}
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>) {
        let Some(source) = Source::of(kind) else { return };
        match source {
            Source::Services => {
                let was_wanted = self.world.is_wanted();
                for (name, _) in self.world.services.complete_list() {
                    self.outbox.woken.push(Key::Service(name));
                }
                self.service_changed(was_wanted);
            }
            Source::Clusters => {
                for (name, _) in self.world.clusters.complete_list() {
                    self.cluster_changed(&name);
                }
            }
            Source::Secrets => {
                for (name, secret) in self.world.secrets.complete_list() {
                    self.secret_gone(&name, &secret);
                }
            }
            Source::Projects => {
                if !self.world.projects.complete_list().is_empty() {
                    self.project_changed();
                }
            }
            Source::Applications => {
                for (_, app) in self.world.applications.complete_list() {
                    self.application_gone(&app);
                }
            }
        }
        if self.world.refused.remove(&source).is_some() {
            self.wake_everything();
        }
    }

    fn observed(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let name = Name::of(object);
        match Source::of(kind) {
            Some(Source::Services) => {
                let service = Service::read(object);
                let is_told = self.world.services.get(&name).is_some_and(|before| before.is_same(&service));
                let was_wanted = self.world.is_wanted();
                if self.world.services.observe(name.clone(), service) && !is_told {
                    self.outbox.woken.push(Key::Service(name));
                    self.service_changed(was_wanted);
                }
            }
            Some(Source::Clusters) => {
                let cluster = Cluster::read(object);
                let is_told = self.world.clusters.get(&name).is_some_and(|before| before.is_same(&cluster));
                if self.world.clusters.observe(name.clone(), cluster) && !is_told {
                    self.cluster_changed(&name);
                }
            }
            Some(Source::Secrets) => {
                let secret = Secret::read(object);
                let before = self.world.secrets.get(&name).cloned();
                let concerns = secret.cluster.clone().or_else(|| before.as_ref()?.cluster.clone());
                if self.world.secrets.observe(name.clone(), secret.clone()) {
                    self.secret_changed(before.as_ref(), &secret);
                    self.wake_readers(&name);
                    self.outbox.woken.extend(concerns.map(Key::Cluster));
                }
            }
            Some(Source::Projects) => {
                let project = Project::read(object);
                let is_told = self.world.projects.get(&name).is_some_and(|before| before.is_same(&project));
                if self.world.projects.observe(name, project) && !is_told {
                    self.project_changed();
                }
            }
            Some(Source::Applications) => {
                if let Some(app) = App::read(object) {
                    self.world.taken.remove(&name);
                    self.application_seen(name, app);
                } else {
                    self.application_vanished(&name, resource_version(object));
                    self.world.taken.insert(name);
                }
            }
            None => {}
        }
    }

    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let (name, version) = (Name::of(object), resource_version(object));
        match Source::of(kind) {
            Some(Source::Services) => {
                let was_wanted = self.world.is_wanted();
                self.world.told.remove(&name);
                if self.world.services.vanish(&name, version) {
                    // It may have orphans.
                    self.outbox.woken.push(Key::Service(name));
                    self.service_changed(was_wanted);
                }
            }
            Some(Source::Clusters) => {
                let is_news = self.world.clusters.vanish(&name, version);
                if is_news {
                    self.cluster_changed(&name);
                }
            }
            Some(Source::Secrets) => {
                let before = self.world.secrets.get(&name).cloned();
                if self.world.secrets.vanish(&name, version)
                    && let Some(secret) = before
                {
                    self.secret_gone(&name, &secret);
                }
            }
            Some(Source::Projects) => {
                let is_news = self.world.projects.vanish(&name, version);
                if is_news {
                    self.project_changed();
                }
            }
            Some(Source::Applications) => {
                // A service may have waited for the name.
                if self.world.taken.remove(&name) {
                    self.wake_services();
                }
                self.application_vanished(&name, version);
            }
            None => {}
        }
    }

    fn watch_failed(&mut self, kind: &Arc<Kind>, failure: Failure) {
        if let Some(source) = Source::of(kind)
            && self.world.refuse(source, failure)
        {
            self.wake_everything();
        }
    }
}

impl Controller {
    /// Enqueues the shared objects: they are created with the first service, and deleted after the last.
    pub(super) fn service_changed(&mut self, was_wanted: bool) {
        if was_wanted != self.world.is_wanted() {
            self.world.irremovable.clear();
            self.wake_shared();
            self.wake_leaving_services();
        }
    }

    fn cluster_changed(&mut self, name: &Name) {
        self.outbox.woken.push(Key::Cluster(name.clone()));
        self.wake_services();
        // Keys that waited for its first reconcile no longer have to wait.
        if self.world.stays(name).is_none() {
            self.outbox.woken.push(Key::Project);
            self.wake_eldest_unknown();
        }
    }

    /// Records that an Application is gone, or no longer belongs to a service.
    fn application_vanished(&mut self, name: &Name, version: u64) {
        let before = self.world.applications.get(name).cloned();
        if self.world.applications.vanish(name, version)
            && let Some(app) = before
        {
            self.application_gone(&app);
        }
    }

    /// Enqueues the clusters that depend on a Secret.
    fn wake_readers(&mut self, secret: &Name) {
        let told = self.world.secrets.get(secret).and_then(|secret| secret.cluster.clone());
        let read = self.world.clusters.keys_by(&ClusterIndex::Kubeconfig(secret.clone())).cloned();
        self.outbox.woken.extend(told.into_iter().chain(read).map(Key::Cluster));
    }

    /// Enqueues the keys that depend on a deleted Secret: its cluster, and the services, which need it or waited for its deletion.
    fn secret_gone(&mut self, name: &Name, secret: &Secret) {
        self.wake_readers(name);
        self.world.irremovable.remove(name);
        if let Some(cluster) = &secret.cluster {
            self.outbox.woken.push(Key::Cluster(cluster.clone()));
            self.wake_sharers(cluster, secret.server.as_deref());
            self.wake_leaving_services();
            self.wake_services();
        }
    }

    fn application_seen(&mut self, name: Name, mut app: App) {
        let before = self.world.applications.get(&name).cloned();
        if let Some(before) = before.as_ref().filter(|before| before.uid == app.uid) {
            app.report.remember(&before.report);
        }
        let is_told = before.as_ref().is_some_and(|before| before.is_same(&app));
        if self.world.applications.observe(name, app.clone()) && !is_told {
            self.outbox.woken.push(Key::Service(app.service.clone()));
            self.application_changed(before.as_ref(), &app);
        }
    }

    /// Enqueues the other keys that depend on an Application: the project by its server, and a cluster that is being removed.
    pub(super) fn application_changed(&mut self, before: Option<&App>, app: &App) {
        let has_moved = before.is_some_and(|before| before.server() != app.server());
        let is_leaving = !self.world.is_wanted() || self.world.stays(&app.cluster).is_none();
        if is_leaving || has_moved || self.world.is_stray(app) {
            self.outbox.woken.extend([Key::Cluster(app.cluster.clone()), Key::Project]);
        }
        // It may have been changed to belong to another service.
        if let Some(before) = before.filter(|before| before.service != app.service) {
            self.application_gone(before);
        }
    }

    /// Enqueues the keys that may have waited for the deletion of an Application: its service, its cluster and the project.
    pub(super) fn application_gone(&mut self, app: &App) {
        self.outbox.woken.push(Key::Service(app.service.clone()));
        let is_leaving = !self.world.is_wanted() || self.world.stays(&app.cluster).is_none();
        let is_needed = app.server().is_none_or(|server| self.world.server(&app.cluster) == Some(server));
        if is_leaving || !is_needed {
            self.outbox.woken.extend([Key::Cluster(app.cluster.clone()), Key::Project]);
        }
    }

    pub(super) fn wake_services(&mut self) {
        self.outbox.woken.extend(self.world.services.keys_by(&false).cloned().map(Key::Service));
    }

    /// Enqueues the services that are being deleted.
    pub(super) fn wake_leaving_services(&mut self) {
        self.outbox.woken.extend(self.world.services.keys_by(&true).cloned().map(Key::Service));
    }

    /// Enqueues the clusters whose Secret has to be deleted.
    pub(super) fn wake_leaving_clusters(&mut self) {
        let is_wanted = self.world.is_wanted();
        let leaving =
            self.world.told_clusters().filter(|name| !is_wanted || self.world.stays(name).is_none());
        let leaving: Vec<Key> = leaving.cloned().map(Key::Cluster).collect();
        self.outbox.woken.extend(leaving);
    }

    /// Records why a shared object can't be removed, or that it can.
    pub(super) fn tell_leaving(&mut self, name: &Name, failure: Option<&str>) {
        let before = match failure {
            Some(failure) => self.world.irremovable.insert(name.clone(), failure.to_owned()),
            None => self.world.irremovable.remove(name),
        };
        // A message that differs each time must not shorten the backoff of failures.
        if before.is_some() != failure.is_some() {
            self.wake_leaving_services();
        }
    }

    /// Enqueues all shared objects.
    pub(super) fn wake_shared(&mut self) {
        let clusters = self.world.clusters.iter().map(|(name, _)| name).chain(self.world.told_clusters());
        let clusters: Vec<Key> = clusters.cloned().map(Key::Cluster).collect();
        self.outbox.woken.extend(clusters);
        self.outbox.woken.push(Key::Project);
    }

    fn wake_everything(&mut self) {
        let keys = self.keys();
        self.outbox.woken.extend(keys);
    }
}
