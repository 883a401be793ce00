//! Reports changed conditions in the log and as Events, once the status that contains them is written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_engine::action::Failure;
use lockstep_engine::conditions::Status;
use lockstep_engine::machine::Note;
use lockstep_engine::object::{ObjectRef, Uid};
use lockstep_engine::recorder::{Occurrence, Severity};
use lockstep_engine::time::Now;

use super::controller::Controller;
use super::names::{self, OBJECTS_ADOPTED, reason};

impl Controller {
    /// Records that a status write failed. If it may have taken effect, its conditions are announced once they are seen.
    pub(super) fn not_written(&mut self, object: ObjectRef, changed: &[Condition], failure: &Failure) {
        if object.kind == names::class() {
            self.store.classes.write_failed(object.name.clone(), failure);
        } else {
            self.store.bindings.write_failed(object.name.clone(), failure);
        }
        self.store.unconfirmed.write_failed(object, changed, failure);
    }

    /// Announces the conditions of a write without an answer that turns out to have taken effect.
    pub(super) fn announce_unconfirmed(
        &mut self,
        object: &ObjectRef,
        uid: &Uid,
        shown: &[Condition],
        now: Now,
    ) {
        for condition in self.store.unconfirmed.take_shown(object, shown) {
            self.announce(object, uid, &condition, now);
        }
    }

    /// Reports a changed condition in the log and as an Event.
    pub(super) fn announce(&mut self, object: &ObjectRef, uid: &Uid, condition: &Condition, now: Now) {
        // The adoption of another client's object needs attention, although the condition is true.
        let holds = condition.status == Status::True.as_str() && condition.type_ != OBJECTS_ADOPTED
            || condition.reason == reason::PAUSED;
        let is_progress = [reason::APPLYING, reason::ROLLING_OUT].contains(&condition.reason.as_str());
        self.outbox.notes.push(Note::ConditionChanged {
            object: object.clone(),
            condition: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            warning: !holds && !is_progress,
        });
        // No change has ended yet.
        if is_progress {
            return;
        }
        let occurrence = Occurrence {
            regarding: object.clone(),
            uid: uid.to_owned(),
            severity: if holds { Severity::Normal } else { Severity::Warning },
            reason: condition.reason.clone(),
            action: "Reconcile",
            note: condition.message.clone(),
        };
        self.outbox.record(occurrence, now);
    }
}
