//! The conditions of objects over time.

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::Condition;
use crate::cluster::Change;

/// Processes changes, in order.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    /// The current conditions, by object and type.
    current: BTreeMap<(String, String), Condition>,
    /// The past conditions.
    past: Vec<Condition>,
}

impl Conditions {
    pub(super) fn absorb(&mut self, at: u64, change: &Change) {
        let object = change.object.to_string();
        // A condition from before the run is current since the beginning of the run.
        if !self.current.keys().any(|(known, _)| *known == object) {
            self.set(0, &object, change.old.as_deref());
        }
        self.set(at, &object, change.new.as_deref());
    }

    fn set(&mut self, at: u64, object: &str, state: Option<&Value>) {
        let conditions: Vec<Condition> = state
            .and_then(|state| state["status"]["conditions"].as_array())
            .into_iter()
            .flatten()
            .map(|condition| read(at, object, condition))
            .collect();
        let gone = |(known, kind): &(String, String)| {
            known == object && conditions.iter().all(|condition| condition.kind != *kind)
        };
        let gone: Vec<_> = self.current.keys().filter(|key| gone(key)).cloned().collect();
        for key in gone {
            let last = self.current.remove(&key);
            self.end(at, last);
        }
        for condition in conditions {
            let key = (condition.object.clone(), condition.kind.clone());
            let same = |other: &Condition| {
                (&other.status, &other.reason, &other.message)
                    == (&condition.status, &condition.reason, &condition.message)
            };
            if !self.current.get(&key).is_some_and(same) {
                let last = self.current.insert(key, condition);
                self.end(at, last);
            }
        }
    }

    fn end(&mut self, at: u64, last: Option<Condition>) {
        self.past.extend(last.map(|last| Condition { to: at, ..last }).filter(|last| last.to > last.from));
    }

    /// Returns all conditions up to the end of the run.
    pub(super) fn finish(mut self, end: u64) -> Vec<Condition> {
        let current = std::mem::take(&mut self.current);
        let mut all = self.past;
        all.extend(
            current.into_values().map(|condition| Condition { to: end.max(condition.from), ..condition }),
        );
        all.sort_by(|a, b| (&a.object, &a.kind, a.from).cmp(&(&b.object, &b.kind, b.from)));
        all
    }
}

fn read(at: u64, object: &str, condition: &Value) -> Condition {
    let field = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    Condition {
        object: object.to_owned(),
        kind: field("type"),
        status: field("status"),
        reason: field("reason"),
        message: field("message"),
        from: at,
        to: at,
    }
}
