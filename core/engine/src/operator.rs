//! An operator: watches enqueue keys, and the scheduler reconciles them while this process leads.
//!
//! A controller provides two traits. [`Control`] updates the cached state for each event and enqueues keys. [`Reconcile`]
//! makes the decisions.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::{Action, Failure};
use super::backoff::Backoff;
use super::conditions::cut;
use super::informer::Informer;
use super::machine::{Deadline, DeadlineReason, Event, Machine, Metric, Note, Step, WorkQueue, Workload};
use super::recorder::{NOTE_MAX_BYTES, Occurrence, Recorder, Severity};
use super::recording::{Checkpoint, Origin, Recordable, Traits};
use super::scheduler::{PassScheduler, Reconcile, Settings};
use crate::object::Kind;
use crate::random::Random;
use crate::time::{Monotonic, Now};

/// The configuration of an operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Config {
    /// The maximum number of keys that are reconciled at a time.
    pub concurrency: usize,
    /// The interval at which every key is reconciled again.
    pub resync: Duration,
    /// The name of this process in Kubernetes Events.
    pub instance: String,
    /// The seed of all jitter and generated names.
    pub seed: u64,
}

/// The default of [`Config::concurrency`], except for controllers with one of their own.
pub const CONCURRENCY: u16 = 16;

impl Default for Config {
    /// [`CONCURRENCY`] keys at a time, each reconciled again after ten minutes.
    fn default() -> Self {
        Self {
            concurrency: CONCURRENCY.into(),
            resync: Duration::from_mins(10),
            instance: String::new(),
            seed: 0,
        }
    }
}

/// What a controller provides besides its decisions.
pub trait Control: Reconcile {
    /// The machine's name.
    const NAME: &'static str;
    /// The backoff of a failing key.
    const BACKOFF: Backoff;
    /// Its reconcilers, in the order in which they are shown.
    const RECONCILERS: &'static [&'static str];
    /// The metrics that it has beside those of all machines.
    const METRICS: &'static [Metric] = &[];
    /// The traits that a recording needs.
    const TRAITS: Traits = Traits::NONE;

    /// Returns a controller with empty caches.
    fn new(outbox: Outbox<Self::Key>) -> Self;

    /// Returns its output besides the actions of passes.
    fn outbox(&mut self) -> &mut Outbox<Self::Key>;

    /// Returns its informers. A controller without them handles the events of watches itself, in the methods below.
    fn informers(&self) -> Vec<&Informer<Self::Key>> {
        Vec::new()
    }

    /// Returns its informers, in the same order.
    fn informers_mut(&mut self) -> Vec<&mut Informer<Self::Key>> {
        Vec::new()
    }

    /// Returns all existing keys.
    fn keys(&self) -> Vec<Self::Key> {
        self.informers().into_iter().flat_map(Informer::keys).collect()
    }

    /// Returns whether all kinds that decisions need have been listed.
    fn is_synced(&self) -> bool {
        self.informers().into_iter().all(Informer::is_synced)
    }

    /// Handles a resync: every key is about to be reconciled again.
    fn resync(&mut self, _now: Now) {}

    /// Handles the start of the process: requests the watches.
    fn start(&mut self) {
        let watches: Vec<Action> = self.informers().into_iter().map(Informer::watch).collect();
        self.outbox().requests.extend(watches);
    }

    /// Handles [`Event::ListStarted`].
    fn list_started(&mut self, kind: &Arc<Kind>) {
        self.informers_mut().into_iter().filter(|it| it.is_of(kind)).for_each(Informer::list_started);
    }

    /// Handles [`Event::ListCompleted`].
    fn list_completed(&mut self, kind: &Arc<Kind>) {
        let lists = self.informers_mut().into_iter().filter(|it| it.is_of(kind));
        let gone: Vec<_> = lists.flat_map(Informer::list_completed).collect();
        self.outbox().woken.extend(gone);
    }

    /// Handles [`Event::Applied`].
    fn observed(&mut self, kind: &Arc<Kind>, object: &Arc<Value>) {
        let informers = self.informers_mut().into_iter().filter(|it| it.is_of(kind));
        let changed: Vec<_> = informers.filter_map(|informer| informer.applied(object)).collect();
        self.outbox().woken.extend(changed);
    }

    /// Handles [`Event::Deleted`].
    fn vanished(&mut self, kind: &Arc<Kind>, object: &Value) {
        let informers = self.informers_mut().into_iter().filter(|it| it.is_of(kind));
        let changed: Vec<_> = informers.filter_map(|informer| informer.deleted(object)).collect();
        self.outbox().woken.extend(changed);
    }

    /// Handles [`Event::WatchFailed`]. The driver of the machine repeats the watch in any case.
    fn watch_failed(&mut self, _kind: &Arc<Kind>, _failure: Failure, _now: Now) {}
}

/// The output of a decision besides the pass's own actions. It is added to the same step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Outbox<K> {
    recorder: Recorder,
    random: Random,
    /// Keys to enqueue.
    #[serde(skip)]
    pub woken: Vec<K>,
    /// Requests whose answers no pass waits for.
    #[serde(skip)]
    pub requests: Vec<Action>,
    /// Notes to report.
    #[serde(skip)]
    pub notes: Vec<Note>,
}

impl<K> Outbox<K> {
    /// Announces an Event of an object: it is written to the API server as soon as possible.
    pub fn record(&mut self, mut occurrence: Occurrence, now: Now) {
        occurrence.note = cut(occurrence.note, NOTE_MAX_BYTES);
        self.notes.push(Note::EventAnnounced {
            object: occurrence.regarding.clone(),
            uid: occurrence.uid.clone(),
            warning: occurrence.severity == Severity::Warning,
            reason: occurrence.reason.clone(),
            note: occurrence.note.clone(),
        });
        self.recorder.record(occurrence, now, &mut self.random);
    }
}

