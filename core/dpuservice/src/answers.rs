//! Stores the objects in answers, and enqueues the other keys that depend on them.

use lockstep_engine::cache::Cached as _;
use lockstep_engine::object::{Name, ResourceVersion};
use serde_json::Value;

use crate::model::application::App;
use crate::model::secret::Secret;
use crate::state::Controller;

impl Controller {
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
