//! Reports findings in the log, and in the status of the `SentinelConfig`.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::sentinel::SentinelConfigStatus;
use lockstep_engine::action::{Action, KubeRequest, Outcome, Subresource};
use lockstep_engine::conditions::Status;
use lockstep_engine::machine::{Note, Step};
use lockstep_engine::time::Now;
use serde_json::json;

use super::state::{Asked, Sentinel};
use super::status::{FLEET_REACHABLE, Finding, NOTHING_SELECTED};

impl Sentinel {
    /// Records a finding.
    pub(super) fn find(&mut self, finding: Finding, now: Now, step: &mut Step) {
        let cause = finding.message.clone();
        let changed = self.conditions.find(finding, self.loader.generation(), now);
        self.report(changed, &cause, step);
    }

    /// Continues with the status that another process has left.
    pub(super) fn take_over(&mut self, now: Now, step: &mut Step) {
        if let Some(observed) = &self.loader.observed {
            self.conditions.take_over(&observed.status);
            self.summarise(now, step);
        }
    }

    /// Copies what this process has not found itself from the status, which has changed. A standby does so when it takes over.
    pub(super) fn follow(&mut self, now: Now, step: &mut Step) {
        if let Some(observed) = self.loader.observed.as_ref().filter(|_| self.is_acting) {
            self.conditions.follow(&observed.status);
            self.summarise(now, step);
        }
    }

    pub(super) fn summarise(&mut self, now: Now, step: &mut Step) {
        if let Some(ready) = self.conditions.summarise(self.loader.generation(), now) {
            let cause = ready.message.clone();
            self.report(vec![ready], &cause, step);
        }
    }

    /// Reports conditions that have changed because of this cause.
    fn report(&self, changed: Vec<Condition>, cause: &str, step: &mut Step) {
        for changed in changed {
            if changed.type_ == FLEET_REACHABLE && changed.reason == NOTHING_SELECTED {
                step.notes.push(Note::Warning { message: changed.message.clone() });
            }
            // A problem that this step has reported as a warning is not reported as one again. Ready repeats its message.
            let is_cause = |note: &Note| matches!(note, Note::Warning { message } if message.contains(cause));
            let is_reported = changed.message.ends_with(cause) && step.notes.iter().any(is_cause);
            step.notes.push(Note::ConditionChanged {
                object: self.object(),
                condition: changed.type_,
                warning: changed.status == Status::False.as_str() && !is_reported,
                status: changed.status,
                reason: changed.reason,
                message: changed.message,
            });
        }
    }

    /// Records a finding that something is wrong, and logs it each time.
    pub(super) fn report_problem(&mut self, finding: Finding, now: Now, step: &mut Step) {
        step.notes.push(Note::Warning { message: format!("{}: {}", finding.reason, finding.message) });
        self.find(finding, now, step);
    }

    /// Writes the status, if it is due.
    pub(super) fn write_status(&mut self, now: Now, step: &mut Step) {
        let observed = self.loader.observed.as_ref();
        let object = observed.map(|observed| (&observed.status, observed.generation));
        let wanted = self.conditions.begin_write(object, now.monotonic);
        let (Some(observed), Some(wanted)) = (observed, wanted) else { return };
        // The write is refused if the status has changed since the comparison, or the object is another one.
        let precondition = json!({ "uid": observed.uid, "resourceVersion": observed.version });
        let patch = Arc::new(json!({ "metadata": precondition, "status": wanted }));
        let target = self.object();
        let patch =
            Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), patch });
        self.ask(patch, Asked::Status(Box::new(wanted)), step);
    }

    pub(super) fn status_written(
        &mut self,
        written: SentinelConfigStatus,
        outcome: Outcome,
        now: Now,
        step: &mut Step,
    ) {
        match outcome {
            Ok(answer) => {
                self.conditions.written();
                if let Some(observed) = &mut self.loader.observed {
                    observed.written(written, &answer);
                }
                // A write that began before another process led may end after this one leads again.
                self.follow(now, step);
            }
            Err(failure) => {
                if self.conditions.write_failed(failure.class, now.monotonic) {
                    let message = format!("the status of {} could not be written: {failure}", self.object());
                    step.notes.push(Note::Warning { message });
                }
            }
        }
    }
}
