//! Enqueues the keys that depend on a change.

use lockstep_engine::object::Name;

use crate::key::Key;
use crate::model::application::{App, Index};
use crate::model::secret::Secret;
use crate::server_claims::eldest_unresolved;
use crate::state::Controller;

impl Controller {
    /// Enqueues the shared objects: they are created with the first service, and deleted after the last.
    pub(crate) fn service_changed(&mut self, was_wanted: bool) {
        if was_wanted != self.store.is_wanted() {
            self.store.irremovable.clear();
            self.wake_shared();
            self.wake_leaving_services();
        }
    }

    /// Enqueues a cluster that has changed, is new or is gone, and every service: each has an Application on it.
    pub(crate) fn cluster_changed(&mut self, name: &Name) {
        self.outbox.woken.push(Key::Cluster(name.clone()));
        self.wake_services();
        // Keys that waited for its first reconcile no longer have to wait.
        if self.store.stays(name).is_none() {
            self.outbox.woken.push(Key::Project);
            self.wake_eldest_unresolved();
        }
    }

    /// Enqueues the other keys that depend on an Application: the project by its server, and a cluster that is being removed.
    pub(crate) fn application_changed(&mut self, before: Option<&App>, app: &App) {
        let has_moved = before.is_some_and(|before| before.server() != app.server());
        let is_leaving = !self.store.is_wanted() || self.store.stays(&app.cluster).is_none();
        if is_leaving || has_moved || self.store.is_on_stale_server(app) {
            self.outbox.woken.extend([Key::Cluster(app.cluster.clone()), Key::Project]);
        }
        // It may have been changed to belong to another service.
        if let Some(before) = before.filter(|before| before.service != app.service) {
            self.application_gone(before);
        }
    }

    /// Enqueues the keys that may have waited for the deletion of an Application: its service, its cluster and the project.
    pub(crate) fn application_gone(&mut self, app: &App) {
        self.outbox.woken.push(Key::Service(app.service.clone()));
        let is_leaving = !self.store.is_wanted() || self.store.stays(&app.cluster).is_none();
        let is_needed = app.server().is_none_or(|server| self.store.server(&app.cluster) == Some(server));
        if is_leaving || !is_needed {
            self.outbox.woken.extend([Key::Cluster(app.cluster.clone()), Key::Project]);
        }
        // Secrets that were kept for the sake of the last Application.
        if !self.store.is_wanted() && self.store.applications.iter().next().is_none() {
            self.wake_leaving_clusters();
        }
    }

    pub(crate) fn wake_services(&mut self) {
        self.outbox.woken.extend(self.store.services.keys_by(&false).cloned().map(Key::Service));
    }

    /// Enqueues the services that are being deleted.
    pub(crate) fn wake_leaving_services(&mut self) {
        self.outbox.woken.extend(self.store.services.keys_by(&true).cloned().map(Key::Service));
    }

    /// Enqueues the clusters whose Secret has to be deleted.
    pub(crate) fn wake_leaving_clusters(&mut self) {
        let is_wanted = self.store.is_wanted();
        let leaving =
            self.store.registered_clusters().filter(|name| !is_wanted || self.store.stays(name).is_none());
        let leaving: Vec<Key> = leaving.cloned().map(Key::Cluster).collect();
        self.outbox.woken.extend(leaving);
    }

    /// Records why a shared object can't be removed, or that it can.
    pub(crate) fn set_removal_failure(&mut self, name: &Name, failure: Option<&str>) {
        let before = match failure {
            Some(failure) => self.store.irremovable.insert(name.clone(), failure.to_owned()),
            None => self.store.irremovable.remove(name),
        };
        // A message that differs each time must not shorten the backoff of failures.
        if before.is_some() != failure.is_some() {
            self.wake_leaving_services();
        }
    }

    /// Enqueues all shared objects.
    pub(crate) fn wake_shared(&mut self) {
        let clusters =
            self.store.clusters.iter().map(|(name, _)| name).chain(self.store.registered_clusters());
        let clusters: Vec<Key> = clusters.cloned().map(Key::Cluster).collect();
        self.outbox.woken.extend(clusters);
        self.outbox.woken.push(Key::Project);
    }

    /// Enqueues the keys that depend on a changed Secret: services depend on the server in it, and other clusters may wait
    /// for that server. If it is now the Secret of another cluster, the one before may have none, and the other one several.
    pub(crate) fn secret_changed(&mut self, before: Option<&Secret>, secret: &Secret) {
        let relevant = |secret: &Secret| (secret.cluster.clone(), secret.server.clone(), secret.deleting);
        let is_argos = secret.cluster.is_some() || before.is_some_and(|before| before.cluster.is_some());
        if is_argos && before.map(relevant) != Some(relevant(secret)) {
            self.wake_services();
        }
        if let Some(before) = before.filter(|before| before.cluster != secret.cluster) {
            let clusters = [&before.cluster, &secret.cluster].into_iter().flatten();
            self.outbox.woken.extend(clusters.cloned().map(Key::Cluster));
        }
        if let Some(Secret { cluster: Some(cluster), server, .. }) = before
            && (cluster, server) != (secret.cluster.as_ref().unwrap_or(cluster), &secret.server)
        {
            self.wake_sharers(cluster, server.as_deref());
        }
    }

    /// Enqueues the oldest of the clusters that wait for older ones: it no longer has to wait.
    pub(crate) fn wake_eldest_unresolved(&mut self) {
        self.outbox.woken.extend(eldest_unresolved(&self.store).cloned().map(Key::Cluster));
    }

    /// Enqueues the other clusters with this server: they may own it now, or have to release it.
    pub(crate) fn wake_sharers(&mut self, cluster: &Name, server: Option<&str>) {
        let Some(server) = server else { return };
        let sharers = self
            .store
            .found
            .iter()
            .filter(|(other, found)| *other != cluster && found.server.as_deref() == Some(server));
        self.outbox.woken.extend(sharers.map(|(other, _)| Key::Cluster(other.clone())));
    }

    /// Enqueues the keys that depend on the project, and the project itself.
    pub(crate) fn project_changed(&mut self) {
        self.wake_by_project();
        self.outbox.woken.push(Key::Project);
    }

    /// Enqueues the keys that depend on the project: services and clusters wait for a permission, or for its removal.
    pub(crate) fn wake_by_project(&mut self) {
        self.wake_services();
        self.wake_leaving_services();
        self.wake_leaving_clusters();
        let on_stale_server = self.store.on_stale_server(&Index::Deleting);
        let left: Vec<Key> = on_stale_server.map(|(_, app)| Key::Cluster(app.cluster.clone())).collect();
        self.outbox.woken.extend(left);
    }
}