/// The state of an operator.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(
    serialize = "C: Serialize, C::Key: Serialize, C::Stage: Serialize",
    deserialize = "C: Deserialize<'de>, C::Key: Deserialize<'de>, C::Stage: Deserialize<'de>"
))]
pub struct Operator<C: Control> {
    scheduler: PassScheduler<C::Key, C::Stage>,
    controller: C,
    /// When the next delayed write of an Event is due.
    next_event: Option<Monotonic>,
}

impl<C: Control> Operator<C> {
    /// Returns an operator with empty caches.
    pub fn new(config: Config) -> Self {
        let Config { concurrency, resync, instance, seed } = config;
        let outbox = Outbox {
            recorder: Recorder::new(C::NAME, instance),
            random: Random::from_seed(seed.wrapping_add(1)),
            woken: Vec::new(),
            requests: Vec::new(),
            notes: Vec::new(),
        };
        let settings = Settings { concurrency, resync, backoff: C::BACKOFF, seed };
        Self { scheduler: PassScheduler::new(settings), controller: C::new(outbox), next_event: None }
    }

    fn enqueue_all(&mut self, now: Now) {
        for key in self.controller.keys() {
            self.scheduler.enqueue(key, now);
        }
    }

    /// Adds the controller's output to the step, besides the pass's own actions.
    fn flush(&mut self, now: Now, step: &mut Step) {
        let outbox = self.controller.outbox();
        for key in outbox.woken.drain(..) {
            // All keys are enqueued on becoming leader. Until then keys need not be stored.
            if self.scheduler.is_leading() {
                self.scheduler.enqueue(key, now);
            }
        }
        for action in outbox.requests.drain(..) {
            step.requests.push(self.scheduler.request(action));
        }
        // Counts that a process did not write while it led are written when it leads again.
        if self.scheduler.is_leading() {
            let events = outbox.recorder.requests(now.monotonic, |action| self.scheduler.request(action));
            step.requests.extend(events);
        }
        self.next_event = outbox.recorder.next_due();
        step.notes.append(&mut outbox.notes);
    }
}

impl<C: Control> Operator<C>
where
    C: DeserializeOwned,
    C::Key: DeserializeOwned,
    C::Stage: DeserializeOwned,
{
    /// Returns the operator of a recording.
    pub fn revive(origin: Origin<'_>) -> serde_json::Result<Self> {
        match origin {
            Origin::Config(config) => serde_json::from_value(config.clone()).map(Self::new),
            Origin::Checkpoint(state) => serde_json::from_value(state.clone()),
        }
    }
}

impl<C: Control> Machine for Operator<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let mut step = Step::default();
        match event {
            Event::Started => self.controller.start(),
            Event::LeadershipChanged { leading } => {
                self.scheduler.set_leading(leading);
                if leading {
                    self.enqueue_all(now);
                }
            }
            Event::ListStarted { kind } => self.controller.list_started(&kind),
            Event::ListCompleted { kind } => self.controller.list_completed(&kind),
            Event::Applied { kind, object } => self.controller.observed(&kind, &object),
            Event::Deleted { kind, object } => self.controller.vanished(&kind, &object),
            Event::WatchFailed { kind, failure } => self.controller.watch_failed(&kind, failure, now),
            Event::Finished { id, outcome } => {
                self.controller.outbox().recorder.finished(id, &outcome, now.monotonic);
                self.scheduler.finish(&mut self.controller, id, outcome, now, &mut step);
            }
            Event::TimerFired => {}
        }
        if self.scheduler.is_resync_due(now) {
            self.controller.resync(now);
            self.enqueue_all(now);
        }
        self.flush(now, &mut step);
        // A pass may enqueue other keys, which may run in the same step.
        while self.controller.is_synced() && self.scheduler.can_run(now) {
            self.scheduler.run(&mut self.controller, now, &mut step);
            self.flush(now, &mut step);
        }
        step
    }

    fn deadline(&self) -> Option<Deadline> {
        let event = self.next_event.filter(|_| self.scheduler.is_leading());
        let event = event.map(|at| Deadline { at, reason: DeadlineReason::Work("event") });
        self.scheduler.deadline().into_iter().chain(event).min_by_key(|deadline| deadline.at)
    }

    fn workload(&self) -> Workload {
        let empty = |name: &&'static str| WorkQueue { name, waiting: 0, running: Vec::new() };
        let mut queues: Vec<WorkQueue> = C::RECONCILERS.iter().map(empty).collect();
        let of = |name| move |queue: &&mut WorkQueue| queue.name == name;
        for key in self.scheduler.waiting() {
            if let Some(queue) = queues.iter_mut().find(of(C::reconciler(key))) {
                queue.waiting += 1;
            }
        }
        for (key, began) in self.scheduler.running() {
            if let Some(queue) = queues.iter_mut().find(of(C::reconciler(key))) {
                queue.running.push(began);
            }
        }
        Workload { queues, concurrency: Some(self.scheduler.concurrency()) }
    }

    fn is_synced(&self) -> bool {
        self.controller.is_synced()
    }

    fn metrics(&self) -> &'static [Metric] {
        C::METRICS
    }
}

impl<C> Recordable for Operator<C>
where
    C: Control + Clone + Serialize + Send + 'static,
    C::Key: Serialize + Send + 'static,
    C::Stage: Clone + Serialize + Send + 'static,
{
    fn checkpoint(&self) -> Checkpoint {
        let state = self.clone();
        Box::new(move || serde_json::to_value(state))
    }

    fn traits(&self) -> Traits {
        C::TRAITS
    }
}

#[cfg(test)]
mod tests;
