//! The changed conditions of status writes that ended without an answer. Such a write may have taken effect. Then the status that
//! the watch shows later looks as if it had been announced.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use super::action::{ErrorKind, Failure};
use super::pairs;

/// The number of objects of which conditions are remembered. Objects that are deleted after such a write stay among them.
const OBJECTS_MAX: usize = 4096;

/// The conditions of writes without an answer, by the key of their object. They are remembered although the object is gone: a list
/// of an old state may lack an object that exists.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent, bound(serialize = "K: Serialize", deserialize = "K: Deserialize<'de> + Ord"))]
pub struct Unconfirmed<K> {
    #[serde(with = "pairs")]
    conditions: BTreeMap<K, Vec<Condition>>,
}

impl<K> Default for Unconfirmed<K> {
    fn default() -> Self {
        Self { conditions: BTreeMap::new() }
    }
}

impl<K: Ord> Unconfirmed<K> {
    /// Records that a write failed that changes these conditions. It matters only if the write may have taken effect.
    pub fn write_failed(&mut self, key: K, changed: &[Condition], failure: &Failure) {
        if failure.class == ErrorKind::Unknown {
            self.remember(key, changed);
        }
    }

    /// Records the conditions of a write, of which the answer is not read.
    pub fn remember(&mut self, key: K, changed: &[Condition]) {
        if changed.is_empty() {
            return;
        }
        if self.conditions.len() >= OBJECTS_MAX && !self.conditions.contains_key(&key) {
            self.conditions.pop_first();
        }
        let conditions = self.conditions.entry(key).or_default();
        // Whichever of several writes took effect: they may differ in the message alone.
        conditions.retain(|condition| !changed.contains(condition));
        conditions.extend_from_slice(changed);
    }

    /// Removes and returns the conditions that a status contains: their write took effect.
    pub fn take_shown(&mut self, key: &K, status: &[Condition]) -> Vec<Condition> {
        let Some(conditions) = self.conditions.get_mut(key) else { return Vec::new() };
        let is_shown = |condition: &Condition| {
            // A changed condition may name only what is new.
            let mut parts = condition.message.split("; ");
            status.iter().any(|shown| {
                identity(shown) == identity(condition) && parts.all(|part| shown.message.contains(part))
            })
        };
        let mut shown: Vec<Condition> = Vec::new();
        for condition in conditions.extract_if(.., |condition| is_shown(condition)) {
            // Of several writes of one change, the last one has the most complete message.
            shown.retain(|earlier| identity(earlier) != identity(&condition));
            shown.push(condition);
        }
        if conditions.is_empty() {
            self.conditions.remove(key);
        }
        shown
    }

    /// Forgets the earlier writes of an object, because a later write was successful. Each write names the version that it changes,
    /// so what earlier writes did was seen before it.
    pub fn forget(&mut self, key: &K) {
        self.conditions.remove(key);
    }
}

/// Returns what identifies the change of a condition.
fn identity(condition: &Condition) -> (&str, &str, &str, &Time) {
    (&condition.type_, &condition.status, &condition.reason, &condition.last_transition_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(reason: &str, message: &str, second: i64) -> Condition {
        Condition {
            type_: "Ready".to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            observed_generation: Some(1),
            last_transition_time: Time(jiff::Timestamp::from_second(second).expect("in range")),
        }
    }

    fn failure(class: ErrorKind) -> Failure {
        Failure::new(class, "no answer")
    }

    #[test]
    fn a_change_is_returned_once_when_it_is_shown() {
        let mut unconfirmed = Unconfirmed::default();
        let (first, second) = (condition("Waiting", "a", 1), condition("Failing", "b", 1));
        unconfirmed.write_failed("key", std::slice::from_ref(&first), &failure(ErrorKind::Unknown));
        unconfirmed.write_failed("key", std::slice::from_ref(&second), &failure(ErrorKind::Unknown));
        unconfirmed.write_failed("key", std::slice::from_ref(&second), &failure(ErrorKind::Unknown));
        assert_eq!(unconfirmed.take_shown(&"key", &[condition("Waiting", "a", 2)]), []);
        assert_eq!(unconfirmed.take_shown(&"key", &[condition("Failing", "a; b", 1)]), [second]);
        assert_eq!(
            unconfirmed.take_shown(&"key", std::slice::from_ref(&first)),
            std::slice::from_ref(&first)
        );
        assert_eq!(unconfirmed.take_shown(&"key", &[first]), []);
    }

    /// Two writes of one change get no answer, and the server refuses the second one.
    #[test]
    fn a_change_is_returned_with_the_message_that_is_shown() {
        let mut unconfirmed = Unconfirmed::default();
        for message in ["a", "a; b", "c"] {
            unconfirmed.write_failed(
                "key",
                &[condition("Waiting", message, 1)],
                &failure(ErrorKind::Unknown),
            );
        }
        let written = condition("Waiting", "a; b", 1);
        let shown = unconfirmed.take_shown(&"key", std::slice::from_ref(&written));
        assert_eq!(shown, [written]);
    }

    #[test]
    fn a_limited_number_of_objects_is_remembered() {
        let mut unconfirmed = Unconfirmed::default();
        let change = condition("Waiting", "a", 1);
        for object in 0..=OBJECTS_MAX {
            unconfirmed.remember(object, std::slice::from_ref(&change));
            unconfirmed.remember(object, std::slice::from_ref(&change));
        }
        let mut shown = |object| unconfirmed.take_shown(&object, std::slice::from_ref(&change)).len();
        assert_eq!([shown(0), shown(1), shown(OBJECTS_MAX)], [0, 1, 1]);
    }

    #[test]
    fn a_refused_or_overwritten_change_is_not_returned() {
        let mut unconfirmed = Unconfirmed::default();
        let change = condition("Waiting", "a", 1);
        unconfirmed.write_failed("key", std::slice::from_ref(&change), &failure(ErrorKind::Conflict));
        assert_eq!(unconfirmed.take_shown(&"key", std::slice::from_ref(&change)), []);
        unconfirmed.write_failed("key", std::slice::from_ref(&change), &failure(ErrorKind::Unknown));
        unconfirmed.forget(&"key");
        assert_eq!(unconfirmed.take_shown(&"key", &[change]), []);
    }
}
