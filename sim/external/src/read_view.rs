//! The view of a controller during one evaluation, and its requests for changes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, KubeRequest, Subresource};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::object::{Kind, ObjectRef, ResourceVersion};
use lockstep_engine::random::Random;
use lockstep_engine::time::{Monotonic, Now};
use lockstep_engine::write::merge_patch;
use serde_json::{Map, Value, json};

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
    /// Whether a part is evaluated whose inputs are recorded.
    is_recording: bool,
    reads: RefCell<Vec<Read>>,
    settled: &'a mut BTreeMap<ObjectRef, Settled>,
    busy: Busy<'a>,
}

/// The objects that are not written now.
#[derive(Clone, Copy)]
pub(super) struct Busy<'a> {
    pub(super) in_flight: &'a BTreeMap<ActionId, Action>,
    /// After a failed write.
    pub(super) held_back: &'a BTreeMap<ObjectRef, Monotonic>,
}

impl Busy<'_> {
    pub(super) fn has(self, target: &ObjectRef) -> bool {
        self.held_back.contains_key(target)
            || self.in_flight.values().any(|action| action.target() == Some(target))
    }
}

/// An input of an evaluation.
#[derive(Debug, PartialEq)]
pub(super) enum Read {
    /// An object and its version; zero if it does not exist.
    Object(ObjectRef, ResourceVersion),
    /// The objects of a kind: the newest version, and their number.
    Kind(Kind, (ResourceVersion, usize)),
}

/// A part of an evaluation that only waited: its inputs, and what it waits for.
#[derive(Debug)]
pub(super) struct Settled {
    reads: Vec<Read>,
    waits: Waits,
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
        if self.is_recording {
            self.reads.borrow_mut().push(Read::Kind(kind.clone(), self.newest(kind)));
        }
        self.seen.get(kind).into_iter().flat_map(|cache| cache.iter().map(|(_, raw)| &*raw.object))
    }

    /// Returns the newest version of the objects of a watched kind, and their number.
    pub(super) fn newest(&self, kind: &Kind) -> (ResourceVersion, usize) {
        let all = self.seen.get(kind).into_iter().flat_map(Cache::iter);
        all.fold((ResourceVersion::default(), 0), |(newest, count), (_, raw)| {
            (newest.max(raw.version), count + 1)
        })
    }

    /// Returns one object of a watched kind.
    pub fn get(&self, target: &ObjectRef) -> Option<&'a Value> {
        let found = self.find(target);
        if self.is_recording {
            self.reads
                .borrow_mut()
                .push(Read::Object(target.clone(), found.map(|raw| raw.version).unwrap_or_default()));
        }
        found.map(|raw| &*raw.object)
    }

    fn find(&self, target: &ObjectRef) -> Option<&'a Raw> {
        let key = (target.namespace.clone().unwrap_or_default(), target.name.clone());
        self.seen.get(&target.kind)?.get(&key)
    }

    /// Evaluates the part about one object. If the part only waited the last time, and none of its inputs has changed, it is
    /// skipped until a step is due.
    pub(super) fn part(&mut self, target: &ObjectRef, evaluate: impl FnOnce(&mut Self)) {
        let before = self.settled.remove(target);
        let before = before.filter(|Settled { reads, waits }| {
            reads.iter().all(|read| self.is_same(read)) && self.waits_again(waits)
        });
        if let Some(before) = before {
            self.settled.insert(target.clone(), before);
            return;
        }
        self.record();
        self.is_recording = true;
        self.get(target);
        evaluate(self);
        self.is_recording = false;
        let reads = self.reads.take();
        if let Some(waits) = self.recorded().filter(|waits| !waits.recurs) {
            self.settled.insert(target.clone(), Settled { reads, waits });
        }
    }

    fn is_same(&self, read: &Read) -> bool {
        match read {
            Read::Object(target, version) => {
                self.find(target).map(|raw| raw.version).unwrap_or_default() == *version
            }
            Read::Kind(kind, newest) => self.newest(kind) == *newest,
        }
    }

    /// Returns whether a write of an object is in flight, or waits after a failure.
    pub fn is_busy(&self, target: &ObjectRef) -> bool {
        self.busy.has(target)
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
        settled: &'a mut BTreeMap<ObjectRef, Settled>,
        busy: Busy<'a>,
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
            is_recording: false,
            reads: RefCell::default(),
            settled,
            busy,
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
        self.change(target, object, merge_patch(object, wanted));
    }

    /// Requests a change of some fields of an object, unless they are already as wanted. An absent field is not wanted.
    pub fn keep_fields(&mut self, target: &ObjectRef, object: &Value, wanted: &Value, fields: &[&str]) {
        let changed = fields.iter().filter_map(|field| {
            let patch = merge_patch(&object[*field], &wanted[*field])?;
            Some(((*field).to_owned(), patch))
        });
        let patch: Map<String, Value> = changed.collect();
        self.change(target, object, (!patch.is_empty()).then(|| patch.into()));
    }

    fn change(&mut self, target: &ObjectRef, object: &Value, patch: Option<Value>) {
        let Some(mut patch) = patch else { return };
        patch["metadata"]["uid"] = object["metadata"]["uid"].clone();
        self.ask(Action::Kube(KubeRequest::Patch {
            target: target.clone(),
            subresource: None,
            patch: Arc::new(patch),
        }));
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

/// An object as it was received, with its resource version.
#[derive(Debug)]
pub(super) struct Raw {
    object: Arc<Value>,
    version: ResourceVersion,
}

impl Raw {
    pub(super) fn new(object: Arc<Value>) -> Self {
        Self { version: ResourceVersion::of(&object), object }
    }
}

impl Cached for Raw {
    type Index = ();

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}
