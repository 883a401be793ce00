//! Conditions: the state of an object as its controller sees it, in the standard form of Kubernetes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use serde_json::{Value, json};

use super::object::{generation, precondition};
use super::time::Now;

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is unknown whether it holds.
    Unknown,
}

impl Status {
    /// Returns the value that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The new state of one condition, before it is compared with the previous state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The condition's type, such as `Ready`.
    pub condition: &'static str,
    /// Its status.
    pub status: Status,
    /// The reason, for machines: `CamelCase`.
    pub reason: &'static str,
    /// The message, for people.
    pub message: String,
}

impl Finding {
    /// Returns a condition that holds.
    pub fn valid(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, status: Status::True, reason, message: message.into() }
    }

    /// Returns a condition that does not hold.
    pub fn broken(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, status: Status::False, reason, message: message.into() }
    }
}

/// The longest message that `metav1.Condition` permits, in bytes.
pub const MESSAGE_MAX_BYTES: usize = 32_768;

/// Sets a condition from a finding. `lastTransitionTime` changes only with the status. Returns the condition if its status or
/// reason changed.
pub fn set(
    conditions: &mut Vec<Condition>,
    finding: Finding,
    generation: i64,
    now: Now,
) -> Option<Condition> {
    let Finding { condition, status, reason, message } = finding;
    let entry = Condition {
        type_: condition.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: Some(generation),
        last_transition_time: Time(now.wall.timestamp_seconds()),
    };
    enter(conditions, entry)
}

/// Sets a condition as [`set`] does; its `lastTransitionTime` is that of the given condition.
pub fn enter(conditions: &mut Vec<Condition>, mut entry: Condition) -> Option<Condition> {
    entry.message = cut(entry.message, MESSAGE_MAX_BYTES);
    let Some(before) = conditions.iter_mut().find(|condition| condition.type_ == entry.type_) else {
        conditions.push(entry.clone());
        return Some(entry);
    };
    if before.status == entry.status {
        entry.last_transition_time = before.last_transition_time.clone();
    }
    let changed = before.status != entry.status || before.reason != entry.reason;
    *before = entry.clone();
    changed.then_some(entry)
}

/// Returns the merge patch of the status that sets a condition of an object from a finding; `None` if nothing changes. The patch
/// applies only to this version of the object.
pub fn patch(object: &Value, finding: Finding, now: Now) -> Option<Value> {
    let before = object["status"]["conditions"].clone();
    let before: Vec<Condition> = serde_json::from_value(before).unwrap_or_default();
    let mut conditions = before.clone();
    set(&mut conditions, finding, generation(object), now);
    (conditions != before)
        .then(|| json!({ "metadata": precondition(object), "status": { "conditions": conditions } }))
}

/// Cuts a text to a number of bytes, at a character boundary, and marks it as cut.
pub fn cut(mut text: String, max_bytes: usize) -> String {
    const MARK: &str = " ...";
    if text.len() <= max_bytes {
        return text;
    }
    text.truncate(text.floor_char_boundary(max_bytes.saturating_sub(MARK.len())));
    text.push_str(MARK);
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::time::{Monotonic, Wall};

    fn now(second: i64) -> Now {
        let wall = Wall::from_timestamp(jiff::Timestamp::from_second(second).expect("in range"));
        Now { wall, monotonic: Monotonic::START + Duration::from_secs(1) }
    }

    fn finding(status: Status, reason: &'static str) -> Finding {
        Finding { condition: "Ready", status, reason, message: reason.to_owned() }
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        assert!(set(&mut conditions, finding(Status::False, "Waiting"), 1, now(10)).is_some());
        assert!(set(&mut conditions, finding(Status::False, "Failing"), 1, now(20)).is_some());
        assert_eq!(conditions[0].last_transition_time.0.as_second(), 10);
        assert!(set(&mut conditions, finding(Status::False, "Failing"), 2, now(30)).is_none());
        assert!(set(&mut conditions, finding(Status::True, "Done"), 2, now(40)).is_some());
        assert_eq!(conditions[0].last_transition_time.0.as_second(), 40);
        assert_eq!((conditions.len(), conditions[0].observed_generation), (1, Some(2)));
    }

    proptest! {
        #[test]
        fn the_transition_time_is_that_of_the_last_change_of_status(
            findings in proptest::collection::vec((0usize..3, 0usize..3, 0i64..100), 1..40)
        ) {
            const STATUSES: [Status; 3] = [Status::True, Status::False, Status::Unknown];
            const REASONS: [&str; 3] = ["Waiting", "Failing", "Done"];
            let (mut conditions, mut second) = (Vec::new(), 0);
            let (mut before, mut moved) = (None, 0);
            for (generation, (status, reason, pause)) in (1..).zip(findings) {
                second += pause;
                let reported = (STATUSES[status], REASONS[reason]);
                if before.is_none_or(|(status, _)| status != reported.0) {
                    moved = second;
                }
                let changed = set(&mut conditions, finding(reported.0, reported.1), generation, now(second));
                prop_assert_eq!(changed.is_some(), before != Some(reported));
                prop_assert_eq!(conditions.len(), 1);
                let entry = &conditions[0];
                prop_assert!(changed.is_none_or(|changed| changed == *entry));
                prop_assert_eq!(entry.last_transition_time.0.as_second(), moved);
                prop_assert_eq!(
                    (entry.status.as_str(), entry.reason.as_str()),
                    (reported.0.as_str(), reported.1)
                );
                prop_assert_eq!(entry.observed_generation, Some(generation));
                before = Some(reported);
            }
        }

        #[test]
        fn a_cut_text_fits_and_stays_text(text in ".{0,40}", max in 4usize..40) {
            prop_assert!(cut(text, max).len() <= max);
        }
    }

    #[test]
    fn a_patch_sets_one_condition_of_one_version_and_only_if_it_changes() {
        let now =
            Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic: Monotonic::START };
        let finding = || Finding::valid("Ready", "Written", "it is there");
        let mut object = json!({ "metadata": { "uid": "u", "resourceVersion": "7", "generation": 3 } });
        let wanted = patch(&object, finding(), now).expect("the condition is new");
        assert_eq!(wanted["metadata"], json!({ "uid": "u", "resourceVersion": "7" }));
        assert_eq!(wanted["status"]["conditions"][0]["observedGeneration"], 3);
        object["status"] = wanted["status"].clone();
        assert_eq!(patch(&object, finding(), now), None);
        assert!(patch(&object, Finding::broken("Ready", "Gone", "it is not there"), now).is_some());
    }
}
