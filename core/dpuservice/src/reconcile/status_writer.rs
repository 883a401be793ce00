//! Writes the status of a service.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::dpuservice::DPUServiceStatus;
use lockstep_engine::action::{Action, Answer as _, KubeRequest, Outcome, Subresource, only};
use lockstep_engine::object::{Name, precondition};
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use lockstep_engine::write::merge_patch;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::model::service::service_ref;
use crate::state::Controller;

/// The minimum time between two status writes, unless a condition changes.
const SETTLES: Duration = Duration::from_secs(5);

/// The status is being written. The pass ends with this verdict, and these conditions change.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reporting(Verdict, Vec<Condition>);

impl Controller {
    /// Writes a status if it differs from the current one, or if an earlier write got no answer.
    pub(super) fn write_status(
        &mut self,
        key: &Name,
        wanted: &DPUServiceStatus,
        verdict: Verdict,
        changed: Vec<Condition>,
        now: Now,
    ) -> Next<Reporting> {
        let Some(service) = self.store.services.get(key) else { return Next::Done(Verdict::Converged) };
        let shown = self.store.unconfirmed.take_shown(key, &service.status.conditions);
        self.announce(key, &shown, now);
        let Some(service) = self.store.services.get(key) else { return Next::Done(Verdict::Converged) };
        // A new time of Argo CD's last comparison alone is not written: it is written with other changes.
        let silent =
            DPUServiceStatus { reconciled_at: service.status.reconciled_at.clone(), ..wanted.clone() };
        if silent == service.status && !self.store.services.is_doubted(key) {
            return Next::Done(verdict);
        }
        let status = merge_patch(&json!(service.status), &json!(wanted)).unwrap_or_else(|| json!({}));
        // While Argo CD deploys or removes, each of its steps on each cluster would cause a write.
        let since =
            self.store.status_written_at.get(key).map_or(SETTLES, |written| now.monotonic.since(*written));
        let rest = SETTLES.saturating_sub(since);
        let again = match verdict {
            Verdict::Converged => Some(rest),
            Verdict::Requeue(after) => Some(after.min(rest)),
            Verdict::Retry { .. } => None,
        };
        if let Some(again) = again.filter(|_| changed.is_empty() && !rest.is_zero()) {
            return Next::Done(Verdict::Requeue(again));
        }
        let patch = Arc::new(json!({ "metadata": precondition(&service.metadata), "status": status }));
        let write = Action::Kube(KubeRequest::Patch {
            target: service_ref(key),
            subresource: Some(Subresource::Status),
            patch,
        });
        Next::Await(vec![write], Reporting(verdict, changed))
    }

    /// Handles the answer to the write of a status.
    pub(super) fn status_written(
        &mut self,
        key: &Name,
        Reporting(verdict, changed): Reporting,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Verdict {
        match only(outcomes).object() {
            Ok(object) => {
                self.confirm_service(key, &object);
                self.store.unconfirmed.forget(key);
                self.store.status_written_at.insert(key.clone(), now.monotonic);
                self.announce(key, &changed, now);
                verdict
            }
            Err(failure) => {
                self.store.services.write_failed(key.clone(), &failure);
                self.store.unconfirmed.write_failed(key.clone(), &changed, &failure);
                Verdict::retry("writing the status", &failure)
            }
        }
    }
}
