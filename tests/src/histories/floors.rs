//! The highest revision that was known before a moment.

use std::collections::BTreeMap;

use super::changes::Changes;
use super::history::{Answer, Call, History, Request};

/// The highest revision in the answers until each moment.
pub(super) struct Floors {
    start: u64,
    known: BTreeMap<u64, u64>,
}

impl Floors {
    pub(super) fn of(history: &History, changes: &Changes<'_>) -> Self {
        let mut known = BTreeMap::new();
        for call in &history.calls {
            if let (Some((moment, _)), Some(revision)) = (&call.completed, revision(call, changes)) {
                known.insert(*moment, revision);
            }
        }
        let mut highest = history.start;
        for revision in known.values_mut() {
            highest = highest.max(*revision);
            *revision = highest;
        }
        Self { start: history.start, known }
    }

    /// Returns the highest revision that was known before a moment.
    pub(super) fn before(&self, moment: u64) -> u64 {
        self.known.range(..moment).next_back().map_or(self.start, |(_, revision)| *revision)
    }
}

/// Returns the revision that the answer of a call has reached: of a deletion, the version of its event.
pub(super) fn revision(call: &Call, changes: &Changes<'_>) -> Option<u64> {
    match call.answer()? {
        Answer::Object(stored) => Some(stored.version),
        Answer::List { revision, .. } => Some(*revision),
        Answer::Deleted { uid } => changes.deletion_of(uid),
        Answer::AlreadyExists | Answer::Conflict | Answer::NotFound => None,
    }
}

/// Returns the revision that a write has made; `None` if it changed nothing, or if its answer was lost.
pub(super) fn made(call: &Call, changes: &Changes<'_>) -> Option<u64> {
    let revision = revision(call, changes).filter(|_| call.request.is_write())?;
    // An update of a version that is answered with the same version has changed nothing.
    let is_unchanged = matches!(call.request, Request::Update { version, .. } if version == Some(revision));
    (!is_unchanged).then_some(revision)
}
