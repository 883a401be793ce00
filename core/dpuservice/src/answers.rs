//! Stores the objects in answers, and enqueues the other keys that depend on them.
//!
//! A list of an older state may have lacked an object that an answer shows again. What the watch shows afterwards enqueues
//! nothing then, because the object is cached.

use lockstep_engine::cache::Cached as _;
use lockstep_engine::object::{Name, ResourceVersion};
use serde_json::Value;

use crate::key::Key;
use crate::model::application::App;
use crate::model::cluster::Cluster;
use crate::model::secret::Secret;
use crate::model::service::Service;
use crate::state::Controller;

impl Controller {
    /// Stores the answer to a read of a service.
    pub(crate) fn absorb_service(&mut self, name: &Name, object: &Value) {
        let was_wanted = self.store.is_wanted();
        self.store.services.absorb(name.clone(), Service::read(object));
        self.service_changed(was_wanted);
    }

    /// Stores the answer to a write of a service.
    pub(crate) fn confirm_service(&mut self, name: &Name, object: &Value) {
        let was_wanted = self.store.is_wanted();
        self.store.services.confirm(name.clone(), Service::read(object));
        self.service_changed(was_wanted);
    }

    /// Stores the answer to a read of a cluster that seemed to be gone or deleted.
    pub(crate) fn absorb_cluster(&mut self, name: &Name, object: &Value) {
        let cluster = Cluster::read(object);
        let is_unchanged = self.store.clusters.get(name).is_some_and(|before| before.is_same(&cluster));
        if self.store.clusters.absorb(name.clone(), cluster) && !is_unchanged {
            self.cluster_changed(name);
        } else {
            self.outbox.woken.push(Key::Cluster(name.clone()));
        }
    }

    /// Stores the answer to a read or write of an Application, and enqueues the other keys that depend on it.
    pub(crate) fn absorb_application(&mut self, name: &Name, object: &Value) {
        let before = self.store.applications.get(name).cloned();
        let Some(mut app) = App::read(object) else {
            return self.application_released(name, before.as_ref(), ResourceVersion::of(object));
        };
        if let Some(before) = before.as_ref().filter(|before| before.uid == app.uid) {
            app.report.remember(&before.report);
        }
        if self.store.applications.absorb(name.clone(), app.clone()) {
            self.application_changed(before.as_ref(), &app);
        }
    }

    /// Records that another client has taken over an Application. While Applications can't be watched, nothing else shows it.
    fn application_released(&mut self, name: &Name, before: Option<&App>, version: ResourceVersion) {
        if self.store.applications.removed(name.clone(), version) {
            self.store.taken.insert(name.clone());
            if let Some(app) = before {
                self.application_gone(app);
            }
        }
    }

    /// Records that an Application is gone.
    pub(crate) fn application_removed(&mut self, name: &Name) {
        let Some(app) = self.store.applications.get(name).cloned() else { return };
        let version = app.resource_version();
        self.store.applications.removed(name.clone(), version);
        self.application_gone(&app);
    }

    /// Stores a Secret from an answer.
    pub(crate) fn absorb_secret(&mut self, object: &Value) {
        let (name, secret) = (Name::of(object), Secret::read(object));
        let before = self.store.secrets.get(&name).cloned();
        if self.store.secrets.absorb(name, secret.clone()) {
            self.secret_changed(before.as_ref(), &secret);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::jiff::Timestamp;
    use lockstep_engine::machine::{Event, Machine as _};
    use lockstep_engine::operator::{Config, Control as _};
    use lockstep_engine::recording::Recordable as _;
    use lockstep_engine::time::{Monotonic, Now, Wall};
    use serde_json::json;

    use super::*;
    use crate::Operator;
    use crate::names::{ARGO_NAMESPACE, CLUSTER};
    use crate::source::Source;

    /// Returns a controller whose lists had these objects of one source, and nothing else.
    fn listed(source: Source, objects: Vec<Value>) -> Controller {
        let mut operator = Operator::new(Config::default());
        let now = Now { wall: Wall::from_timestamp(Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
        let mut objects = Some(objects);
        for listed in Source::ALL {
            let kind = listed.kind();
            let found = objects.take_if(|_| listed == source).unwrap_or_default().into_iter();
            let found = found.map(|it| Event::Applied { kind: Arc::clone(&kind), object: Arc::new(it) });
            let (began, ended) = (
                Event::ListStarted { kind: Arc::clone(&kind) },
                Event::ListCompleted { kind: Arc::clone(&kind) },
            );
            for event in [began].into_iter().chain(found).chain([ended]) {
                let _step = operator.step(event, now);
            }
        }
        let mut state = operator.checkpoint()().expect("JSON");
        serde_json::from_value(state["controller"].take()).expect("the state of a controller")
    }

    fn object(name: &str, version: &str) -> Value {
        json!({ "metadata": { "namespace": "dpf", "name": name, "uid": name, "resourceVersion": version } })
    }

    #[test]
    fn the_only_service_that_an_answer_shows_again_enqueues_the_shared_objects() {
        let mut controller = listed(Source::Clusters, vec![object("east", "1")]);
        let name = Name::new("dpf", "agent");
        controller.confirm_service(&name, &object("agent", "2"));
        assert_eq!(controller.outbox.woken, [Key::Cluster(Name::new("dpf", "east")), Key::Project]);
        controller.outbox.woken.clear();
        controller.confirm_service(&name, &object("agent", "3"));
        assert_eq!(controller.outbox.woken, []);
    }

    /// Otherwise a cluster would have no Secret of Argo CD until the next resync.
    #[test]
    fn both_clusters_of_a_secret_that_is_now_of_another_one_are_enqueued() {
        let secret = |cluster: &str, version: &str| {
            let mut secret = object("copy", version);
            secret["metadata"]["namespace"] = json!(ARGO_NAMESPACE);
            secret["metadata"]["annotations"] = json!({ CLUSTER: format!("dpf/{cluster}") });
            secret
        };
        for is_watched in [false, true] {
            let mut controller = listed(Source::Secrets, vec![secret("east", "1")]);
            let changed = secret("west", "2");
            if is_watched {
                controller.observed(&Source::Secrets.kind(), &Arc::new(changed));
            } else {
                controller.absorb_secret(&changed);
            }
            let woken = ["east", "west"].map(|name| Key::Cluster(Name::new("dpf", name)));
            assert!(
                woken.iter().all(|key| controller.outbox.woken.contains(key)),
                "{is_watched}: {:?}",
                controller.outbox.woken
            );
        }
    }

    #[test]
    fn a_cluster_that_an_answer_shows_again_enqueues_every_service() {
        let mut controller = listed(Source::Services, vec![object("agent", "1")]);
        let name = Name::new("dpf", "east");
        controller.absorb_cluster(&name, &object("east", "2"));
        let woken = [Key::Cluster(name.clone()), Key::Service(Name::new("dpf", "agent"))];
        assert!(
            woken.iter().all(|key| controller.outbox.woken.contains(key)),
            "{:?}",
            controller.outbox.woken
        );
        controller.outbox.woken.clear();
        controller.absorb_cluster(&name, &object("east", "3"));
        assert_eq!(controller.outbox.woken, [Key::Cluster(name)]);
    }
}
