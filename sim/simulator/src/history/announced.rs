//! The changes of conditions that a process has written, and those that it has logged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lockstep_engine::machine::Note;
use lockstep_engine::object::{ObjectRef, metadata};
use serde_json::Value;

use crate::cluster::Change;

/// A condition of an object: the uid of the object, and the type.
type Subject = (ObjectRef, String, String);

/// A changed condition.
#[derive(Debug, Clone)]
struct Changed {
    /// Such as `False, Pending`.
    state: String,
    /// Whether another client has changed the condition before it was logged, or the object is gone: then the process may never
    /// see its own change.
    is_replaced: bool,
}

/// The changes of conditions that a process has written since it became the leader, and that it has not logged yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Announcements {
    written: BTreeMap<Subject, VecDeque<Changed>>,
    /// The changes that it may log as well: those of others, because another leader's write looks like its own that got no answer;
    /// its own changes of a message; and what it wrote again without an answer, after a stale watch had hidden it.
    optional: BTreeSet<(Subject, String)>,
    /// The conditions that it has logged without having written them.
    unfounded: Vec<String>,
}

/// Returns the conditions of an object, by type.
fn conditions(object: Option<&Value>) -> BTreeMap<&str, &Value> {
    let entries = object.and_then(|object| object["status"]["conditions"].as_array());
    entries.into_iter().flatten().map(|entry| (entry["type"].as_str().unwrap_or_default(), entry)).collect()
}

/// Returns what a controller logs when it changes: the status and the reason.
fn state(status: &str, reason: &str) -> String {
    format!("{status}, {reason}")
}

fn state_of(condition: &Value) -> String {
    state(condition["status"].as_str().unwrap_or_default(), condition["reason"].as_str().unwrap_or_default())
}

/// Returns whether a change concerns conditions.
pub(super) fn changes_conditions(change: &Change) -> bool {
    conditions(change.old.as_deref()) != conditions(change.new.as_deref())
}

/// Returns the conditions that a change has set to another value, with their status and reason.
fn changed(change: &Change, value: fn(&Value) -> String) -> Vec<(Subject, String)> {
    let Some(new) = change.new.as_deref() else { return Vec::new() };
    let before = conditions(change.old.as_deref());
    let is_changed = |name: &str, after: &Value| before.get(name).is_none_or(|it| value(it) != value(after));
    let changed = conditions(Some(new)).into_iter().filter(|(name, after)| is_changed(name, after));
    let subject = |name: &str| (change.object.clone(), metadata(new, "uid").to_owned(), name.to_owned());
    changed.map(|(name, after)| (subject(name), state_of(after))).collect()
}

fn message_of(condition: &Value) -> String {
    condition["message"].as_str().unwrap_or_default().to_owned()
}

impl Announcements {
    /// Records a change of conditions, by the process or by others.
    pub(super) fn absorb(&mut self, change: &Change, is_own: bool) {
        if is_own && change.new.is_some() {
            self.wrote(change);
        } else {
            self.replaced(change);
        }
    }

    fn wrote(&mut self, change: &Change) {
        let states = changed(change, state_of);
        let messages = changed(change, message_of).into_iter();
        self.optional.extend(messages.filter(|message| !states.contains(message)));
        for (subject, state) in states {
            self.written.entry(subject).or_default().push_back(Changed { state, is_replaced: false });
        }
    }

    /// Records a status write of the process without an answer. If the object is already as the write would make it, the process
    /// does not know which write did that.
    pub(super) fn unanswered(&mut self, object: &ObjectRef, shown: &Value, patch: &Value) {
        let before = conditions(Some(shown));
        for (name, wanted) in conditions(Some(patch)) {
            let state = state_of(wanted);
            if before.get(name).is_some_and(|before| state_of(before) == state) {
                let subject = (object.clone(), metadata(shown, "uid").to_owned(), name.to_owned());
                self.optional.insert((subject, state));
            }
        }
    }

    fn replaced(&mut self, change: &Change) {
        let (before, after) = (conditions(change.old.as_deref()), conditions(change.new.as_deref()));
        for ((object, _, name), changes) in &mut self.written {
            if *object == change.object && before.get(&**name) != after.get(&**name) {
                for changed in changes.iter_mut() {
                    changed.is_replaced = true;
                }
            }
        }
        self.optional.extend(changed(change, state_of));
    }

    /// Records a note of the process.
    pub(super) fn logged(&mut self, note: &Note) {
        let Note::ConditionChanged { object, condition, status, reason, .. } = note else { return };
        let logged = state(status, reason);
        // An object of the same name may have had the same condition, and the process may never log it.
        for is_replaced in [false, true] {
            for ((of, _, name), changes) in &mut self.written {
                let is_it = |changed: &Changed| changed.state == logged && changed.is_replaced == is_replaced;
                let position = changes.iter().position(is_it).filter(|_| of == object && name == condition);
                if position.is_some_and(|position| changes.remove(position).is_some()) {
                    return;
                }
            }
        }
        let is_it = |((of, _, name), state): &(Subject, String)| {
            of == object && name == condition && *state == logged
        };
        if !self.optional.iter().any(is_it) {
            self.unfounded.push(format!("{object}: {condition} {logged} was logged, and not written"));
        }
    }

    /// Returns the differences between the changes that the process has written and those that it has logged. `uid` returns the
    /// uid of an object that exists.
    pub(super) fn differences(&self, uid: impl Fn(&ObjectRef) -> Option<String>) -> Vec<String> {
        let mut differences = self.unfounded.clone();
        for ((object, of, name), changes) in &self.written {
            let required = changes.iter().filter(|changed| !changed.is_replaced);
            for changed in required.filter(|_| uid(object).as_deref() == Some(of)) {
                differences.push(format!("{object}: {name} {} was written, and not logged", changed.state));
            }
        }
        differences
    }
}
