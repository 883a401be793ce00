//! Every change of an object that an answer or an event contains, in the order of the versions.

use std::collections::BTreeMap;

use super::history::{Answer, Call, History, Request, Stored, WatchEvent};
use super::violation::{Check, Violation};

/// The changes by version.
pub(super) struct Changes<'h>(BTreeMap<u64, Change<'h>>);

/// A change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change<'h> {
    pub(super) name: &'h str,
    /// The state after it, or the last one if it is a deletion.
    pub(super) stored: &'h Stored,
    pub(super) is_deletion: bool,
}

impl<'h> Changes<'h> {
    /// Collects the changes of answers, and those of events that an unanswered write or a deletion explains.
    pub(super) fn collect(history: &'h History) -> (Self, Vec<Violation>) {
        let (mut changes, mut violations) = (Self(BTreeMap::new()), Vec::new());
        for (name, stored) in history.calls.iter().flat_map(observed) {
            let change = Change { name, stored, is_deletion: false };
            let known = *changes.0.entry(stored.version).or_insert(change);
            if known != change {
                let what = format!("version {} is both {known:?} and {change:?}", stored.version);
                violations.push(Violation::new(Check::Versions, what));
            }
        }
        for watch in &history.watches {
            for event in &watch.events {
                if let Err(why) = changes.include(history, event) {
                    let what = format!("watch {}: {event:?}: {why}", watch.label);
                    violations.push(Violation::new(Check::WatchContent, what));
                }
            }
        }
        (changes, violations)
    }

    /// Adds the change of an event, unless it contradicts the known ones or has no explanation.
    fn include(&mut self, history: &'h History, event: &'h WatchEvent) -> Result<(), String> {
        let Some((name, stored)) = event.object() else { return Ok(()) };
        let change = Change { name, stored, is_deletion: matches!(event, WatchEvent::Deleted(..)) };
        if let Some(known) = self.0.get(&stored.version) {
            return if *known == change {
                Ok(())
            } else {
                Err(format!("another event or answer has {known:?}"))
            };
        }
        if !history.calls.iter().any(|call| explains(call, &change)) {
            return Err("no write explains it".to_owned());
        }
        if change.is_deletion && self.deletion_of(&stored.uid).is_some() {
            return Err("the object was deleted at another version".to_owned());
        }
        self.0.insert(stored.version, change);
        Ok(())
    }

    /// Returns the changes after a version, up to and including another one.
    pub(super) fn between(&self, after: u64, last: u64) -> impl Iterator<Item = (u64, &Change<'h>)> {
        self.all().filter(move |(version, _)| (after + 1..=last).contains(version))
    }

    /// Returns all changes.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, &Change<'h>)> {
        self.0.iter().map(|(version, change)| (*version, change))
    }

    /// Returns the objects at a revision.
    pub(super) fn state_at(&self, revision: u64) -> BTreeMap<&'h str, &'h Stored> {
        let mut objects = BTreeMap::new();
        for change in self.0.range(..=revision).map(|(_, change)| change) {
            if change.is_deletion {
                objects.remove(change.name);
            } else {
                objects.insert(change.name, change.stored);
            }
        }
        objects
    }

    /// Returns the state of an object before a version; `None` if it did not exist.
    pub(super) fn before(&self, name: &str, version: u64) -> Option<&'h Stored> {
        let mut earlier = self.0.range(..version).rev().map(|(_, change)| change);
        let last = earlier.find(|change| change.name == name)?;
        (!last.is_deletion).then_some(last.stored)
    }

    /// Returns the revision at which the object with this uid was deleted.
    pub(super) fn deletion_of(&self, uid: &str) -> Option<u64> {
        let mut deletions =
            self.0.iter().filter(|(_, change)| change.is_deletion && change.stored.uid == uid);
        deletions.next().map(|(version, _)| *version)
    }
}

/// Returns the objects in an answer.
fn observed(call: &Call) -> Vec<(&str, &Stored)> {
    match (call.request.name(), call.answer()) {
        (Some(name), Some(Answer::Object(stored))) => vec![(name, stored)],
        (_, Some(Answer::List { items, .. })) => {
            items.iter().map(|(name, stored)| (name.as_str(), stored)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether a change that is in no answer may be the effect of a call. Each write has its own value.
fn explains(call: &Call, change: &Change<'_>) -> bool {
    let is_lost = call.completed.is_none();
    if call.request.name() != Some(change.name) || change.is_deletion != is_deletion(&call.request) {
        return false;
    }
    match (&call.request, call.answer()) {
        (Request::Delete { .. }, Some(Answer::Deleted { uid })) => *uid == change.stored.uid,
        (Request::Delete { .. }, _) => is_lost,
        (Request::Create { data, .. } | Request::Update { data, .. }, _) => {
            is_lost && *data == change.stored.data
        }
        (Request::Patch { key, value, .. }, _) => is_lost && change.stored.data.get(key) == Some(value),
        (Request::Get { .. } | Request::List, _) => false,
    }
}

fn is_deletion(request: &Request) -> bool {
    matches!(request, Request::Delete { .. })
}
