//! Runs as many Workers as each App wants, each with a Volume. A Volume is deleted after its Worker, and only if it is unwanted.

use std::sync::Arc;

use lockstep_engine::object::{Kind, Name, ObjectRef, is_deleting, metadata};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::write;
use serde_json::{Value, json};

use crate::controller::{Controller, Seen};
use crate::kinds::{PAGE, app, app_of, belongs_to, creation, index, key_of, of, volume, worker};
use crate::kubelet;
use crate::pass::{Pass, Stop};

pub mod exhibits;
mod simulation;

/// The bugs that can be planted.
#[expect(missing_docs, reason = "the exhibits describe them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    ChecksWorkerOnly,
    CleansUpFirstPage,
    CountsStaleWorkers,
    DeletesVolumesByStaleWorkers,
    NeedsToSeeTermination,
    ScalesToStaleNumber,
}

/// The controller, with or without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Scaler(pub Option<Bug>);

/// What exists of an App, and the App itself, which was read last.
struct Existing {
    app: Option<Arc<Value>>,
    volumes: Vec<Arc<Value>>,
    workers: Vec<Arc<Value>>,
}

impl Existing {
    fn wanted(&self) -> u64 {
        self.app.as_ref().map_or(0, |app| replicas(app))
    }

    fn is_owned(&self, object: &Value) -> bool {
        self.app.as_ref().is_some_and(|app| belongs_to(object, app))
    }

    fn is_wanted(&self, object: &Value) -> bool {
        self.is_owned(object) && index(object).is_some_and(|at| at < self.wanted())
    }

    fn has(objects: &[Arc<Value>], name: &str) -> bool {
        objects.iter().any(|it| metadata(it, "name") == name)
    }
}

fn replicas(app: &Value) -> u64 {
    app["spec"]["replicas"].as_u64().unwrap_or_default()
}

fn delete(kind: &Arc<Kind>, found: &Value, pass: &mut Pass<'_>) -> Result<(), Stop> {
    pass.write(write::delete(Name::of(found).object(kind), found))
}

fn start(target: &ObjectRef, app: &Value, mut more: Value, pass: &mut Pass<'_>) -> Result<(), Stop> {
    more["metadata"]["finalizers"] = json!([kubelet::FINALIZER]);
    pass.write(creation(target, app, metadata(app, "name"), more))
}

impl Scaler {
    fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    fn read(self, key: &Name, pass: &mut Pass<'_>) -> Result<Existing, Stop> {
        // The App is read last: it is not older than what it decides about.
        let mut volumes = pass.list(&volume(), of(key))?;
        let mut workers = pass.list(&worker(), of(key))?;
        volumes.retain(|it| metadata(it, "namespace") == key.namespace);
        workers.retain(|it| metadata(it, "namespace") == key.namespace);
        let target = key.object(&app());
        let app = if self.has(Bug::ScalesToStaleNumber) { pass.cached(&target) } else { pass.get(&target)? };
        Ok(Existing { app: app.filter(|app| !is_deleting(app)), volumes, workers })
    }

    fn stop_workers(existing: &Existing, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let mut extra = existing.workers.iter().filter(|it| !existing.is_wanted(it) && !is_deleting(it));
        extra.try_for_each(|found| delete(&worker(), found, pass))
    }

    fn delete_volumes(self, key: &Name, existing: &Existing, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let terminating: Vec<String> = pass
            .all_cached(&worker())
            .iter()
            .filter(|it| is_deleting(it) && app_of(it).as_ref() == Some(key))
            .map(|it| metadata(it, "name").to_owned())
            .collect();
        let page = if self.has(Bug::CleansUpFirstPage) { PAGE } else { usize::MAX };
        for found in existing.volumes.iter().take(page) {
            let name = metadata(found, "name");
            let is_terminating = terminating.iter().any(|it| it == name);
            let is_unused = !existing.is_wanted(found) && !Existing::has(&existing.workers, name);
            let is_due = match self.0 {
                Some(Bug::DeletesVolumesByStaleWorkers) => is_terminating || is_unused,
                Some(Bug::NeedsToSeeTermination) => is_terminating && !existing.is_wanted(found),
                _ => is_unused,
            };
            if is_due {
                delete(&volume(), found, pass)?;
            }
        }
        Ok(())
    }

    fn start_workers(self, key: &Name, existing: &Existing, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let Some(app) = &existing.app else { return Ok(()) };
        for at in 0..existing.wanted() {
            let name = format!("{}-{at}", key.name);
            let [volume, worker] =
                [volume(), worker()].map(|it| ObjectRef::namespaced(&it, &key.namespace, &name));
            let needs_volume = !Existing::has(&existing.volumes, &name);
            let create = creation(&volume, app, &key.name, json!({ "spec": {} }));
            if needs_volume && !self.has(Bug::ChecksWorkerOnly) {
                pass.write(create.clone())?;
            }
            if !Existing::has(&existing.workers, &name) {
                start(&worker, app, json!({ "spec": {} }), pass)?;
                if needs_volume && self.has(Bug::ChecksWorkerOnly) {
                    pass.write(create)?;
                }
            }
        }
        Ok(())
    }

    /// Starts and stops Workers with generated names, by their number in the cache.
    fn count(key: &Name, existing: &Existing, pass: &mut Pass<'_>) -> Result<(), Stop> {
        let mut known = pass.all_cached(&worker());
        known.retain(|it| app_of(it).as_ref() == Some(key) && !is_deleting(it));
        let (own, foreign): (Vec<_>, Vec<_>) = known.iter().partition(|it| existing.is_owned(it));
        let wanted = usize::try_from(existing.wanted()).unwrap_or(usize::MAX);
        for found in own.iter().skip(wanted).chain(&foreign) {
            delete(&worker(), found, pass)?;
        }
        let Some(app) = &existing.app else { return Ok(()) };
        let target = ObjectRef::namespaced(&worker(), &key.namespace, "");
        for _ in own.len()..wanted {
            let more = json!({ "metadata": { "generateName": format!("{}-", key.name) }, "spec": {} });
            start(&target, app, more, pass)?;
        }
        Ok(())
    }
}

impl Controller for Scaler {
    const NAME: &'static str = "scaler";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![app(), volume(), worker()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        key_of(seen.kind, seen.object).into_iter().collect()
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        let existing = self.read(key, pass)?;
        if self.has(Bug::CountsStaleWorkers) {
            return Self::count(key, &existing, pass).map(|()| Verdict::Converged);
        }
        Self::stop_workers(&existing, pass)?;
        self.delete_volumes(key, &existing, pass)?;
        // A Worker or Volume that still has a name must go first; its deletion enqueues the key.
        self.start_workers(key, &existing, pass)?;
        Ok(Verdict::Converged)
    }
}
