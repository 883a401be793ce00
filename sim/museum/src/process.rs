//! The machine that runs any of the controllers.
//!
//! Its cache behaves like those of client libraries: it holds what the watches have delivered last. So a list from a stale server
//! makes it older, and it does not contain the process's own writes before the watch delivers them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, Outcome, Scope, WatchCommand};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::{Deadline, Event, Machine, Step};
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::scheduler::{Next, PassScheduler, Reconcile, Settings, Verdict};
use lockstep_engine::time::Now;
use serde_json::Value;

use crate::controller::{Cause, Controller, Objects, Seen, Watch};
use crate::kinds;
use crate::pass::{Pass, Stop, Waiting};

/// The backoff of all controllers.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(1) };
/// Longer than a run, so that no bug is hidden by a resync.
const RESYNC: Duration = Duration::from_hours(2);

/// A process that runs a controller.
#[derive(Debug)]
pub struct Process<C> {
    scheduler: PassScheduler<Name, Waiting>,
    runner: Runner<C>,
    /// The objects of lists in progress.
    listing: BTreeMap<Arc<Kind>, BTreeSet<ObjectRef>>,
    watches: BTreeMap<Arc<Kind>, Watch>,
    synced: BTreeSet<Arc<Kind>>,
}

#[derive(Debug)]
struct Runner<C> {
    controller: C,
    objects: Arc<Objects>,
    memory: BTreeMap<Name, u64>,
    /// How many times in a row each key has failed.
    failures: BTreeMap<Name, u64>,
    /// The keys with a write that has no answer.
    writing: BTreeSet<Name>,
}

impl<C: Controller> Process<C> {
    /// Returns a process with an empty cache.
    pub fn new(controller: C, seed: u64) -> Self {
        let settings = Settings { concurrency: 4, resync: RESYNC, backoff: BACKOFF, seed };
        let runner = Runner {
            controller,
            objects: Arc::default(),
            memory: BTreeMap::new(),
            failures: BTreeMap::new(),
            writing: BTreeSet::new(),
        };
        Self {
            scheduler: PassScheduler::new(settings),
            runner,
            listing: BTreeMap::new(),
            watches: BTreeMap::new(),
            synced: BTreeSet::new(),
        }
    }

    fn enqueue(&mut self, kind: &Kind, object: &Value, cause: Cause<'_>, now: Now) {
        let Runner { controller, objects, writing, .. } = &self.runner;
        for key in controller.keys(&Seen { kind, object, cause, objects }) {
            let is_ignored = controller.ignores_while_writing() && writing.contains(&key);
            // All keys are enqueued on becoming leader.
            if self.scheduler.is_leading() && !is_ignored {
                self.scheduler.enqueue(key, now);
            }
        }
    }

    fn enqueue_all(&mut self, now: Now) {
        for (name, object) in &*Arc::clone(&self.runner.objects) {
            self.enqueue(&name.kind, object, Cause::Exists, now);
        }
    }

    fn applied(&mut self, kind: &Arc<Kind>, object: &Arc<Value>, now: Now) {
        let name = Name::of(object).object(kind);
        if let Some(listing) = self.listing.get_mut(kind) {
            listing.insert(name.clone());
        }
        let old = Arc::make_mut(&mut self.runner.objects).insert(name, Arc::clone(object));
        if old.as_ref() != Some(object) {
            self.enqueue(kind, object, old.as_deref().map_or(Cause::Exists, Cause::Changed), now);
        }
    }

    fn deleted(&mut self, name: &ObjectRef, now: Now) {
        if let Some(last) = Arc::make_mut(&mut self.runner.objects).remove(name) {
            self.enqueue(&name.kind, &last, Cause::Deleted, now);
        }
    }

    fn list_completed(&mut self, kind: &Arc<Kind>, now: Now) {
        let listed = self.listing.remove(kind).unwrap_or_default();
        let known = self.runner.objects.keys().filter(|name| name.kind == *kind && !listed.contains(name));
        for gone in known.cloned().collect::<Vec<_>>() {
            self.deleted(&gone, now);
        }
        let is_first = self.synced.insert(Arc::clone(kind));
        // No event reports an object that was created and deleted since the previous watch ended.
        if !is_first {
            self.enqueue_all(now);
        }
    }

    /// Handles an event of a watch.
    fn watched(&mut self, event: Event, now: Now) {
        match event {
            Event::WatchFailed { kind, .. } => {
                self.watches.entry(kind).or_default().failures += 1;
            }
            Event::ListStarted { kind } => {
                self.watches.entry(Arc::clone(&kind)).or_default().lists += 1;
                self.listing.insert(kind, BTreeSet::new());
            }
            Event::ListCompleted { ref kind } if !self.ignores(kind, &event) => {
                self.list_completed(kind, now);
            }
            Event::Applied { ref kind, ref object } if !self.ignores(kind, &event) => {
                self.applied(kind, object, now);
            }
            Event::Deleted { ref kind, ref object } if !self.ignores(kind, &event) => {
                self.deleted(&Name::of(object).object(kind), now);
            }
            _ => {}
        }
    }

    fn ignores(&self, kind: &Arc<Kind>, event: &Event) -> bool {
        self.runner.controller.ignores(event, self.watches.get(kind).copied().unwrap_or_default())
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
                    step.requests.push(self.scheduler.request(watch));
                }
            }
            Event::LeadershipChanged { leading } => {
                self.scheduler.set_leading(leading);
                self.enqueue_all(now);
            }
            Event::Finished { id, outcome } => {
                self.scheduler.finish(&mut self.runner, id, outcome, now, &mut step);
            }
            event => self.watched(event, now),
        }
        if self.scheduler.is_resync_due(now) {
            self.enqueue_all(now);
        }
        if self.is_synced() {
            self.scheduler.run(&mut self.runner, now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        self.scheduler.deadline()
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
        self.writing.remove(key);
        let verdict = match result {
            Err(Stop::Request(action)) => {
                if action.is_write() {
                    self.writing.insert(key.clone());
                }
                return Next::Await(vec![*action], waiting);
            }
            Err(Stop::Failed(verdict)) | Ok(verdict) => verdict,
        };
        self.memory.insert(key.clone(), memory);
        Next::Done(self.give_up(key, verdict))
    }

    /// Returns the verdict, or that the key needs no further work if it has failed too many times.
    fn give_up(&mut self, key: &Name, verdict: Verdict) -> Verdict {
        let failures = self.failures.entry(key.clone()).or_default();
        *failures = if matches!(verdict, Verdict::Retry { .. }) { *failures + 1 } else { 0 };
        if *failures < self.controller.attempts() {
            return verdict;
        }
        *failures = 0;
        Verdict::Converged
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
