//! Consistent lists.

use std::collections::BTreeMap;

use super::changes::Changes;
use super::floors::Floors;
use super::history::{Answer, Call, History, Stored};
use super::violation::{Check, Violation};

/// Checks that each list is the state at its revision, and that the revision is not older than what was answered before.
pub(super) fn check(history: &History, changes: &Changes<'_>, floors: &Floors) -> Vec<Violation> {
    history.calls.iter().filter_map(|call| check_list(call, changes, floors)).collect()
}

fn check_list(call: &Call, changes: &Changes<'_>, floors: &Floors) -> Option<Violation> {
    let Some(Answer::List { revision, items }) = call.answer() else { return None };
    let floor = floors.before(call.invoked);
    if *revision < floor {
        let what =
            format!("a list has the revision {revision}, but {floor} was answered before it: {call:?}");
        return Some(Violation::new(Check::Lists, what));
    }
    let items: BTreeMap<&str, &Stored> = items.iter().map(|(name, stored)| (name.as_str(), stored)).collect();
    let state = changes.state_at(*revision);
    (items != state).then(|| {
        Violation::new(
            Check::Lists,
            format!("the state at {revision} is {state:?}, but a list has {items:?}"),
        )
    })
}
