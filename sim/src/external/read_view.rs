//! What a controller sees when it looks, and how it asks for what is missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_core::engine::action::{Action, Subresource};
use lockstep_core::engine::cache::{Cache, Cached};
use lockstep_core::engine::write::merge_patch;
use lockstep_core::object::{Kind, ObjectRef, resource_version};
use lockstep_core::random::Random;
use lockstep_core::time::{Monotonic, Now};
use serde_json::{Value, json};

use super::pace::Pace;

/// One look at everything.
pub struct ReadView<'a> {
    /// The time.
    pub now: Now,
    seen: &'a Seen,
    pace: &'a Pace,
    random: &'a mut Random,
    /// What was due before this look, and what it waits for: a timer that a look does not ask for is forgotten.
    before: Timers,
    timers: Timers,
    asked: Vec<Action>,
    /// How often something was asked for or waited for.
    wishes: usize,
}

impl<'a> ReadView<'a> {
    /// The objects of a watched kind, by namespace and name.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.seen.get(kind).into_iter().flat_map(|cache| cache.iter().map(|(_, Raw(object))| &**object))
    }

    /// One object of a watched kind.
    pub fn get(&self, target: &ObjectRef) -> Option<&'a Value> {
        let key = (target.namespace.clone().unwrap_or_default(), target.name.clone());
        self.seen.get(&target.kind)?.get(&key).map(|Raw(object)| &**object)
    }

    /// Whether a step for an object is due, counted from the first of the looks in a row that ask for it.
    pub fn after(&mut self, target: &ObjectRef, step: &'static str) -> bool {
        self.wait(target, step, self.pace.step)
    }

    /// The same for what takes long.
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
        Self { now, seen, pace, random, before, timers: Timers::new(), asked: Vec::new(), wishes: 0 }
    }

    /// How often anything was wished for in this look: if it is as often as before, there is nothing to do.
    pub(super) fn wishes(&self) -> usize {
        self.wishes
    }

    /// What is waited for, and what is asked for.
    pub(super) fn finish(self) -> (Timers, Vec<Action>) {
        (self.timers, self.asked)
    }

    /// Whether it is time for what comes again and again by itself. A world that waits for nothing else is at rest.
    pub fn again_at(&mut self, target: &ObjectRef, step: &'static str, at: Monotonic) -> bool {
        self.timers.insert((target.clone(), step), Timer { at, at_rest: true });
        at <= self.now.monotonic
    }

    /// Whether it is time for something that was put off. A world that puts it off without end is at rest meanwhile.
    pub fn put_off_until(
        &mut self,
        target: &ObjectRef,
        step: &'static str,
        at: Monotonic,
        at_rest: bool,
    ) -> bool {
        self.wishes += 1;
        self.timers.insert((target.clone(), step), Timer { at, at_rest });
        at <= self.now.monotonic
    }

    fn wait(&mut self, target: &ObjectRef, step: &'static str, (least, most): (Duration, Duration)) -> bool {
        self.wishes += 1;
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

    /// Asks for a write. Of one object only one is under way at a time: what is missing then is found by the next look.
    pub fn ask(&mut self, action: Action) {
        self.wishes += 1;
        self.asked.push(action);
    }

    /// Asks for a status, unless it is what stands there.
    pub fn keep_status(&mut self, target: &ObjectRef, object: &Value, status: &Value) {
        if let Some(patch) = merge_patch(&object["status"], status) {
            let patch = Arc::new(json!({ "status": patch }));
            self.ask(Action::Patch { target: target.clone(), subresource: Some(Subresource::Status), patch });
        }
    }

    /// Asks for what makes an object another one, unless it is that one already.
    pub fn keep(&mut self, target: &ObjectRef, object: &Value, wanted: &Value) {
        if let Some(mut patch) = merge_patch(object, wanted) {
            patch["metadata"]["uid"] = object["metadata"]["uid"].clone();
            self.ask(Action::Patch { target: target.clone(), subresource: None, patch: Arc::new(patch) });
        }
    }
}

pub(super) type Key = (String, String);
pub(super) type Seen = BTreeMap<Arc<Kind>, Cache<Key, Raw>>;
/// When the steps that are waited for are due.
pub(super) type Timers = BTreeMap<(ObjectRef, &'static str), Timer>;

/// When a step is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timer {
    pub(super) at: Monotonic,
    /// Whether a world that waits for nothing but this is at rest.
    pub(super) at_rest: bool,
}

/// An object as it was seen.
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
