//! The common base of the external systems: a level-triggered controller that reads all objects after each event and requests
//! every missing change.
//!
//! All of its essential state is in the objects, so it can restart at any time. It keeps in memory only its requests in flight,
//! and the due times of its next steps.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{
    Action, ActionId, ErrorKind, KubeRequest, Outcome, Request, Scope, Success, WatchCommand,
};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::machine::{Deadline, DeadlineReason, Event, Machine, Step};
use lockstep_engine::object::{Kind, ObjectRef, ResourceVersion, metadata};
use lockstep_engine::random::Random;
use lockstep_engine::time::{Monotonic, Now};
use serde_json::Value;

use super::pace::Pace;
use super::read_view::{Busy, Key, Raw, ReadView, Seen, Settled, Timers};

/// Delay before a failed write is retried.
const RETRY: Duration = Duration::from_secs(1);

/// A foreign controller.
pub trait Controller {
    /// Its name, which is its field manager.
    const NAME: &'static str;

    /// Returns the kinds that it watches, in all namespaces.
    fn kinds() -> Vec<Arc<Kind>>;

    /// Reads all objects and requests the missing changes.
    fn look(&mut self, look: &mut ReadView<'_>);

    /// Notes that a write of an object failed. It is evaluated again after a delay.
    fn failed(&mut self, _target: &ObjectRef) {}
}

/// A controller as a machine. It ignores leadership: only one instance runs.
#[derive(Debug)]
pub struct Level<C> {
    controller: C,
    pace: Pace,
    random: Random,
    seen: Seen,
    timers: Timers,
    /// The parts of the last evaluation that only waited.
    settled: BTreeMap<ObjectRef, Settled>,
    in_flight: BTreeMap<ActionId, Action>,
    /// Objects with a failed write, and when they are retried.
    held_back: BTreeMap<ObjectRef, Monotonic>,
    /// The next deadline, for work that no event triggers.
    due: Option<Deadline>,
    requests: u64,
}

fn key_of(object: &Value) -> Key {
    (metadata(object, "namespace").to_owned(), metadata(object, "name").to_owned())
}

impl<C: Controller> Level<C> {
    /// Returns a controller with these delays; the jitter follows from the seed.
    pub fn new(controller: C, pace: Pace, seed: u64) -> Self {
        let seen = C::kinds().into_iter().map(|kind| (kind, Cache::default())).collect();
        Self {
            controller,
            pace,
            random: Random::from_seed(seed),
            seen,
            timers: Timers::new(),
            settled: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            held_back: BTreeMap::new(),
            due: None,
            requests: 0,
        }
    }

    fn request(&mut self, action: Action) -> Request {
        self.requests += 1;
        Request { id: ActionId(self.requests), action }
    }

    fn finish(&mut self, id: ActionId, outcome: Outcome, now: Now) {
        let Some(action) = self.in_flight.remove(&id) else { return };
        let Some(target) = action.target() else { return };
        let Some(cache) = self.seen.get_mut(&target.kind) else { return };
        let key = (target.namespace.clone().unwrap_or_default(), target.name.clone());
        match outcome {
            Ok(Success::Object(object)) => {
                cache.absorb(key, Raw::new(object));
            }
            Err(failure)
                if !(matches!(action, Action::Kube(KubeRequest::Delete { .. }))
                    && failure.class == ErrorKind::NotFound) =>
            {
                self.controller.failed(target);
                self.held_back.insert(target.clone(), now.monotonic + RETRY);
            }
            _ => {
                let held = cache.get(&key).map(Cached::resource_version).unwrap_or_default();
                cache.removed(key, held);
            }
        }
    }

    fn look(&mut self, now: Now, step: &mut Step) {
        self.held_back.retain(|_, until| *until > now.monotonic);
        let before = std::mem::take(&mut self.timers);
        let busy = Busy { in_flight: &self.in_flight, held_back: &self.held_back };
        let mut look =
            ReadView::new(now, &self.seen, &self.pace, &mut self.random, before, &mut self.settled, busy);
        self.controller.look(&mut look);
        let (timers, asked) = look.finish();
        self.timers = timers;
        for action in asked {
            let Some(target) = action.target() else { continue };
            let busy = Busy { in_flight: &self.in_flight, held_back: &self.held_back };
            if !busy.has(target) {
                let request = self.request(action);
                self.in_flight.insert(request.id, request.action.clone());
                step.requests.push(request);
            }
        }
        self.due = self.next(now.monotonic);
    }

    fn next(&self, now: Monotonic) -> Option<Deadline> {
        let timers = self.timers.values().map(|timer| (timer.at, timer.at_rest));
        let waited_for = timers.chain(self.held_back.values().map(|at| (*at, false)));
        let ahead: Vec<(Monotonic, bool)> = waited_for.filter(|(at, _)| *at > now).collect();
        let reason = if ahead.iter().all(|(_, at_rest)| *at_rest) {
            DeadlineReason::Resync
        } else {
            DeadlineReason::Work("the next step is due")
        };
        ahead.into_iter().map(|(at, _)| at).min().map(|at| Deadline { at, reason })
    }
}

impl<C: Controller> Machine for Level<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        let mut is_new = true;
        match event {
            Event::Started => {
                for kind in C::kinds() {
                    let watch = Action::Watch(WatchCommand::Start { kind, scope: Scope::default() });
                    step.requests.push(self.request(watch));
                }
            }
            Event::ListStarted { kind } => {
                if let Some(cache) = self.seen.get_mut(&kind) {
                    cache.start_list();
                }
            }
            Event::ListCompleted { kind } => {
                if let Some(cache) = self.seen.get_mut(&kind) {
                    cache.complete_list();
                }
            }
            Event::Applied { kind, object } => {
                let cache = self.seen.get_mut(&kind);
                is_new = cache.is_some_and(|cache| cache.observe(key_of(&object), Raw::new(object)));
            }
            Event::Deleted { kind, object } => {
                if let Some(cache) = self.seen.get_mut(&kind) {
                    cache.vanish(&key_of(&object), ResourceVersion::of(&object));
                }
            }
            Event::Finished { id, outcome } => self.finish(id, outcome, now),
            Event::LeadershipChanged { .. } | Event::WatchFailed { .. } | Event::TimerFired => {}
        }
        // A watch also shows the controller's own writes. If nothing is new or due, an evaluation would repeat the last one.
        let is_due = self.due.as_ref().is_some_and(|due| due.at <= now.monotonic);
        if self.is_synced() && (is_new || is_due) {
            self.look(now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        self.due
    }

    fn is_synced(&self) -> bool {
        self.seen.values().all(Cache::is_synced)
    }
}
