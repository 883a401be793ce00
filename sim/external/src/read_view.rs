//! The view of a controller during one evaluation, and its requests for changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::object::{Kind, ObjectRef, ResourceVersion};
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
    recorded: Recorded,
}

/// What a part of an evaluation waits for, if it does nothing else.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Waits {
    steps: Vec<((ObjectRef, &'static str), Timer)>,
    /// Whether it asked for its recurring step.
    pub(super) recurs: bool,
}

impl Waits {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The record of a part of an evaluation.
#[derive(Debug, Default)]
struct Recorded {
    waits: Waits,
    /// Whether it did more than wait: its result depends on more than its inputs.
    acts: bool,
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
        Self {
            now,
            seen,
            pace,
            random,
            before,
            timers: Timers::new(),
            asked: Vec::new(),
            recorded: Recorded::default(),
        }
    }

    /// Starts the record of a part of the evaluation.
    pub(super) fn record(&mut self) {
        self.recorded = Recorded::default();
    }

    /// Returns what the recorded part waits for; none if it did anything else. With the same inputs, it would do the same until
    /// one of these steps is due.
    pub(super) fn recorded(&mut self) -> Option<Waits> {
        let recorded = std::mem::take(&mut self.recorded);
        (!recorded.acts).then_some(recorded.waits)
    }

    /// Waits for the same steps as before, unless one of them is due.
    pub(super) fn waits_again(&mut self, waits: &Waits) -> bool {
        let is_ahead = |(key, timer): &(_, Timer)| {
            timer.at > self.now.monotonic && self.before.get(key).is_some_and(|before| before.at == timer.at)
        };
        if !waits.steps.iter().all(is_ahead) {
            return false;
        }
        self.timers.extend(waits.steps.iter().cloned());
        true
    }

    /// Returns the timers and the requested actions.
    pub(super) fn finish(self) -> (Timers, Vec<Action>) {
        (self.timers, self.asked)
    }

    /// Returns whether a recurring step is due. A system with no other timer is idle.
    pub fn again_at(&mut self, target: &ObjectRef, step: &'static str, at: Monotonic) -> bool {
        self.recorded.waits.recurs = true;
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
        self.recorded.acts = true;
        self.timers.insert((target.clone(), step), Timer { at, at_rest });
        at <= self.now.monotonic
    }

    fn wait(&mut self, target: &ObjectRef, step: &'static str, (least, most): (Duration, Duration)) -> bool {
        let key = (target.clone(), step);
        let at = self.before.get(&key).map_or_else(
            || {
                let spread = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
                self.now.monotonic + least + Duration::from_millis(self.random.below(spread))
            },
            |timer| timer.at,
        );
        let timer = Timer { at, at_rest: false };
        let is_due = at <= self.now.monotonic;
        self.recorded.acts |= is_due;
        self.recorded.waits.steps.push((key.clone(), timer));
        self.timers.insert(key, timer);
        is_due
    }

    /// Requests a write. Only one write for each object is in flight at a time: the next evaluation finds what is still missing.
    pub fn ask(&mut self, action: Action) {
        self.recorded.acts = true;
        self.asked.push(action);
    }

    /// Requests a status update, unless the status is up to date.
    pub fn keep_status(&mut self, target: &ObjectRef, object: &Value, status: &Value) {
        if let Some(patch) = merge_patch(&object["status"], status) {
            let patch = Arc::new(json!({ "status": patch }));
            self.ask(Action::Kube(KubeRequest::Patch {
                target: target.clone(),
                subresource: Some(Subresource::Status),
                patch,
            }));
        }
    }

    /// Requests a change of an object, unless it is already as wanted.
    pub fn keep(&mut self, target: &ObjectRef, object: &Value, wanted: &Value) {
        if let Some(mut patch) = merge_patch(object, wanted) {
            patch["metadata"]["uid"] = object["metadata"]["uid"].clone();
            self.ask(Action::Kube(KubeRequest::Patch {
                target: target.clone(),
                subresource: None,
                patch: Arc::new(patch),
            }));
        }
    }
}

pub(super) type Key = (String, String);
pub(super) type Seen = BTreeMap<Arc<Kind>, Cache<Key, Raw>>;
/// When the pending steps are due.
pub(super) type Timers = BTreeMap<(ObjectRef, &'static str), Timer>;

/// When a step is due.
#[derive(Debug, Clone, Copy, PartialEq)]
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

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::of(&self.0)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}
