//! The machine that runs any of the controllers.
//!
//! Its cache behaves like those of client libraries: it holds what the watches have delivered last. So a list from a stale server
//! makes it older, and it does not contain the process's own writes before the watch delivers them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Outcome, Scope, WatchCommand};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::driver::{Driver, Next, Reconcile, Settings};
use lockstep_engine::machine::{Deadline, Event, Machine, Step};
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::time::Now;
use serde_json::Value;

use crate::controller::{Controller, Objects, Seen};
use crate::kinds;
use crate::pass::{Pass, Stop, Waiting};

/// The backoff of all controllers.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };
/// Longer than a run, so that no bug is hidden by a resync.
const RESYNC: Duration = Duration::from_hours(2);

/// A process that runs a controller.
#[derive(Debug)]
pub struct Process<C> {
    driver: Driver<Name, Waiting>,
    runner: Runner<C>,
    /// The objects of lists in progress.
    listing: BTreeMap<Arc<Kind>, BTreeSet<ObjectRef>>,
    /// How many times each kind was listed.
    lists: BTreeMap<Arc<Kind>, u32>,
    synced: BTreeSet<Arc<Kind>>,
}

#[derive(Debug)]
struct Runner<C> {
    controller: C,
    objects: Arc<Objects>,
    memory: BTreeMap<Name, u64>,
}

impl<C: Controller> Process<C> {
    /// Returns a process with an empty cache.
    pub fn new(controller: C, seed: u64) -> Self {
        let settings = Settings { concurrency: 4, resync: RESYNC, backoff: BACKOFF, seed };
        let runner = Runner { controller, objects: Arc::default(), memory: BTreeMap::new() };
        Self {
            driver: Driver::new(settings),
            runner,
            listing: BTreeMap::new(),
            lists: BTreeMap::new(),
            synced: BTreeSet::new(),
        }
    }

    fn enqueue(&mut self, kind: &Kind, object: &Value, now: Now) {
        let Runner { controller, objects, .. } = &self.runner;
        for key in controller.keys(&Seen { kind, object, objects }) {
            // All keys are enqueued on becoming leader.
            if self.driver.is_leading() {
                self.driver.enqueue(key, now);
            }
        }
    }

    fn enqueue_all(&mut self, now: Now) {
        for (name, object) in &*Arc::clone(&self.runner.objects) {
            self.enqueue(&name.kind, object, now);
        }
    }

    fn applied(&mut self, kind: &Arc<Kind>, object: &Arc<Value>, now: Now) {
        let name = Name::of(object).object(kind);
        if let Some(listing) = self.listing.get_mut(kind) {
            listing.insert(name.clone());
        }
        if Arc::make_mut(&mut self.runner.objects).insert(name, Arc::clone(object)).as_ref() != Some(object) {
            self.enqueue(kind, object, now);
        }
    }

    fn deleted(&mut self, name: &ObjectRef, now: Now) {
        if let Some(last) = Arc::make_mut(&mut self.runner.objects).remove(name) {
            self.enqueue(&name.kind, &last, now);
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>, now: Now) {
        let listed = self.listing.remove(kind).unwrap_or_default();
        let known = self.runner.objects.keys().filter(|name| name.kind == *kind && !listed.contains(name));
        for gone in known.cloned().collect::<Vec<_>>() {
            self.deleted(&gone, now);
        }
        self.synced.insert(Arc::clone(kind));
    }

    /// Handles an event of a watch.
    fn watched(&mut self, event: Event, now: Now) {
        match event {
            Event::ListStarted { kind } => {
                *self.lists.entry(Arc::clone(&kind)).or_default() += 1;
                self.listing.insert(kind, BTreeSet::new());
            }
            Event::ListCompleted { kind } if !self.ignores(&kind) => self.list_completed(&kind, now),
            Event::Applied { kind, object } if !self.ignores(&kind) => self.applied(&kind, &object, now),
            Event::Deleted { kind, object } if !self.ignores(&kind) => {
                self.deleted(&Name::of(&object).object(&kind), now);
            }
            _ => {}
        }
    }

    fn ignores(&self, kind: &Arc<Kind>) -> bool {
        self.runner.controller.ignores_watch(self.lists.get(kind).copied().unwrap_or_default())
    }
}

impl<C: Controller> Machine for Process<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        match event {
            Event::Started => {
                for kind in self.runner.controller.watches() {
                    let watch = Action::Watch(WatchCommand::Start { kind, scope: Scope::default() });
                    step.requests.push(self.driver.request(watch));
                }
            }
            Event::LeadershipChanged { leading } => {
                self.driver.set_leading(leading);
                self.enqueue_all(now);
            }
            Event::Finished { id, outcome } => {
                self.driver.finish(&mut self.runner, id, outcome, now, &mut step);
            }
            event => self.watched(event, now),
        }
        if self.driver.is_resync_due(now) {
            self.enqueue_all(now);
        }
        if self.is_synced() {
            self.driver.run(&mut self.runner, now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        self.driver.deadline()
    }

    fn is_synced(&self) -> bool {
        self.runner.controller.watches().iter().all(|kind| self.synced.contains(kind))
    }
}

impl<C: Controller> Runner<C> {
    fn proceed(&mut self, key: &Name, waiting: Waiting) -> Next<Waiting> {
        let mut pass = Pass::new(&waiting);
        let result = self.controller.reconcile(key, &mut pass);
        let memory = pass.memory;
        let verdict = match result {
            Err(Stop::Request(action)) => return Next::Await(vec![*action], waiting),
            Err(Stop::Failed(verdict)) | Ok(verdict) => verdict,
        };
        self.memory.insert(key.clone(), memory);
        Next::Done(verdict)
    }
}

impl<C: Controller> Reconcile for Runner<C> {
    type Key = Name;
    type Stage = Waiting;

    fn reconciler(_: &Name) -> &'static str {
        "app"
    }

    fn object(key: &Name) -> ObjectRef {
        key.object(&kinds::app())
    }

    fn begin(&mut self, key: &Name, now: Now) -> Next<Waiting> {
        let memory = self.memory.get(key).copied().unwrap_or_default();
        self.proceed(key, Waiting { objects: Arc::clone(&self.objects), memory, now, answers: Vec::new() })
    }

    fn resume(&mut self, key: &Name, stage: Waiting, outcomes: Vec<Outcome>, _: Now) -> Next<Waiting> {
        let mut waiting = stage;
        waiting.answers.extend(outcomes);
        self.proceed(key, waiting)
    }
}
