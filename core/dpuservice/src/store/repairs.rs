//! The writes that this process repeats, because another client undoes them or an admission webhook changes what they write.
//!
//! A write of the same content to the same object as shortly before is a repair, whatever the object itself shows: another client
//! may restore the whole object. Anything else that is written is no repair, and is never delayed.
//!
//! Source: not in the specification (decision 12).

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::pairs;
use lockstep_engine::repair_backoff::{RepairBackoff, contested};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::cluster_access::Problem;

/// Said of an object of which a repair waits.
pub const DIFFERS: &str =
    "it differs from what was applied: another client or an admission webhook changes it";
/// One write, as far as a later one may repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// The cluster of the Application or Secret, or the AppProject.
    pub(crate) of: Name,
    /// Whether the object is created. A new Application gets its values by a second write.
    pub(crate) creates: bool,
    /// A text that differs between contents.
    pub(crate) content: String,
}

impl Written {
    /// Returns whether an earlier write of the same object had other content.
    fn replaces(&self, earlier: &Self) -> bool {
        (&self.of, self.creates) == (&earlier.of, earlier.creates) && self.content != earlier.content
    }
}

/// The recent writes, by the object of the reconcile that made them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Repairs {
    #[serde(with = "pairs")]
    written: BTreeMap<ObjectRef, RepairBackoff<Written>>,
}

impl Repairs {
    /// Forgets what was written by the reconcile of an object.
    pub fn remove(&mut self, by: &ObjectRef) {
        self.written.remove(by);
    }

    /// Forgets what was written by the reconcile of an object if it has not been repaired for long enough, or if other content
    /// is to be written now.
    pub fn settle(&mut self, by: &ObjectRef, wanted: &[Written], now: Now) {
        self.keep(by, now, |earlier| !wanted.iter().any(|it| it.replaces(earlier)));
    }

    /// Forgets what was written for a cluster: it is removed.
    pub fn forget(&mut self, by: &ObjectRef, of: &Name, now: Now) {
        self.keep(by, now, |earlier| earlier.of != *of);
    }

    fn keep(&mut self, by: &ObjectRef, now: Now, is_kept: impl Fn(&Written) -> bool) {
        if let Some(repairs) = self.written.get_mut(by)
            && !repairs.settle(now.monotonic, |earlier| is_kept(earlier))
        {
            self.written.remove(by);
        }
    }

    /// Records the writes of a pass.
    pub fn record(&mut self, by: ObjectRef, written: Vec<Written>, failed: &[Written], now: Now) {
        if !written.is_empty() || self.written.contains_key(&by) {
            self.written.entry(by).or_default().take_in(written, failed, now.monotonic);
        }
    }

    /// Returns for how long a repair has to wait; `None` if it need not, or if the write is no repair.
    pub fn wait(&self, by: &ObjectRef, write: &Written, now: Now) -> Option<Duration> {
        self.written.get(by)?.wait(write, now.monotonic)
    }

    /// Returns what was repaired several times in a row, and for how much longer each is reported.
    pub fn contested<'a>(
        &'a self,
        by: &ObjectRef,
        now: Now,
    ) -> impl Iterator<Item = (&'a Name, Duration)> + use<'a> {
        let repairs = self.written.get(by).into_iter();
        repairs
            .flat_map(move |repairs| repairs.contested(now.monotonic))
            .map(|(written, rest)| (&written.of, rest))
    }

    /// Returns the problem with the only object that a reconcile writes, and until when it waits or is reported.
    pub fn problem(&self, by: &ObjectRef, waits: Option<Duration>, now: Now) -> Option<(Problem, Duration)> {
        let reported = self.contested(by, now).map(|(_, rest)| rest).min();
        let message = if reported.is_some() { contested("it") } else { DIFFERS.to_owned() };
        let problem = Problem { message, passes: reported.is_none() };
        waits.or(reported).map(|delay| (problem, delay))
    }
}
