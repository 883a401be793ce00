//! Edits of a recorded event.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::action::{ErrorKind, Failure, Outcome, Success};
use crate::machine::Event;
use crate::write::merged;

/// The change of one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// The event does not happen. If it is an answer, the answer never arrives.
    Drop,
    /// The answer is a failure of this class.
    Fail(ErrorKind),
    /// A merge patch (RFC 7386) of the object of a watch event or of an answer. An answer without an object is patched in its
    /// recorded form, such as `{"Ok": {"Objects": []}}`.
    Patch(Map<String, Value>),
}

/// Why an edit does not fit an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A failure of an event that is no answer.
    #[error("only an answer can fail")]
    NoAnswer,
    /// A patch of an event that has nothing to patch.
    #[error("only an answer, or an event about an object, can be patched")]
    NoContent,
    /// The patched form is not an answer.
    #[error("the patched answer cannot be read ({0})")]
    NoOutcome(String),
}

impl Edit {
    /// Returns the edited event; `None` if it does not happen.
    pub fn apply(&self, event: &Event) -> Result<Option<Event>, Unfit> {
        match (self, event) {
            (Self::Drop, _) => Ok(None),
            (Self::Fail(class), Event::Finished { id, .. }) => {
                let outcome = Err(Failure::new(*class, "counterfactual failure"));
                Ok(Some(Event::Finished { id: *id, outcome }))
            }
            (Self::Fail(_), _) => Err(Unfit::NoAnswer),
            (Self::Patch(patch), event) => patched(event, &patch.clone().into()).map(Some),
        }
    }
}

fn patched(event: &Event, patch: &Value) -> Result<Event, Unfit> {
    let changed = |object: &Value| Arc::new(merged(object, patch));
    match event {
        Event::Applied { kind, object } => {
            Ok(Event::Applied { kind: Arc::clone(kind), object: changed(object) })
        }
        Event::Deleted { kind, object } => {
            Ok(Event::Deleted { kind: Arc::clone(kind), object: changed(object) })
        }
        Event::Finished { id, outcome: Ok(Success::Object(object)) } => {
            Ok(Event::Finished { id: *id, outcome: Ok(Success::Object(changed(object))) })
        }
        Event::Finished { id, outcome } => {
            let unreadable = |error: serde_json::Error| Unfit::NoOutcome(error.to_string());
            let written = serde_json::to_value(outcome).map_err(unreadable)?;
            let outcome: Outcome = serde_json::from_value(merged(&written, patch)).map_err(unreadable)?;
            Ok(Event::Finished { id: *id, outcome })
        }
        Event::Started
        | Event::LeadershipChanged { .. }
        | Event::ListStarted { .. }
        | Event::ListCompleted { .. }
        | Event::WatchFailed { .. }
        | Event::TimerFired => Err(Unfit::NoContent),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::action::ActionId;
    use crate::object::Kind;

    fn patch(value: &Value) -> Edit {
        Edit::Patch(value.as_object().cloned().expect("an object"))
    }

    fn answer(outcome: Outcome) -> Event {
        Event::Finished { id: ActionId(7), outcome }
    }

    fn events() -> [Event; 6] {
        let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
        let object = Arc::new(json!({ "metadata": { "name": "a" }, "list": [1] }));
        [
            Event::Applied { kind: Arc::clone(&kind), object: Arc::clone(&object) },
            Event::Deleted { kind, object: Arc::clone(&object) },
            answer(Ok(Success::Object(Arc::clone(&object)))),
            answer(Ok(Success::Objects(vec![object]))),
            answer(Ok(Success::Done)),
            answer(Err(Failure::new(ErrorKind::Conflict, "no"))),
        ]
    }

    #[test]
    fn an_empty_patch_changes_nothing() {
        for event in events() {
            assert_eq!(patch(&json!({})).apply(&event), Ok(Some(event)));
        }
    }

    #[test]
    fn a_patch_changes_an_object_or_the_recorded_form_of_an_answer() {
        let [applied, _, read, listed, _, failed] = events();
        for event in [applied, read] {
            let edited = patch(&json!({ "list": null, "metadata": { "name": "b" } })).apply(&event);
            let Ok(Some(
                Event::Applied { object, .. } | Event::Finished { outcome: Ok(Success::Object(object)), .. },
            )) = edited
            else {
                panic!("{edited:?}");
            };
            assert_eq!(*object, json!({ "metadata": { "name": "b" } }));
        }
        let none = answer(Ok(Success::Objects(Vec::new())));
        assert_eq!(patch(&json!({ "Ok": { "Objects": [] } })).apply(&listed), Ok(Some(none)));
        let done = answer(Ok(Success::Done));
        assert_eq!(patch(&json!({ "Err": null, "Ok": "Done" })).apply(&failed), Ok(Some(done)));
    }

    #[test]
    fn an_edit_must_fit_its_event() {
        let [applied, _, _, listed, ..] = events();
        assert_eq!(Edit::Fail(ErrorKind::Gone).apply(&applied), Err(Unfit::NoAnswer));
        assert_eq!(patch(&json!({})).apply(&Event::TimerFired), Err(Unfit::NoContent));
        let broken = patch(&json!({ "Ok": { "Objects": 7 } })).apply(&listed);
        assert!(matches!(broken, Err(Unfit::NoOutcome(_))), "{broken:?}");
        assert_eq!(Edit::Drop.apply(&Event::TimerFired), Ok(None));
    }

    #[test]
    fn a_failure_keeps_the_request() {
        for event in &events()[2..] {
            let edited = Edit::Fail(ErrorKind::Forbidden).apply(event);
            let Ok(Some(Event::Finished { id: ActionId(7), outcome: Err(failure) })) = edited else {
                panic!("{edited:?}");
            };
            assert_eq!(failure.class, ErrorKind::Forbidden);
        }
    }
}
