//! Runs one Worker for each App, and reports it in the status.

use std::sync::Arc;

use lockstep_engine::action::{Action, ErrorKind, KubeRequest, Subresource};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{Kind, Name, generation, is_deleting, precondition};
use lockstep_engine::scheduler::Verdict;
use lockstep_engine::write;
use serde_json::{Value, json};

use crate::controller::{Controller, Seen, Watch};
use crate::kinds::{app, belongs_to, creation, key_of, worker};
use crate::kubelet;
use crate::pass::{Pass, Stop};

pub mod exhibits;
mod simulation;

/// The bugs that can be planted.
#[expect(missing_docs, reason = "the exhibits describe them")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    AlwaysMovesTransitionTime,
    BlocksKeyOnCacheMiss,
    ComparesStateOnly,
    CountsFailedReadAsZero,
    FailsForGoodOnConflict,
    IgnoresObservedGeneration,
    LosesRestartedWatch,
    OverwritesConditions,
    ReportsLatestGeneration,
    ResetsScale,
    StampsEveryReconcile,
    SwallowsConflict,
    SwallowsFailedRead,
    TogglesPhase,
    TrustsStatusAfterRestart,
    UnorderedList,
}

/// The controller, with or without a bug.
#[derive(Debug, Clone, Copy)]
pub struct Reporter(pub Option<Bug>);

/// Returns a condition of an App.
fn condition<'a>(app: &'a Value, name: &str) -> Option<&'a Value> {
    app["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == name)
}

fn patch_status(key: &Name, metadata: &Value, status: &Value) -> Action {
    let patch = Arc::new(json!({ "metadata": metadata, "status": status }));
    Action::Kube(KubeRequest::Patch {
        target: key.object(&app()),
        subresource: Some(Subresource::Status),
        patch,
    })
}

impl Reporter {
    fn has(self, bug: Bug) -> bool {
        self.0 == Some(bug)
    }

    /// Brings the Worker to its desired state. Returns whether it is ready.
    fn run(self, key: &Name, app: &Value, found: Option<&Value>, pass: &mut Pass<'_>) -> Result<bool, Stop> {
        let target = key.object(&worker());
        let mut spec = json!({ "text": app["spec"]["text"] });
        if self.has(Bug::ResetsScale) {
            spec["scale"] = json!(1);
        }
        let Some(found) = found else {
            let more = json!({ "metadata": { "finalizers": [kubelet::FINALIZER] }, "spec": spec });
            return pass.write(creation(&target, app, &key.name, more)).map(|()| false);
        };
        if is_deleting(found) {
            return Ok(false);
        }
        if !belongs_to(found, app) {
            return pass.write(write::delete(target, found)).map(|()| false);
        }
        let is_ready = found["status"]["ready"] == true;
        if !write::covers(&found["spec"], &spec) {
            let patch = Arc::new(json!({ "metadata": precondition(found), "spec": spec }));
            pass.write(Action::Kube(KubeRequest::Patch { target, subresource: None, patch }))?;
            return Ok(is_ready && self.has(Bug::IgnoresObservedGeneration));
        }
        let is_current = found["status"]["observedGeneration"] == generation(found);
        Ok(is_ready && (is_current || self.has(Bug::IgnoresObservedGeneration)))
    }

