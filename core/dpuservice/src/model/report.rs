//! Argo CD's report about an Application, trimmed to a size that a status can hold.
//!
//! Argo CD reports every object and every deployment. For a service on fifty clusters that would exceed the size limit of the
//! API server.
//!
//! Source: "Status".

use lockstep_crds::dpuservice::{ApplicationCondition, HealthStatus, SyncStatus};
use lockstep_engine::object::text;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub mod comparison;
pub mod operation;
mod stable_text;
mod trim;

use comparison::compared;
use operation::Operation;
use stable_text::{short, steady};
use trim::{LIST_MAX_BYTES, deployment, items, resource, summary, within};

/// The maximum number of objects that are kept for one Application.
pub const RESOURCES_MAX: usize = 100;
/// The maximum number of deployments that are kept for one Application, the latest ones.
pub const HISTORY_MAX: usize = 10;
/// The maximum size of the objects of one Application as JSON, in bytes.
const RESOURCES_MAX_BYTES: usize = 40_000;

/// The maximum number of error conditions that are kept for one Application.
const CONDITIONS_MAX: usize = 10;

/// Argo CD's report about an Application.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the cluster matches the chart. `None` until Argo CD has compared them.
    pub sync: Option<SyncStatus>,
    /// Its health in the cluster.
    pub health: Option<HealthStatus>,
    /// Its conditions.
    pub conditions: Vec<ApplicationCondition>,
    /// The objects that it manages.
    pub resources: Vec<Value>,
    /// Its deployments.
    pub history: Vec<Value>,
    /// Its operation.
    pub operation_state: Option<Value>,
    /// The fields of the operation that decisions depend on.
    pub operation: Option<Operation>,
    /// The type of source that Argo CD has detected.
    pub source_type: Option<String>,
    /// Images and URLs.
    pub summary: Option<Value>,
    /// When it was last compared. This changes with every comparison, so no decision must depend on it.
    pub reconciled_at: Option<String>,
    /// The source that the cluster was compared with.
    pub compared_to: Value,
}

impl Report {
    /// Parses the status of an Application.
    pub fn read(status: &Value) -> Self {
        let owned = |pointer: &str| text(status, pointer).map(short);
        let known = |pointer: &str| status.pointer(pointer).filter(|value| !value.is_null());
        let sync = known("/sync").map(|sync| SyncStatus {
            status: text(sync, "/status").map(short).unwrap_or_default(),
            revision: text(sync, "/revision").map(short).unwrap_or_default(),
        });
        let health = known("/health").map(|health| HealthStatus {
            status: text(health, "/status").map(short).unwrap_or_default(),
            message: text(health, "/message").map(steady).unwrap_or_default(),
            last_transition_time: text(health, "/lastTransitionTime").map(short).unwrap_or_default(),
        });
        let conditions =
            items(status, "conditions").take(CONDITIONS_MAX).map(|condition| ApplicationCondition {
                type_: text(condition, "/type").map(short).unwrap_or_default(),
                message: text(condition, "/message").map(steady).unwrap_or_default(),
                last_transition_time: text(condition, "/lastTransitionTime").map(short).unwrap_or_default(),
            });
        let history = items(status, "history").rev().take(HISTORY_MAX).map(deployment);
        let mut history = within(LIST_MAX_BYTES, history);
        let resources = items(status, "resources").take(RESOURCES_MAX).map(resource);
        history.reverse();
        let operation = known("/operationState").map(|state| {
            let operation = Operation::read(state);
            (operation.shown(state), operation)
        });
        let (operation_state, operation) = operation.unzip();
        Self {
            sync,
            health,
            conditions: conditions.collect(),
            resources: within(RESOURCES_MAX_BYTES, resources),
            history,
            operation_state,
            operation,
            source_type: owned("/sourceType"),
            summary: known("/summary").map(summary),
            reconciled_at: owned("/reconciledAt"),
            compared_to: status.pointer("/sync/comparedTo").map(compared).unwrap_or_default(),
        }
    }

    /// Returns whether it is synced and healthy.
    pub fn is_well(&self) -> bool {
        let is = |status: Option<&str>, wanted: &str| status == Some(wanted);
        is(self.sync.as_ref().map(|sync| &*sync.status), "Synced")
            && is(self.health.as_ref().map(|health| &*health.status), "Healthy")
    }

