//! The decisions on the conditions of an object.

use std::collections::BTreeMap;

use lockstep_engine::machine::Note;
use lockstep_engine::object::ObjectRef;
use serde_json::Value;

use super::history::History;

/// The state of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    /// The step in which the controller reported it; `None` if that was before the recording.
    pub(super) step: Option<usize>,
    /// The time in the status, for a decision before the recording.
    pub(super) since: String,
}

/// Returns the last decision on each condition of an object.
pub(super) fn decisions(history: &History, wanted: &ObjectRef) -> BTreeMap<String, Decision> {
    let mut decisions = BTreeMap::new();
    let status = history.last_state(wanted).and_then(|state| state.pointer("/status/conditions"));
    for condition in status.and_then(Value::as_array).into_iter().flatten() {
        let field = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let decision = Decision {
            status: field("status"),
            reason: field("reason"),
            message: field("message"),
            step: None,
            since: field("lastTransitionTime"),
        };
        decisions.insert(field("type"), decision);
    }
    for (index, step) in history.steps.iter().enumerate() {
        for note in &step.gave.notes {
            if let Note::ConditionChanged { object, condition, status, reason, message, .. } = note
                && object == wanted
            {
                let decision = Decision {
                    status: status.clone(),
                    reason: reason.clone(),
                    message: message.clone(),
                    step: Some(index),
                    since: String::new(),
                };
                decisions.insert(condition.clone(), decision);
            }
        }
    }
    decisions
}
