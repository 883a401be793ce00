//! Runs one Worker for each generation of an App until it has finished, and records that in the status.

use std::sync::Arc;

use lockstep_engine::action::{Action, ErrorKind, KubeRequest, Subresource};
use lockstep_engine::object::{Kind, Name, generation, is_deleting, precondition};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::write;
use serde_json::{Value, json};

use crate::controller::{Controller, Seen};
use crate::kinds::{app, belongs_to, creation, key_of, uid, worker};
use crate::kubelet;
use crate::pass::{Pass, Stop};

pub mod exhibits;
mod simulation;

/// The bugs that can be planted.
#[expect(missing_docs, reason = "the exhibits describe them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    DeletesBeforeRecording,
    FailsForGoodOnExisting,
    IgnoresEventsWhileWriting,
    MarksBeforeStarting,
    ReadsStaleStatus,
    RunsWhateverIsMissing,
}

/// The controller, with or without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Runner(pub Option<Bug>);

/// Returns whether the status of an App has a field with the current generation.
fn has_status(app: &Value, field: &str) -> bool {
    app["status"][field] == generation(app)
}

/// Returns whether a Worker is that of the App's generation.
fn is_current(worker: &Value, app: &Value) -> bool {
    belongs_to(worker, app) && worker["spec"]["generation"] == generation(app)
}

fn patch_status(key: &Name, metadata: &Value, status: &Value) -> Action {
    let patch = Arc::new(json!({ "metadata": metadata, "status": status }));
    let (target, subresource) = (key.object(&app()), Some(Subresource::Status));
    Action::Kube(KubeRequest::Patch { target, subresource, patch })
}

impl Runner {
    fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Returns the App with the status that decides whether it runs.
    fn read(self, key: &Name, pass: &mut Pass<'_>) -> Result<Option<Arc<Value>>, Stop> {
        let target = key.object(&app());
        let Some(app) = pass.get(&target)?.filter(|app| !is_deleting(app)) else { return Ok(None) };
        let is_same = |stale: &Arc<Value>| uid(stale) == uid(&app) && generation(stale) == generation(&app);
        let stale = pass.cached(&target).filter(|stale| self.has(Bug::ReadsStaleStatus) && is_same(stale));
        Ok(Some(stale.unwrap_or(app)))
    }

    fn start(self, key: &Name, app: &Value, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        let spec = json!({ "generation": generation(app) });
        let more = json!({ "metadata": { "finalizers": [kubelet::FINALIZER] }, "spec": spec });
        let create = creation(&key.object(&worker()), app, &key.name, more);
        if self.has(Bug::MarksBeforeStarting) {
            pass.write(patch_status(key, &precondition(app), &json!({ "starting": generation(app) })))?;
            let created = pass.send(create)?;
            pass.write(patch_status(key, &json!({}), &json!({ "starting": null })))?;
            return Ok(created.map(|_| Verdict::Converged)?);
        }
        match pass.send(create)? {
            Err(failure)
                if self.has(Bug::FailsForGoodOnExisting) && failure.class == ErrorKind::AlreadyExists =>
            {
                let failed = json!({ "failed": generation(app) });
                pass.write(patch_status(key, &precondition(app), &failed)).map(|()| Verdict::Converged)
            }
            outcome => Ok(outcome.map(|_| Verdict::Converged)?),
        }
    }

    fn record(self, key: &Name, app: &Value, found: &Value, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        let done = json!({ "done": generation(app) });
        if self.has(Bug::IgnoresEventsWhileWriting) {
            return pass.write(patch_status(key, &json!({}), &done)).map(|()| Verdict::Converged);
        }
        if has_status(app, "done") {
            return Ok(Verdict::Converged);
        }
        if self.has(Bug::DeletesBeforeRecording) {
            pass.write(write::delete(key.object(&worker()), found))?;
        }
        pass.write(patch_status(key, &precondition(app), &done)).map(|()| Verdict::Converged)
    }
}

impl Controller for Runner {
    const NAME: &'static str = "runner";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![app(), worker()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        key_of(seen.kind, seen.object).into_iter().collect()
    }

    fn ignores_while_writing(&self) -> bool {
        self.has(Bug::IgnoresEventsWhileWriting)
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        // The App is read after the Worker: it is not older than the Worker.
        let target = key.object(&worker());
        let found =
            if self.has(Bug::FailsForGoodOnExisting) { pass.cached(&target) } else { pass.get(&target)? };
        let app = self.read(key, pass)?;
        let is_stopped = |app: &Value| {
            self.has(Bug::FailsForGoodOnExisting) && has_status(app, "failed")
                || self.has(Bug::MarksBeforeStarting) && has_status(app, "starting")
        };
        match (found, app) {
            // Its deletion enqueues the key.
            (Some(found), _) if is_deleting(&found) => Ok(Verdict::Converged),
            (Some(found), app) if !app.as_ref().is_some_and(|app| is_current(&found, app)) => {
                pass.write(write::delete(target, &found)).map(|()| Verdict::Converged)
            }
            (_, Some(app)) if is_stopped(&app) => Ok(Verdict::Converged),
            (Some(found), Some(app)) if found["status"]["ready"] == true => {
                self.record(key, &app, &found, pass)
            }
            (None, Some(app)) if !has_status(&app, "done") || self.has(Bug::RunsWhateverIsMissing) => {
                self.start(key, &app, pass)
            }
            _ => Ok(Verdict::Converged),
        }
    }
}
