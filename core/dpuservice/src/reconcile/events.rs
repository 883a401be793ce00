//! The Kubernetes Events of a service, and the log of its conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::conditions::Status;
use lockstep_engine::machine::Note;
use lockstep_engine::object::Name;
use lockstep_engine::recorder::{Occurrence, Severity};
use lockstep_engine::time::Now;

use crate::model::application::App;
use crate::model::service::service_ref;
use crate::names::{condition, reason};
use crate::state::Controller;

impl Controller {
    /// Reports a written status in the log and as Events.
    pub(super) fn announce(&mut self, key: &Name, changed: &[Condition], now: Now) {
        for condition in changed {
            self.outbox.notes.push(Note::ConditionChanged {
                object: service_ref(key),
                condition: condition.type_.clone(),
                status: condition.status.clone(),
                reason: condition.reason.clone(),
                message: condition.message.clone(),
                warning: is_warning(condition),
            });
            // Ready repeats the other conditions, except if nothing can be decided: that has one cause for all of them. Work
            // in progress is not reported.
            let is_summary = condition.type_ == condition::READY;
            let is_unknown = condition.status == Status::Unknown.as_str();
            let is_progress = [reason::PENDING, reason::ROLLING_OUT].contains(&condition.reason.as_str());
            // The condition Paused reports it.
            let is_paused = condition.reason == reason::PAUSED && condition.type_ != condition::PAUSED;
            let is_reported = is_summary == is_unknown && !is_progress && !is_paused;
            if is_reported {
                self.record_event(key, condition, now);
            }
        }
    }

    fn record_event(&mut self, key: &Name, changed: &Condition, now: Now) {
        let Some(service) = self.store.services.get(key) else { return };
        let is_good = is_good(changed);
        let occurrence = Occurrence {
            regarding: service_ref(key),
            uid: service.uid.clone(),
            severity: if is_warning(changed) { Severity::Warning } else { Severity::Normal },
            reason: if is_good {
                changed.type_.clone()
            } else {
                format!("{}{}", changed.type_, changed.reason)
            },
            action: "Reconcile",
            note: changed.message.clone(),
        };
        self.outbox.record(occurrence, now);
    }

    /// Reports that a sync was ended: its hook stops at its current point. The Application is the one in the server's answer:
    /// the watch may have shown more by then. For a terminating Application no Event is written.
    pub(super) fn report_ended(&mut self, service: &Name, application: &Name, app: &App, now: Now) {
        let store = &self.store;
        let operation = app.report.operation.as_ref().filter(|_| !app.deleting);
        let Some((of, operation)) = store.services.get(service).zip(operation) else { return };
        let cluster = store.title(&app.cluster);
        let note =
            format!("terminated a sync on {cluster} (Application {application}): {}", operation.holds_up());
        let occurrence = Occurrence {
            regarding: service_ref(service),
            uid: of.uid.clone(),
            severity: Severity::Warning,
            reason: "SyncTerminated".to_owned(),
            action: "Reconcile",
            note,
        };
        self.outbox.record(occurrence, now);
    }
}

/// Returns whether a condition has its normal status.
fn is_good(condition: &Condition) -> bool {
    condition.status == Status::True.as_str() && condition.reason != reason::VALUES_ROUNDED
}

/// Returns whether people should investigate.
fn is_warning(condition: &Condition) -> bool {
    !is_good(condition) && !UNDER_WAY.contains(&condition.reason.as_str())
}

/// Reasons for work in progress.
const UNDER_WAY: [&str; 4] = [reason::PENDING, reason::DELETION_PENDING, reason::PAUSED, reason::ROLLING_OUT];
