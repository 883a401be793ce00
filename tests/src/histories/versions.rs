//! Resource versions and uids.

use std::collections::BTreeSet;

use super::changes::Changes;
use super::floors::{Floors, made};
use super::history::History;
use super::violation::{Check, Violation};

/// Checks that each write has a higher version than everything that was answered before it was sent, whichever object that was
/// about, and that no uid occurs after its deletion.
pub(super) fn check(history: &History, changes: &Changes<'_>, floors: &Floors) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut add = |what| violations.push(Violation::new(Check::Versions, what));
    for call in &history.calls {
        let floor = floors.before(call.invoked);
        if let Some(version) = made(call, changes).filter(|version| *version <= floor) {
            add(format!("version {version} is not above {floor}, which was answered before {call:?}"));
        }
    }
    let mut deleted = BTreeSet::new();
    for (version, change) in changes.all() {
        let uid = &change.stored.uid;
        if deleted.contains(uid) {
            add(format!("version {version} of {:?} has the uid {uid} of a deleted object", change.name));
        }
        if change.is_deletion {
            deleted.insert(uid);
        }
    }
    violations
}
