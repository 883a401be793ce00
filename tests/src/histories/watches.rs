//! Watches: complete, in order, each change once, and in agreement with the answers of writes.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::Changes;
use super::floors::Floors;
use super::history::{Answer, History, Start, Stored, Watch, WatchEvent};
use super::violation::{Check, Violation};

/// Checks the watches of a history.
pub(super) fn check(history: &History, changes: &Changes<'_>, floors: &Floors) -> Vec<Violation> {
    let mut violations = Vec::new();
    let end = history.end().unwrap_or(history.start);
    for watch in &history.watches {
        let mut found = Found { watch, violations: &mut violations };
        let (start, events) = match watch.start {
            Start::After(version) => (version, &watch.events[..]),
            Start::Initial => match check_initial(watch, changes, floors, &mut found) {
                Some(checked) => checked,
                None => continue,
            },
        };
        check_events(start, events, changes, &mut found);
        let seen: BTreeSet<u64> =
            events.iter().filter_map(WatchEvent::object).map(|(_, it)| it.version).collect();
        for (version, change) in changes.between(start, end) {
            if watch.selects(change.name) && !seen.contains(&version) {
                found.add(Check::WatchCompleteness, format!("no event for {change:?}"));
            }
        }
    }
    violations.extend(check_deletions(history, changes));
    violations
}

/// Collects the violations of a watch.
struct Found<'a> {
    watch: &'a Watch,
    violations: &'a mut Vec<Violation>,
}

impl Found<'_> {
    fn add(&mut self, check: Check, mut what: String) {
        what.insert_str(0, &format!("watch {}: ", self.watch.label));
        self.violations.push(Violation::new(check, what));
    }
}

/// Checks the initial state, up to the bookmark that ends it. Returns the version of the bookmark and the remaining events; `None`
/// without that bookmark.
fn check_initial<'h>(
    watch: &'h Watch,
    changes: &Changes<'_>,
    floors: &Floors,
    found: &mut Found<'_>,
) -> Option<(u64, &'h [WatchEvent])> {
    let mut state: BTreeMap<&str, &Stored> = BTreeMap::new();
    for (index, event) in watch.events.iter().enumerate() {
        match event {
            WatchEvent::Added(name, stored) | WatchEvent::Modified(name, stored) => {
                state.insert(name, stored);
            }
            WatchEvent::Deleted(name, _) => {
                state.remove(name.as_str());
            }
            WatchEvent::Bookmark { ends_initial: false, .. } => {}
            WatchEvent::Bookmark { version, ends_initial: true } => {
                let floor = floors.before(watch.invoked);
                if *version < floor {
                    let what =
                        format!("its initial state is that at {version}, but {floor} was answered before it");
                    found.add(Check::InitialState, what);
                }
                let mut expected = changes.state_at(*version);
                expected.retain(|name, _| watch.selects(name));
                if state != expected {
                    let what =
                        format!("the state at {version} is {expected:?}, but the initial state {state:?}");
                    found.add(Check::InitialState, what);
                }
                return Some((*version, &watch.events[index + 1..]));
            }
        }
    }
    found.add(Check::InitialState, "no bookmark ends its initial state".to_owned());
    None
}

/// Checks order and content of the events after a version.
fn check_events(start: u64, events: &[WatchEvent], changes: &Changes<'_>, found: &mut Found<'_>) {
    let mut seen = BTreeSet::new();
    let mut last = start;
    for event in events {
        match event {
            WatchEvent::Bookmark { version, .. } if *version < last => {
                found.add(Check::Bookmarks, format!("a bookmark of {version} after {last}"));
            }
            WatchEvent::Bookmark { version, .. } => last = *version,
            WatchEvent::Added(name, stored)
            | WatchEvent::Modified(name, stored)
            | WatchEvent::Deleted(name, stored) => {
                if !seen.insert(stored.version) {
                    found.add(Check::WatchDuplicates, format!("a second event {event:?}"));
                } else if stored.version <= last {
                    found.add(Check::WatchOrder, format!("{event:?} after {last}"));
                } else {
                    last = stored.version;
                }
                if !found.watch.selects(name) {
                    found.add(Check::WatchContent, format!("it does not select the object of {event:?}"));
                }
                if !has_right_type(event, changes.before(name, stored.version)) {
                    found.add(
                        Check::WatchContent,
                        format!("the type does not fit the state before {event:?}"),
                    );
                }
            }
        }
    }
}

/// Returns whether the type of an event fits the state of its object before it. A deleted object has its last data.
fn has_right_type(event: &WatchEvent, before: Option<&Stored>) -> bool {
    match event {
        WatchEvent::Added(..) => before.is_none(),
        WatchEvent::Modified(_, stored) => before.is_some_and(|before| before.uid == stored.uid),
        WatchEvent::Deleted(_, stored) => {
            before.is_some_and(|before| before.uid == stored.uid && before.data == stored.data)
        }
        WatchEvent::Bookmark { .. } => true,
    }
}

/// Checks that each answered deletion is an event, which is the only source of its version.
fn check_deletions(history: &History, changes: &Changes<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for call in &history.calls {
        if let Some(Answer::Deleted { uid }) = call.answer()
            && changes.deletion_of(uid).is_none()
        {
            let what = format!("no watch has an event for {call:?}");
            violations.push(Violation::new(Check::WatchCompleteness, what));
        }
    }
    violations
}
