//! Schedules reconciles: which key is next, what its pass waits for, and when it is retried.
//!
//! A pass over one key is a chain of stages. Each stage requests a batch of actions and continues when all of them have been
//! answered; the last one returns a verdict. A pass holds no lock and no thread, so thousands can wait at once. If a pass is
//! lost in a crash, no state is lost: the next process starts from the state of the cluster.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::action::{Action, ActionId, ErrorKind, Failure, Outcome, Request};
use super::backoff::{Backoff, Backoffs, RETRY_AFTER_MAX};
use super::machine::{Deadline, DeadlineReason, Note, ReconcileResult, Step};
use super::pairs;
use super::queue::Queue;
use crate::object::ObjectRef;
use crate::random::Random;
use crate::time::{Monotonic, Now};

/// The maximum number of empty batches in a row. A pass needs a few. With more it would block its process, so it fails.
const EMPTY_BATCHES: u32 = 1000;

/// The next action of a pass.
#[derive(Debug)]
pub enum Next<S> {
    /// Requests these actions, and continues with the stage when all are answered. An empty batch continues at once.
    Await(Vec<Action>, S),
    /// The pass has ended.
    Done(Verdict),
}

impl<S> Next<S> {
    /// Returns the same with the stage that contains this one.
    pub fn map<T>(self, stage: impl FnOnce(S) -> T) -> Next<T> {
        match self {
            Self::Await(actions, inner) => Next::Await(actions, stage(inner)),
            Self::Done(verdict) => Next::Done(verdict),
        }
    }
}

/// The result of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The key needs no further work until an event enqueues it.
    Converged,
    /// Nothing failed, but the key is reconciled again after the delay.
    Requeue(Duration),
    /// Something failed: the key is retried with backoff.
    Retry {
        /// The reason, for people.
        reason: String,
        /// The backoff, if it differs from the controller's default.
        backoff: Option<Backoff>,
        /// The longest delay until the next reconcile, for work that has not failed.
        within: Option<Duration>,
        /// Whether users must correct it: then the controller has not failed.
        user_error: bool,
    },
}

impl Verdict {
    /// Returns a retry because of a failed action.
    pub fn retry(doing: &str, failure: &Failure) -> Self {
        Self::because(format!("{doing}: {failure}"))
    }

    /// Returns a retry for this reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), backoff: None, within: None, user_error: false }
    }

    /// Returns a retry because of a failed write that depends on user input: if the API server finds it invalid, users must
    /// correct it.
    pub fn retry_for_user(doing: &str, failure: &Failure) -> Self {
        let user_error = failure.class == ErrorKind::Invalid;
        Self::Retry { reason: format!("{doing}: {failure}"), backoff: None, within: None, user_error }
    }

    /// Returns the verdict with the next reconcile after this delay at the latest, if there is one.
    #[must_use]
    pub fn within(self, delay: Option<Duration>) -> Self {
        let Some(delay) = delay else { return self };
        match self {
            Self::Converged => Self::Requeue(delay),
            Self::Requeue(after) => Self::Requeue(after.min(delay)),
            Self::Retry { reason, backoff, within, user_error } => {
                let within = Some(within.map_or(delay, |within| within.min(delay)));
                Self::Retry { reason, backoff, within, user_error }
            }
        }
    }
}

impl From<Failure> for Verdict {
    /// Retries because of a failed action.
    fn from(failure: Failure) -> Self {
        Self::because(failure.to_string())
    }
}

/// The decisions that a controller provides.
pub trait Reconcile {
    /// Identifies the object of a reconcile.
    type Key: Ord + Clone + Debug;
    /// The stage at which a pass waits, with its data.
    type Stage: Debug;

    /// Returns the reconciler's name, for logs and metrics.
    fn reconciler(key: &Self::Key) -> &'static str;

    /// Returns the object of a key, for logs.
    fn object(key: &Self::Key) -> ObjectRef;

    /// Begins a pass.
    fn begin(&mut self, key: &Self::Key, now: Now) -> Next<Self::Stage>;

    /// Continues a pass; the outcomes are in the order of the actions.
    fn resume(
        &mut self,
        key: &Self::Key,
        stage: Self::Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Self::Stage>;
}

/// The settings of a scheduler.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The maximum number of keys in flight.
    pub concurrency: usize,
    /// The interval at which every key is reconciled again.
    pub resync: Duration,
    /// The backoff of failing keys.
    pub backoff: Backoff,
    /// The seed of all jitter.
    pub seed: u64,
}

