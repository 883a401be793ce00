//! The view of a controller during one evaluation, and its requests for changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Subresource};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::object::{Kind, ObjectRef, resource_version};
use lockstep_engine::random::Random;
use lockstep_engine::time::{Monotonic, Now};
use lockstep_engine::write::merge_patch;
use serde_json::{Value, json};

use super::pace::Pace;

/// One evaluation of all objects.
pub struct ReadView<'a> {
    /// The time.
    pub now: Now,
    seen: &'a Seen,
    pace: &'a Pace,
    random: &'a mut Random,
    /// The timers before this evaluation. A timer that this evaluation does not request again is dropped.
    before: Timers,
    timers: Timers,
    asked: Vec<Action>,
    /// Number of requests and timers in this evaluation.
    pending: usize,
}

impl<'a> ReadView<'a> {
    /// Returns the objects of a watched kind, by namespace and name.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.seen.get(kind).into_iter().flat_map(|cache| cache.iter().map(|(_, Raw(object))| &**object))
    }

    /// Returns one object of a watched kind.
    pub fn get(&self, target: &ObjectRef) -> Option<&'a Value> {
        let key = (target.namespace.clone().unwrap_or_default(), target.name.clone());
        self.seen.get(&target.kind)?.get(&key).map(|Raw(object)| &**object)
    }

    /// Returns whether a step for an object is due. The delay starts at the first of the consecutive evaluations that request the
    /// step.
    pub fn after(&mut self, target: &ObjectRef, step: &'static str) -> bool {
        self.wait(target, step, self.pace.step)
    }

    /// Like [`ReadView::after`], with the delay of a slow step.
    pub fn long_after(&mut self, target: &ObjectRef, step: &'static str) -> bool {
        self.wait(target, step, self.pace.teardown)
    }

    pub(super) fn new(
        now: Now,
        seen: &'a Seen,
        pace: &'a Pace,
        random: &'a mut Random,
        before: Timers,
    ) -> Self {
        Self { now, seen, pace, random, before, timers: Timers::new(), asked: Vec::new(), pending: 0 }
    }

    /// Returns the number of requests and timers so far. If it does not change, there is nothing to do.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the timers and the requested actions.
    pub(super) fn finish(self) -> (Timers, Vec<Action>) {
        (self.timers, self.asked)
    }

    /// Returns whether a recurring step is due. A system with no other timer is idle.
    pub fn again_at(&mut self, target: &ObjectRef, step: &'static str, at: Monotonic) -> bool {
        self.timers.insert((target.clone(), step), Timer { at, at_rest: true });
        at <= self.now.monotonic
    }

    /// Returns whether a postponed step is due. With `at_rest`, a system with no other timer is idle.
    pub fn put_off_until(
        &mut self,
        target: &ObjectRef,
        step: &'static str,
        at: Monotonic,
        at_rest: bool,
    ) -> bool {
        self.pending += 1;
        self.timers.insert((target.clone(), step), Timer { at, at_rest });
        at <= self.now.monotonic
    }

    fn wait(&mut self, target: &ObjectRef, step: &'static str, (least, most): (Duration, Duration)) -> bool {
        self.pending += 1;
        let key = (target.clone(), step);
        let at = self.before.get(&key).map_or_else(
            || {
                let spread = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
                self.now.monotonic + least + Duration::from_millis(self.random.below(spread))
            },
            |timer| timer.at,
        );
        self.timers.insert(key, Timer { at, at_rest: false });
        at <= self.now.monotonic
    }

    /// Requests a write. Only one write for each object is in flight at a time: the next evaluation finds what is still missing.
    pub fn ask(&mut self, action: Action) {
        self.pending += 1;
        self.asked.push(action);
    }

    /// Requests a status update, unless the status is up to date.
    pub fn keep_status(&mut self, target: &ObjectRef, object: &Value, status: &Value) {
        if let Some(patch) = merge_patch(&object["status"], status) {
            let patch = Arc::new(json!({ "status": patch }));
            self.ask(Action::Patch { target: target.clone(), subresource: Some(Subresource::Status), patch });
        }
    }

    /// Requests a change of an object, unless it is already as wanted.
    pub fn keep(&mut self, target: &ObjectRef, object: &Value, wanted: &Value) {
        if let Some(mut patch) = merge_patch(object, wanted) {
            patch["metadata"]["uid"] = object["metadata"]["uid"].clone();
            self.ask(Action::Patch { target: target.clone(), subresource: None, patch: Arc::new(patch) });
        }
    }
}

pub(super) type Key = (String, String);
pub(super) type Seen = BTreeMap<Arc<Kind>, Cache<Key, Raw>>;
/// When the pending steps are due.
pub(super) type Timers = BTreeMap<(ObjectRef, &'static str), Timer>;

/// When a step is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timer {
    pub(super) at: Monotonic,
    /// Whether a system is idle if this is its only timer.
    pub(super) at_rest: bool,
}

/// An object as it was received.
#[derive(Debug)]
pub(super) struct Raw(pub(super) Arc<Value>);

impl Cached for Raw {
    type Index = ();

    fn resource_version(&self) -> u64 {
        resource_version(&self.0)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}
