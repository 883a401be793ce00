//! The removal of an Application: its deletion, and the end of an operation in progress.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::cache::Cached as _;
use lockstep_engine::object::{Name, ObjectRef};
use serde_json::{Value, json};

use crate::model::application::{App, application_ref};

/// Returns the next write for the removal of an Application: its deletion, and then the end of an operation in progress. Argo
/// CD deletes nothing before the operation has ended, and it retries a failed one without end.
pub fn next_removal(name: &Name, app: &App) -> Option<Action> {
    let target = application_ref(name);
    if !app.deleting {
        return Some(Action::Kube(KubeRequest::Delete {
            target,
            uid: app.uid.clone(),
            resource_version: None,
        }));
    }
    let is_running = app.report.operation.as_ref().is_some_and(|operation| operation.phase == "Running");
    is_running.then(|| terminate(target, &json!({ "uid": app.uid })))
}

/// Returns the write that ends an operation because it delays a change. The precondition protects a newer operation.
pub fn termination(name: &Name, app: &App) -> Action {
    terminate(application_ref(name), &json!({ "uid": app.uid, "resourceVersion": app.resource_version() }))
}

/// Ends an operation as `argocd app terminate-op` does: Applications have no status subresource.
fn terminate(target: ObjectRef, metadata: &Value) -> Action {
    let status = json!({ "operationState": { "phase": "Terminating" } });
    let patch = json!({ "metadata": metadata, "status": status });
    Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::new(patch) })
}