/// The queue, the passes in flight, and the expected answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, S: Serialize",
    deserialize = "K: Deserialize<'de> + Ord, S: Deserialize<'de>"
))]
pub struct PassScheduler<K, S> {
    queue: Queue<K>,
    backoffs: Backoffs<K>,
    #[serde(with = "pairs")]
    flights: BTreeMap<K, Flight<S>>,
    #[serde(with = "pairs")]
    ledger: BTreeMap<ActionId, PendingAction<K>>,
    next_id: u64,
    random: Random,
    resync: Duration,
    next_resync: Option<Monotonic>,
    leading: bool,
}

/// The pass that waits for an answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PendingAction<K> {
    key: K,
    slot: usize,
    /// Whether it comes from the API server. The `Retry-After` of other servers is left to the pass itself: it must not delay the
    /// key when the API server has changes for it.
    from_kubernetes: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flight<S> {
    stage: S,
    outcomes: Vec<Option<Outcome>>,
    pass: Pass,
}

/// The data of a pass that does not depend on its stage.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Pass {
    /// How long the key was in the queue.
    waited: Duration,
    began: Monotonic,
    /// The end of the servers' `Retry-After`.
    not_before: Monotonic,
}

impl<K: Ord + Clone + Debug, S: Debug> PassScheduler<K, S> {
    /// Returns an idle scheduler.
    pub fn new(settings: Settings) -> Self {
        Self {
            queue: Queue::new(settings.concurrency),
            backoffs: Backoffs::new(settings.backoff),
            flights: BTreeMap::new(),
            ledger: BTreeMap::new(),
            next_id: 0,
            random: Random::from_seed(settings.seed),
            resync: settings.resync,
            next_resync: None,
            leading: false,
        }
    }

    /// Enqueues a key.
    pub fn enqueue(&mut self, key: K, now: Now) {
        self.queue.add(key, now.monotonic);
    }

    /// Assigns an action the id of its answer; no pass waits for that answer.
    pub fn request(&mut self, action: Action) -> Request {
        self.next_id += 1;
        Request { id: ActionId(self.next_id), action }
    }

    /// Returns whether passes may request actions.
    pub fn is_leading(&self) -> bool {
        self.leading
    }

    /// Starts or ends leadership. A pass in flight ends when its last answer arrives, without further requests.
    pub fn set_leading(&mut self, leading: bool) {
        self.leading = leading;
    }

    /// Delivers the answer of an action. Answers that no pass waits for are ignored.
    pub fn finish<R>(&mut self, reconcile: &mut R, id: ActionId, outcome: Outcome, now: Now, step: &mut Step)
    where
        R: Reconcile<Key = K, Stage = S>,
    {
        let Some(PendingAction { key, slot, from_kubernetes }) = self.ledger.remove(&id) else { return };
        let Some(flight) = self.flights.get_mut(&key) else { return };
        if let (Err(Failure { retry_after: Some(retry_after), .. }), true) = (&outcome, from_kubernetes) {
            flight.pass.not_before =
                flight.pass.not_before.max(now.monotonic + (*retry_after).min(RETRY_AFTER_MAX));
        }
        if let Some(pending) = flight.outcomes.get_mut(slot) {
            *pending = Some(outcome);
        }
        if flight.outcomes.iter().any(Option::is_none) {
            return;
        }
        let Some(flight) = self.flights.remove(&key) else { return };
        if !self.leading {
            return self.abandon::<R>(&key, flight.pass, now, step);
        }
        let outcomes = flight.outcomes.into_iter().flatten().collect();
        let next = reconcile.resume(&key, flight.stage, outcomes, now);
        self.follow(reconcile, &key, flight.pass, next, now, step);
    }

    /// Starts every pass that can start. Call it at the end of each step.
    pub fn run<R>(&mut self, reconcile: &mut R, now: Now, step: &mut Step)
    where
        R: Reconcile<Key = K, Stage = S>,
    {
        while self.leading
            && let Some((key, waited)) = self.queue.take(now.monotonic)
        {
            let next = reconcile.begin(&key, now);
            let pass = Pass { waited, began: now.monotonic, not_before: Monotonic::START };
            self.follow(reconcile, &key, pass, next, now, step);
        }
    }

    /// Returns whether [`PassScheduler::run`] would start a pass.
    pub fn can_run(&self, now: Now) -> bool {
        self.leading && self.queue.can_take(now.monotonic)
    }

    /// Returns whether the resync is due, and schedules the next one. A standby process skips it. It reconciles every key
    /// when it becomes leader.
    pub fn is_resync_due(&mut self, now: Now) -> bool {
        let due = self.next_resync.is_some_and(|at| at <= now.monotonic);
        if due || self.next_resync.is_none() {
            self.next_resync = Some(now.monotonic + self.resync);
        }
        due && self.leading
    }