    fn conditions(self, app: &Value, is_ready: bool, pass: &Pass<'_>) -> Value {
        let status = if is_ready { "True" } else { "False" };
        let before = condition(app, "Ready").filter(|it| it["status"] == status);
        let kept = before.filter(|_| !self.has(Bug::AlwaysMovesTransitionTime));
        let since = kept.map_or_else(|| json!(pass.timestamp()), |it| it["lastTransitionTime"].clone());
        let others = app["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions: Vec<Value> = others.filter(|it| it["type"] != "Ready").cloned().collect();
        conditions.push(json!({ "type": "Ready", "status": status, "lastTransitionTime": since }));
        json!(conditions)
    }

    fn status(self, app: &Value, is_ready: bool, pass: &mut Pass<'_>) -> Value {
        let mut items = app["spec"]["items"].as_array().cloned().unwrap_or_default();
        items.sort_by_key(ToString::to_string);
        if self.has(Bug::UnorderedList) {
            let by = usize::try_from(pass.memory).unwrap_or_default() % items.len().max(1);
            items.rotate_left(by);
            pass.memory += 1;
        }
        let mut status = json!({
            "observedGeneration": generation(app),
            "text": app["spec"]["text"],
            "items": items,
            "ready": is_ready,
            "conditions": self.conditions(app, is_ready, pass),
        });
        if self.has(Bug::StampsEveryReconcile) {
            status["lastSeen"] = json!(pass.milliseconds());
        }
        status
    }

    fn report(self, key: &Name, app: &Value, is_ready: bool, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        if self.has(Bug::TogglesPhase) {
            pass.write(patch_status(key, &json!({}), &json!({ "phase": "Pending" })))?;
            pass.write(patch_status(key, &json!({}), &json!({ "phase": "Completed" })))?;
        }
        let stale =
            pass.cached(&key.object(&crate::kinds::app())).filter(|_| self.has(Bug::OverwritesConditions));
        let status = self.status(stale.as_deref().unwrap_or(app), is_ready, pass);
        let is_reported = if self.has(Bug::ComparesStateOnly) {
            condition(app, "Ready").is_some_and(|it| it["status"] == if is_ready { "True" } else { "False" })
        } else {
            !self.has(Bug::StampsEveryReconcile) && write::covers(&app["status"], &status)
        };
        if is_reported {
            return Ok(Verdict::Converged);
        }
        let metadata = if self.has(Bug::OverwritesConditions) { json!({}) } else { precondition(app) };
        match pass.send(patch_status(key, &metadata, &status))? {
            Ok(_) => Ok(Verdict::Converged),
            Err(failure) if failure.class == ErrorKind::Conflict => {
                self.conflict(key, status, pass, failure.into())
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn conflict(
        self,
        key: &Name,
        mut status: Value,
        pass: &mut Pass<'_>,
        retry: Verdict,
    ) -> Result<Verdict, Stop> {
        let write = match self.0 {
            Some(Bug::SwallowsConflict) => return Ok(Verdict::Converged),
            Some(Bug::FailsForGoodOnConflict) => patch_status(key, &json!({}), &json!({ "phase": "Failed" })),
            Some(Bug::ReportsLatestGeneration) => {
                let Some(latest) = pass.get(&key.object(&app()))? else { return Ok(Verdict::Converged) };
                status["observedGeneration"] = json!(generation(&latest));
                status["conditions"] = self.conditions(&latest, status["ready"] == true, pass);
                patch_status(key, &precondition(&latest), &status)
            }
            _ => return Ok(retry),
        };
        pass.write(write).map(|()| Verdict::Converged)
    }
}

impl Controller for Reporter {
    const NAME: &'static str = "reporter";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![app(), worker()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        key_of(seen.kind, seen.object).into_iter().collect()
    }

    fn ignores(&self, _: &Event, watch: Watch) -> bool {
        self.has(Bug::LosesRestartedWatch) && watch.lists > 1
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        if self.has(Bug::BlocksKeyOnCacheMiss) && pass.memory == 1 {
            return Ok(Verdict::Converged);
        }
        let target = key.object(&app());
        let found = pass.get(&key.object(&worker()))?;
        let app = pass.get(&target);
        if self.has(Bug::SwallowsFailedRead) && matches!(app, Err(Stop::Failed(_))) {
            return Ok(Verdict::Converged);
        }
        let app = app?;
        if self.has(Bug::BlocksKeyOnCacheMiss) && app.is_some() && pass.cached(&target).is_none() {
            pass.memory = 1;
            return Ok(Verdict::Converged);
        }
        let Some(app) = app.filter(|app| !is_deleting(app)) else {
            let Some(found) = found.filter(|found| !is_deleting(found)) else {
                return Ok(Verdict::Converged);
            };
            return pass.write(write::delete(key.object(&worker()), &found)).map(|()| Verdict::Converged);
        };
        if self.has(Bug::FailsForGoodOnConflict) && app["status"]["phase"] == "Failed" {
            return Ok(Verdict::Converged);
        }
        if self.has(Bug::TrustsStatusAfterRestart) && pass.memory == 0 {
            pass.memory = 1;
            if app["status"]["observedGeneration"] == generation(&app) && app["status"]["ready"] == true {
                return Ok(Verdict::Converged);
            }
        }
        let mut is_ready = self.run(key, &app, found.as_deref(), pass)?;
        if self.has(Bug::CountsFailedReadAsZero) {
            is_ready = match pass.get(&key.object(&worker())) {
                Err(Stop::Failed(_)) => false,
                found => found?.is_some() && is_ready,
            };
        }
        self.report(key, &app, is_ready, pass)
    }
}
