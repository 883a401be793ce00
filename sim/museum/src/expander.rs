//! Keeps a Template and Volumes of the size and number that each App wants. Volumes only grow.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting, metadata, precondition};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::write;
use serde_json::{Value, json};

use crate::controller::{Controller, Seen};
use crate::kinds::{app, belongs_to, creation, index, key_of, of, template, volume};
use crate::pass::{Pass, Stop};

pub mod exhibits;
mod simulation;

/// The bugs that can be planted.
#[expect(missing_docs, reason = "the exhibits describe them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    ComparesTemplateOnly,
    CountsAfterUpdate,
}

/// The controller, with or without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Expander(pub Option<Bug>);

/// What exists of an App.
struct Existing {
    volumes: Vec<Arc<Value>>,
    template: Option<Arc<Value>>,
}

fn number(object: &Value, field: &str) -> u64 {
    object["spec"][field].as_u64().unwrap_or_default()
}

fn delete(kind: &Arc<Kind>, found: &Value, pass: &mut Pass<'_>) -> Result<(), Stop> {
    pass.write(write::delete(Name::of(found).object(kind), found))
}

fn set(kind: &Arc<Kind>, found: &Value, spec: &Value, pass: &mut Pass<'_>) -> Result<(), Stop> {
    if write::covers(&found["spec"], spec) {
        return Ok(());
    }
    let patch = Arc::new(json!({ "metadata": precondition(found), "spec": spec }));
    pass.write(Action::Kube(KubeRequest::Patch {
        target: Name::of(found).object(kind),
        subresource: None,
        patch,
    }))
}

impl Expander {
    fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    fn ensure_template(
        key: &Name,
        app: &Value,
        found: Option<&Value>,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let spec = json!({ "replicas": number(app, "replicas"), "size": number(app, "size") });
        match found {
            Some(found) => set(&template(), found, &spec, pass),
            None => pass.write(creation(&key.object(&template()), app, &key.name, json!({ "spec": spec }))),
        }
    }

    /// Replaces the template and resizes the volumes, because the template has another size.
    fn replace(
        key: &Name,
        app: &Value,
        existing: &Existing,
        found: &Value,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        delete(&template(), found, pass)?;
        for found in &existing.volumes {
            set(&volume(), found, &json!({ "size": number(app, "size") }), pass)?;
        }
        Self::ensure_template(key, app, None, pass)
    }

    fn ensure_volumes(
        self,
        key: &Name,
        app: &Value,
        existing: &Existing,
        pass: &mut Pass<'_>,
    ) -> Result<(), Stop> {
        let size = number(app, "size");
        for wanted in 0..number(app, "replicas") {
            match existing.volumes.iter().find(|found| index(found) == Some(wanted)) {
                None => {
                    let name = format!("{}-{wanted}", key.name);
                    let target = ObjectRef::namespaced(&volume(), &key.namespace, &name);
                    pass.write(creation(&target, app, &key.name, json!({ "spec": { "size": size } })))?;
                }
                Some(found) if !self.has(Bug::ComparesTemplateOnly) && number(found, "size") < size => {
                    set(&volume(), found, &json!({ "size": size }), pass)?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn remove_extra(app: &Value, volumes: &[Arc<Value>], from: u64, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let extra =
            |found: &&Arc<Value>| index(found).is_some_and(|it| it >= number(app, "replicas") && it < from);
        for found in volumes.iter().filter(extra) {
            delete(&volume(), found, pass)?;
        }
        Ok(())
    }

    fn expand(
        self,
        key: &Name,
        app: &Value,
        existing: &Existing,
        pass: &mut Pass<'_>,
    ) -> Result<Verdict, Stop> {
        let replaces = self.has(Bug::ComparesTemplateOnly);
        let found = existing.template.as_deref();
        if let Some(found) = found.filter(|found| replaces && number(found, "size") != number(app, "size")) {
            Self::replace(key, app, existing, found, pass)?;
            return Ok(Verdict::Requeue(Duration::from_secs(1)));
        }
        if self.has(Bug::CountsAfterUpdate) {
            Self::ensure_template(key, app, found, pass)?;
            self.ensure_volumes(key, app, existing, pass)?;
            let before = pass.get(&key.object(&template()))?.map_or(0, |found| number(&found, "replicas"));
            Self::remove_extra(app, &existing.volumes, before, pass)?;
        } else {
            self.ensure_volumes(key, app, existing, pass)?;
            Self::remove_extra(app, &existing.volumes, u64::MAX, pass)?;
            Self::ensure_template(key, app, found, pass)?;
        }
        Ok(Verdict::Converged)
    }
}

impl Controller for Expander {
    const NAME: &'static str = "expander";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![app(), template(), volume()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        key_of(seen.kind, seen.object).into_iter().collect()
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        // The App is read last: it is not older than what it decides about.
        let mut volumes = pass.list(&volume(), of(key))?;
        volumes.retain(|found| metadata(found, "namespace") == key.namespace);
        let template_found = pass.get(&key.object(&template()))?;
        let app = pass.get(&key.object(&app()))?;
        let app = app.filter(|app| !is_deleting(app));
        let is_foreign = |found: &Value| !app.as_ref().is_some_and(|app| belongs_to(found, app));
        let mut is_clean = true;
        for found in volumes.iter().filter(|found| is_foreign(found)) {
            delete(&volume(), found, pass)?;
            is_clean = false;
        }
        if let Some(found) = template_found.as_ref().filter(|found| is_foreign(found)) {
            delete(&template(), found, pass)?;
            is_clean = false;
        }
        match app {
            Some(_) if !is_clean => Ok(Verdict::Requeue(Duration::from_secs(1))),
            Some(app) => self.expand(key, &app, &Existing { volumes, template: template_found }, pass),
            None => Ok(Verdict::Converged),
        }
    }
}
