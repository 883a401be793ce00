//! The last entries of a timeline.

use std::collections::VecDeque;

use serde_json::{Value, json};

/// The maximum number of entries in memory.
const MOMENTS_MAX: usize = 512;

/// An entry: an event, an answer, an action, or what the controller reported.
pub(super) struct Moment {
    /// Milliseconds since 1970.
    pub(super) at: i64,
    pub(super) step: u64,
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// The object that it is about.
    pub(super) path: Option<String>,
    /// Whether it is a failure or a warning.
    pub(super) bad: bool,
}

/// The last entries, with the number of all entries.
#[derive(Default)]
pub(super) struct Moments {
    last: VecDeque<Moment>,
    pushed: u64,
}

impl Moments {
    pub(super) fn push(&mut self, moment: Moment) {
        if self.last.len() == MOMENTS_MAX {
            self.last.pop_front();
        }
        self.last.push_back(moment);
        self.pushed += 1;
    }

    /// Returns the entries after the first `seen`, at most the last `limit` of them, and the number of all entries.
    pub(super) fn after(&self, seen: u64, limit: usize) -> (Vec<Value>, u64) {
        let unseen = usize::try_from(self.pushed - seen.min(self.pushed)).unwrap_or(usize::MAX);
        let count = unseen.min(limit).min(self.last.len());
        let fresh = self.last.range(self.last.len() - count..);
        (fresh.map(Moment::to_json).collect(), self.pushed)
    }
}

impl Moment {
    fn to_json(&self) -> Value {
        let Self { at, step, kind, text, path, bad } = self;
        json!({ "at": at, "step": step, "kind": kind, "text": text, "path": path, "bad": bad })
    }
}
