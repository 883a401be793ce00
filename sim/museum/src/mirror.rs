//! Copies the text of each App, and its team's token, to a ConfigMap in the namespace `shared`. A finalizer protects the cleanup.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting, label, metadata, precondition};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::{finalizer, write};
use serde_json::{Value, json};

use crate::controller::{Cause, Controller, Seen};
use crate::kinds::{APP, OWNER, app, belongs_to, config_map, creation, owner, secret, uid};
use crate::pass::{Pass, Stop};

pub mod exhibits;
mod simulation;

/// The namespace of all copies.
pub const SHARED: &str = "shared";
/// The controller's finalizer.
pub const FINALIZER: &str = "museum.example.com/mirror";

/// The bugs that can be planted.
#[expect(missing_docs, reason = "the exhibits describe them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    AddsFinalizerLast,
    AdoptsExisting,
    AppliesTwice,
    CleansUpOnEvent,
    ClearsFinalizers,
    ComparesGenerationOfSecrets,
    ComparesLabelsOfCopies,
    DropsAnnotationsOfCopies,
    DropsFinalizersOfCopies,
    IgnoresCleanupErrors,
    IgnoresSecrets,
    NamesWithoutNamespace,
    NeedsSecretToCleanUp,
    NeverAddsFinalizer,
    OwnerInOtherNamespace,
    PatchesStaleFinalizers,
    RemovesFinalizerEarly,
    TruncatesNames,
    TrustsCacheOnCleanup,
}

/// The controller, with or without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Mirror(pub Option<Bug>);

/// Returns the token of the team of an App.
fn token(app: &Name) -> ObjectRef {
    ObjectRef::namespaced(&secret(), &app.namespace, "token")
}

impl Mirror {
    fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Returns the copy of an App.
    fn copy(self, app: &Name) -> ObjectRef {
        let name = match self.0 {
            Some(Bug::NamesWithoutNamespace) => app.name.clone(),
            Some(Bug::TruncatesNames) => format!("{}.{}", app.namespace, app.name)[..23].to_owned(),
            _ => format!("{}.{}", app.namespace, app.name),
        };
        ObjectRef::namespaced(&config_map(), SHARED, &name)
    }

    fn deploy(
        self,
        key: &Name,
        app: &Value,
        copy: Option<&Value>,
        pass: &mut Pass<'_>,
    ) -> Result<Verdict, Stop> {
        pass.memory = 1;
        let has_finalizer = !matches!(self.0, Some(Bug::NeverAddsFinalizer | Bug::CleansUpOnEvent));
        let add = finalizer::add(&Self::target(key), app, FINALIZER).filter(|_| has_finalizer);
        let (first, last) = if self.has(Bug::AddsFinalizerLast) { (None, add) } else { (add, None) };
        if let Some(add) = first {
            return pass.write(self.with_precondition(add)).map(|()| Verdict::Converged);
        }
        let token = pass.get(&token(key))?.map_or(Value::Null, |secret| secret["data"]["token"].clone());
        let data = json!({ "text": app["spec"]["text"], "token": token.as_str().unwrap_or_default() });
        let target = self.copy(key);
        match copy {
            None if self.has(Bug::AppliesTwice) => self.apply(key, app, &data, pass),
            None => pass.write(self.create(key, app, &data)).map(|()| Verdict::Converged),
            Some(found) if belongs_to(found, app) && found["data"] == data => match last {
                Some(add) => pass.write(add).map(|()| Verdict::Converged),
                None => Ok(Verdict::Converged),
            },
            Some(_) if self.has(Bug::AppliesTwice) => self.apply(key, app, &data, pass),
            Some(found) if belongs_to(found, app) || self.overwrites(found) => {
                pass.write(self.update(key, found, app, &data)).map(|()| Verdict::Converged)
            }
            Some(found) if owner(found).is_some() => {
                pass.write(write::delete(target, found))?;
                Ok(Verdict::Requeue(Duration::from_secs(1)))
            }
            // Another client has this name. Without our label, no event reports when it is free.
            Some(_) => Ok(Verdict::Requeue(Duration::from_secs(30))),
        }
    }

    /// Returns a patch as it is sent: with the state that it was made from as a precondition.
    fn with_precondition(self, patch: Action) -> Action {
        match patch {
            Action::Kube(KubeRequest::Patch { target, subresource, patch })
                if self.has(Bug::PatchesStaleFinalizers) =>
            {
                let finalizers = &patch["metadata"]["finalizers"];
                let patch = Arc::new(json!({ "metadata": { "finalizers": finalizers } }));
                Action::Kube(KubeRequest::Patch { target, subresource, patch })
            }
            patch => patch,
        }
    }

    fn target(key: &Name) -> ObjectRef {
        key.object(&app())
    }

    /// Returns whether the update of an object that belongs to no App of this name is allowed.
    fn overwrites(self, found: &Value) -> bool {
        let shares_names = matches!(self.0, Some(Bug::NamesWithoutNamespace | Bug::TruncatesNames));
        self.has(Bug::AdoptsExisting) || shares_names && owner(found).is_some()
    }

    fn label(key: &Name) -> String {
        format!("{}.{}", key.namespace, key.name)
    }

    fn create(self, key: &Name, app: &Value, data: &Value) -> Action {
        let mut more = json!({ "data": data });
        if self.has(Bug::OwnerInOtherNamespace) {
            let kind = crate::kinds::app();
            let reference = lockstep_engine::object::controller_reference(&kind, &key.name, &uid(app).into());
            more["metadata"]["ownerReferences"] = json!([reference]);
        }
        creation(&self.copy(key), app, &Self::label(key), more)
    }