    /// Returns whether its workloads fail or are not available yet. `Unknown` means that Argo CD has not determined their health, and
    /// `Suspended` that they are stopped on purpose.
    pub fn is_unhealthy(&self) -> bool {
        let health = self.health.as_ref().map(|health| &*health.status);
        matches!(health, Some("Degraded" | "Missing" | "Progressing"))
    }

    /// Returns whether the cluster differs from the chart.
    pub fn is_out_of_sync(&self) -> bool {
        self.sync.as_ref().is_some_and(|sync| sync.status == "OutOfSync")
    }

    /// Returns whether Argo CD reports a failure, rather than work in progress. The operation is the last one, if it is
    /// relevant.
    pub fn has_failed(&self, operation: Option<&Operation>) -> bool {
        let health = self.health.as_ref().map(|health| &*health.status);
        health == Some("Degraded")
            || operation.is_some_and(Operation::has_failed)
            || self.errors().next().is_some()
    }

    /// Returns its conditions that are errors of an Application that stays. Argo CD never removes a `DeletionError`.
    fn errors(&self) -> impl Iterator<Item = &ApplicationCondition> {
        let is_error = |condition: &&ApplicationCondition| {
            condition.type_.ends_with("Error") && condition.type_ != "DeletionError"
        };
        self.conditions.iter().filter(is_error)
    }

    /// Returns its state in a few words. The operation is the last one, if it is relevant.
    pub fn describe(&self, operation: Option<&Operation>) -> String {
        let sync = self.sync.as_ref().map_or("Argo CD has not looked at it yet", |sync| &*sync.status);
        let health = self.health.as_ref().map(|health| &*health.status).filter(|_| self.sync.is_some());
        let states: Vec<&str> = [Some(sync), health].into_iter().flatten().collect();
        let cause = operation.and_then(|operation| operation.cause.as_deref());
        // A SyncError also reports that a sync failed, but without the cause.
        let mut errors = self.errors().filter(|error| error.type_ != "SyncError" || cause.is_none());
        let waits = operation.filter(|operation| {
            let is_under_way = matches!(&*operation.phase, "Running" | "Terminating");
            is_under_way && cause.is_none() && (operation.hook.is_some() || sync == "Synced")
        });
        let waits = waits.map(|Operation { started_at, hook, .. }| match hook {
            Some(hook) => format!("the sync that began at {started_at} waits for {hook}"),
            None => format!("the sync that began at {started_at} has not ended"),
        });
        let why: Vec<&str> = if let Some(error) = errors.next() {
            vec![&*error.message]
        } else {
            let health = self.health.as_ref().map(|health| &*health.message);
            [health, cause, waits.as_deref()].into_iter().flatten().filter(|why| !why.is_empty()).collect()
        };
        match &why[..] {
            [] => states.join(", "),
            why => format!("{}: {}", states.join(", "), why.join("; ")),
        }
    }

    /// Copies values from the previous report that this one omits, or that have not really changed. While Argo CD retries a
    /// sync, it does not report why the previous attempt failed. And it sets a new time for a condition whose message differs
    /// only in a random name.
    pub fn remember(&mut self, before: &Self) {
        for condition in &mut self.conditions {
            let mut same = before.conditions.iter().filter(|known| known.type_ == condition.type_);
            if let Some(known) = same.find(|known| known.message == condition.message) {
                condition.last_transition_time.clone_from(&known.last_transition_time);
            }
        }
        let (Some(operation), Some(before)) = (&mut self.operation, &before.operation) else { return };
        if operation.phase != "Running" || !operation.is_retried || before.phase != "Running" {
            return;
        }
        // If it runs a hook that the previous attempt did not report as failed, it has passed the cause of that failure.
        let is_past = |cause: &str| operation.hook.as_ref().is_some_and(|hook| !cause.contains(&**hook));
        if operation.cause.is_none()
            && let Some(cause) = before.cause.as_ref().filter(|cause| !is_past(cause))
        {
            operation.cause = Some(cause.clone());
            operation.hook = None;
        }
        if operation.source.is_null() {
            operation.source.clone_from(&before.source);
        }
        if let (Some(state), Some(cause)) = (&mut self.operation_state, &operation.cause) {
            state["message"] = cause.as_str().into();
        }
    }
}

#[cfg(test)]
mod tests;