    /// Returns the time at which the scheduler needs the next timer event.
    pub fn deadline(&self) -> Option<Deadline> {
        let resync = self.next_resync.map(|at| Deadline { at, reason: DeadlineReason::Resync });
        // If no key can be taken, an answer arrives first, and its step takes the keys that are due.
        let can_start = self.leading && self.queue.has_room();
        let requeue = self
            .queue
            .next_due()
            .filter(|_| can_start)
            .map(|at| Deadline { at, reason: DeadlineReason::Requeue });
        resync.into_iter().chain(requeue).min_by_key(|deadline| deadline.at)
    }

    /// Returns the keys that wait for a free slot.
    pub fn waiting(&self) -> impl Iterator<Item = &K> {
        self.queue.waiting()
    }

    /// Returns the keys in flight, with the time at which each pass began.
    pub fn running(&self) -> impl Iterator<Item = (&K, Monotonic)> {
        self.flights.iter().map(|(key, flight)| (key, flight.pass.began))
    }

    /// Returns the maximum number of keys in flight.
    pub fn concurrency(&self) -> usize {
        self.queue.concurrency()
    }

    fn follow<R>(
        &mut self,
        reconcile: &mut R,
        key: &K,
        pass: Pass,
        mut next: Next<S>,
        now: Now,
        step: &mut Step,
    ) where
        R: Reconcile<Key = K, Stage = S>,
    {
        let mut empty = 0;
        loop {
            match next {
                Next::Await(actions, stage) if actions.is_empty() => {
                    empty += 1;
                    next = if empty > EMPTY_BATCHES {
                        Next::Done(Verdict::because("the pass continues without an action and without end"))
                    } else {
                        reconcile.resume(key, stage, Vec::new(), now)
                    };
                }
                Next::Await(actions, stage) => {
                    let outcomes = vec![None; actions.len()];
                    for (slot, action) in actions.into_iter().enumerate() {
                        let from_kubernetes = !matches!(action, Action::Registry(_));
                        let request = self.request(action);
                        self.ledger
                            .insert(request.id, PendingAction { key: key.clone(), slot, from_kubernetes });
                        step.requests.push(request);
                    }
                    self.flights.insert(key.clone(), Flight { stage, outcomes, pass });
                    return;
                }
                Next::Done(verdict) => {
                    let result = self.settle(key, verdict, pass, now);
                    step.notes.push(reconciled::<R>(key, result, pass, now));
                    return;
                }
            }
        }
    }

    /// Ends a pass of a process that no longer leads. It has no result; the next leader reconciles every key.
    fn abandon<R>(&mut self, key: &K, pass: Pass, now: Now, step: &mut Step)
    where
        R: Reconcile<Key = K, Stage = S>,
    {
        self.queue.done(key);
        step.notes.push(reconciled::<R>(key, ReconcileResult::Abandoned, pass, now));
    }

    fn settle(&mut self, key: &K, verdict: Verdict, pass: Pass, now: Now) -> ReconcileResult {
        let min_delay = pass.not_before.since(now.monotonic);
        match verdict {
            Verdict::Converged => {
                self.backoffs.reset(key);
                self.queue.done(key);
                ReconcileResult::Converged
            }
            Verdict::Requeue(after) => {
                self.backoffs.reset(key);
                let after = self.leave_alone(key, after, min_delay, now);
                ReconcileResult::Requeued { after }
            }
            Verdict::Retry { reason, backoff, within, user_error } => {
                let backoff = self.backoffs.fail(key, backoff, &mut self.random);
                let retry_after = self.leave_alone(key, backoff, min_delay, now);
                if let Some(within) = within {
                    self.queue.add_at(key.clone(), now.monotonic + within);
                }
                ReconcileResult::Failed { reason, retry_after, user_error }
            }
        }
    }

    /// Ends a pass that is to be repeated, and returns the delay. An event ends the delay early, but not a server's
    /// `Retry-After`.
    fn leave_alone(&mut self, key: &K, delay: Duration, min_delay: Duration, now: Now) -> Duration {
        let delay = delay.max(min_delay);
        if !min_delay.is_zero() {
            self.queue.hold(key.clone(), now.monotonic + min_delay);
        }
        self.queue.done(key);
        self.queue.add_at(key.clone(), now.monotonic + delay);
        delay
    }
}

fn reconciled<R: Reconcile>(key: &R::Key, result: ReconcileResult, pass: Pass, now: Now) -> Note {
    Note::Reconciled {
        reconciler: R::reconciler(key).to_owned(),
        object: R::object(key),
        result,
        waited: pass.waited,
        took: now.monotonic.since(pass.began),
    }
}

#[cfg(test)]
mod tests;