    fn update(self, key: &Name, found: &Value, app: &Value, data: &Value) -> Action {
        let target = self.copy(key);
        let mut metadata = precondition(found);
        metadata["labels"] = json!({ OWNER: uid(app), APP: Self::label(key) });
        if self.has(Bug::DropsAnnotationsOfCopies) {
            metadata["annotations"] = Value::Null;
        }
        if self.has(Bug::DropsFinalizersOfCopies) {
            metadata["name"] = json!(target.name);
            metadata["namespace"] = json!(SHARED);
            let manifest =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
            return Action::Kube(KubeRequest::Update { target, manifest: Arc::new(manifest) });
        }
        Action::Kube(KubeRequest::Patch {
            target,
            subresource: None,
            patch: Arc::new(json!({ "metadata": metadata, "data": data })),
        })
    }

    /// Applies each field on its own, always with the same field manager.
    fn apply(self, key: &Name, app: &Value, data: &Value, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        for field in ["text", "token"] {
            let target = self.copy(key);
            let labels = json!({ OWNER: uid(app), APP: Self::label(key) });
            let metadata = json!({ "name": target.name, "namespace": SHARED, "labels": labels });
            let data = json!({ field: data[field] });
            let manifest =
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
            pass.write(Action::Kube(KubeRequest::Apply { target, manifest: Arc::new(manifest) }))?;
        }
        Ok(Verdict::Converged)
    }

    /// Returns the copy that an App leaves when it is deleted. It is read again after the App: a process that still considers
    /// itself the leader may have created it between the two reads.
    fn left(
        self,
        key: &Name,
        app: Option<&Value>,
        copy: Option<Arc<Value>>,
        pass: &mut Pass<'_>,
    ) -> Result<Option<Arc<Value>>, Stop> {
        let is_found = copy.as_ref().is_some_and(|copy| owner(copy).is_some());
        match app {
            Some(app) if !is_found && !self.has(Bug::TrustsCacheOnCleanup) => {
                Ok(pass.get(&self.copy(key))?.filter(|copy| belongs_to(copy, app)))
            }
            _ => Ok(copy),
        }
    }

    fn clean_up(
        self,
        key: &Name,
        app: Option<&Value>,
        copy: Option<&Value>,
        pass: &mut Pass<'_>,
    ) -> Result<Verdict, Stop> {
        let needs_finalizer = matches!(self.0, Some(Bug::NeverAddsFinalizer | Bug::AddsFinalizerLast));
        let is_left = needs_finalizer || self.has(Bug::CleansUpOnEvent) && pass.memory == 0;
        if app.is_none() && is_left {
            return Ok(Verdict::Converged);
        }
        if self.has(Bug::NeedsSecretToCleanUp) && app.is_some() && pass.get(&token(key))?.is_none() {
            return Err(Stop::Failed(Verdict::because("the token is missing")));
        }
        if let Some(found) = copy.filter(|copy| owner(copy).is_some()) {
            if is_deleting(found) {
                return Ok(Verdict::Converged);
            }
            let delete = write::delete(self.copy(key), found);
            if self.has(Bug::IgnoresCleanupErrors) {
                let _ = pass.send(delete)?;
            } else {
                pass.write(delete)?;
                let left =
                    if self.has(Bug::RemovesFinalizerEarly) { None } else { pass.get(&self.copy(key))? };
                if left.is_some_and(|left| owner(&left).is_some()) {
                    return Ok(Verdict::Converged);
                }
            }
        }
        let remove = app.and_then(|app| {
            let remove = finalizer::remove(&Self::target(key), app, FINALIZER)?;
            let clear = Arc::new(json!({ "metadata": { "finalizers": [] } }));
            let clear = Action::Kube(KubeRequest::Patch {
                target: Self::target(key),
                subresource: None,
                patch: clear,
            });
            Some(if self.has(Bug::ClearsFinalizers) { clear } else { remove })
        });
        match remove {
            Some(remove) => pass.write(remove).map(|()| Verdict::Converged),
            None => Ok(Verdict::Converged),
        }
    }
}

impl Controller for Mirror {
    const NAME: &'static str = "mirror";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![app(), config_map(), secret()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        let is_same = |field: &str| match seen.cause {
            Cause::Changed(old) => old["metadata"][field] == seen.object["metadata"][field],
            Cause::Exists | Cause::Deleted => false,
        };
        match &*seen.kind.kind {
            "App" => vec![Name::of(seen.object)],
            "ConfigMap" if self.has(Bug::ComparesLabelsOfCopies) && is_same("labels") => Vec::new(),
            "ConfigMap" => {
                let key = label(seen.object, APP).and_then(|label| label.split_once('.'));
                key.map(|(namespace, name)| Name::new(namespace, name)).into_iter().collect()
            }
            _ if self.has(Bug::IgnoresSecrets) => Vec::new(),
            _ if self.has(Bug::ComparesGenerationOfSecrets) && is_same("generation") => Vec::new(),
            _ => {
                let team = metadata(seen.object, "namespace");
                seen.others(&app()).map(|app| Name::of(app)).filter(|app| app.namespace == team).collect()
            }
        }
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        // The App is read after the copy, so it is not older than the copy.
        let copy = if self.has(Bug::TrustsCacheOnCleanup) {
            pass.cached(&self.copy(key))
        } else {
            pass.get(&self.copy(key))?
        };
        let app = pass.get(&Self::target(key))?;
        match app {
            Some(app) if !is_deleting(&app) => self.deploy(key, &app, copy.as_deref(), pass),
            app => {
                let copy = self.left(key, app.as_deref(), copy, pass)?;
                self.clean_up(key, app.as_deref(), copy.as_deref(), pass)
            }
        }
    }
}
