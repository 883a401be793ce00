//! Drives reconciles: which key is next, what its pass waits for, when it is tried again.
//!
//! A pass over one key is a chain of stages. Each stage asks for a batch of actions and goes on when all of them have
//! been answered; the last one gives a verdict. A pass holds no lock and no thread, so thousands can wait at once, and a
//! pass that is lost in a crash leaves nothing behind: the next process begins from the world.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::action::{Action, ActionId, Class, Failure, Outcome, Request};
use super::backoff::{Backoff, Backoffs, RETRY_AFTER_MAX};
use super::machine::{Deadline, Note, ReconcileResult, Step};
use super::pairs;
use super::queue::Queue;
use crate::object::ObjectRef;
use crate::random::Random;
use crate::time::{Monotonic, Now};

/// What a pass does next.
#[derive(Debug)]
pub enum Next<S> {
    /// It asks for these actions and goes on with the stage when all are answered. An empty batch goes on at once.
    Await(Vec<Action>, S),
    /// It is over.
    Done(Verdict),
}

/// How a pass ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// Nothing is left to do until an event says otherwise.
    Converged,
    /// Nothing failed, but the key is to be looked at again after the delay.
    Requeue(Duration),
    /// Something failed: try again with backoff.
    Retry {
        /// Why, in words for people.
        reason: String,
        /// How delays grow, if not as is usual for the controller.
        backoff: Option<Backoff>,
        /// After what time the key is to be looked at again at the latest, for something that has not failed.
        within: Option<Duration>,
        /// Whether it is for users to correct: then the controller has not failed.
        user_error: bool,
    },
}

impl Verdict {
    /// A retry because of a failed action.
    pub fn retry(doing: &str, failure: &Failure) -> Self {
        Self::because(format!("{doing}: {failure}"))
    }

    /// A retry for this reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), backoff: None, within: None, user_error: false }
    }

    /// A retry because of a failed write of what follows from something that a user wrote: if the API server finds it invalid,
    /// it is for the user to correct.
    pub fn retry_for_user(doing: &str, failure: &Failure) -> Self {
        let user_error = failure.class == Class::Invalid;
        Self::Retry { reason: format!("{doing}: {failure}"), backoff: None, within: None, user_error }
    }
}

/// What a controller provides: the decisions.
pub trait Reconcile {
    /// Names what is reconciled.
    type Key: Ord + Clone + Debug;
    /// What a pass waits for, with all that it carries along.
    type Stage: Debug;

    /// The reconciler's name, for logs and metrics.
    fn reconciler(key: &Self::Key) -> &'static str;

    /// The object that a key stands for, for logs.
    fn object(key: &Self::Key) -> ObjectRef;

    /// Begins a pass.
    fn begin(&mut self, key: &Self::Key, now: Now) -> Next<Self::Stage>;

    /// Goes on with a pass; the outcomes are in the order of the actions.
    fn resume(
        &mut self,
        key: &Self::Key,
        stage: Self::Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Self::Stage>;
}

/// How a driver is set up.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How many keys may be in flight at a time.
    pub concurrency: usize,
    /// How often every key is looked at again.
    pub resync: Duration,
    /// How long a failing key is left alone.
    pub backoff: Backoff,
    /// From which all jitter follows.
    pub seed: u64,
}

/// The queue, the passes in flight, and the ledger of actions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, S: Serialize",
    deserialize = "K: Deserialize<'de> + Ord, S: Deserialize<'de>"
))]
pub struct Driver<K, S> {
    queue: Queue<K>,
    backoffs: Backoffs<K>,
    #[serde(with = "pairs")]
    flights: BTreeMap<K, Flight<S>>,
    #[serde(with = "pairs")]
    ledger: BTreeMap<ActionId, Awaited<K>>,
    next_id: u64,
    random: Random,
    resync: Duration,
    next_resync: Option<Monotonic>,
    leading: bool,
}

/// Whose answer it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Awaited<K> {
    key: K,
    slot: usize,
    /// Whether it comes from the API server. What any other server wishes is for the pass to heed: it must not keep the
    /// key from what the API server has for it.
    from_kubernetes: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Flight<S> {
    stage: S,
    outcomes: Vec<Option<Outcome>>,
    pass: Pass,
}

/// What is known of a pass whatever its stage.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Pass {
    began: Monotonic,
    /// Until when servers have asked to be left alone.
    not_before: Monotonic,
}

impl<K: Ord + Clone + Debug, S: Debug> Driver<K, S> {
    /// A driver with nothing to do.
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

    /// Asks for a key to be reconciled.
    pub fn enqueue(&mut self, key: K) {
        self.queue.add(key);
    }

    /// Gives an action the id under which its answer will come; nobody waits for that answer.
    pub fn request(&mut self, action: Action) -> Request {
        self.next_id += 1;
        Request { id: ActionId(self.next_id), action }
    }

    /// Whether passes may ask for actions.
    pub fn is_leading(&self) -> bool {
        self.leading
    }

    /// Begins or ceases to lead. A pass in flight ends when its last answer comes, without asking for more.
    pub fn set_leading(&mut self, leading: bool) {
        self.leading = leading;
    }

    /// An action was answered. Answers that nobody waits for are ignored.
    pub fn finish<R>(&mut self, reconcile: &mut R, id: ActionId, outcome: Outcome, now: Now, step: &mut Step)
    where
        R: Reconcile<Key = K, Stage = S>,
    {
        let Some(Awaited { key, slot, from_kubernetes }) = self.ledger.remove(&id) else { return };
        let Some(flight) = self.flights.get_mut(&key) else { return };
        if let (Err(Failure { retry_after: Some(wish), .. }), true) = (&outcome, from_kubernetes) {
            flight.pass.not_before = flight.pass.not_before.max(now.monotonic + (*wish).min(RETRY_AFTER_MAX));
        }
        if let Some(awaited) = flight.outcomes.get_mut(slot) {
            *awaited = Some(outcome);
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

    /// Starts every pass that may start. To be called at the end of each step.
    pub fn run<R>(&mut self, reconcile: &mut R, now: Now, step: &mut Step)
    where
        R: Reconcile<Key = K, Stage = S>,
    {
        while self.leading
            && let Some(key) = self.queue.take(now.monotonic)
        {
            let next = reconcile.begin(&key, now);
            let pass = Pass { began: now.monotonic, not_before: Monotonic::START };
            self.follow(reconcile, &key, pass, next, now, step);
        }
    }

    /// Whether [`Driver::run`] would start a pass.
    pub fn can_run(&self, now: Now) -> bool {
        self.leading && self.queue.can_take(now.monotonic)
    }

    /// Whether the time has come to look at every key again; the next time is set with it. Who stands by lets it pass, and looks
    /// at every key when it begins to lead.
    pub fn is_resync_due(&mut self, now: Now) -> bool {
        let due = self.next_resync.is_some_and(|at| at <= now.monotonic);
        if due || self.next_resync.is_none() {
            self.next_resync = Some(now.monotonic + self.resync);
        }
        due && self.leading
    }

    /// When the driver wants to be woken.
    pub fn deadline(&self) -> Option<Deadline> {
        let resync = self.next_resync.map(|at| Deadline { at, reason: "resync" });
        // Where no key can be taken, an answer comes first, and its step takes what has become due.
        let can_start = self.leading && self.queue.has_room();
        let requeue =
            self.queue.next_due().filter(|_| can_start).map(|at| Deadline { at, reason: "requeue" });
        resync.into_iter().chain(requeue).min_by_key(|deadline| deadline.at)
    }

    /// The keys that wait for a place.
    pub fn waiting(&self) -> impl Iterator<Item = &K> {
        self.queue.waiting()
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
        loop {
            match next {
                Next::Await(actions, stage) if actions.is_empty() => {
                    next = reconcile.resume(key, stage, Vec::new(), now);
                }
                Next::Await(actions, stage) => {
                    let outcomes = vec![None; actions.len()];
                    for (slot, action) in actions.into_iter().enumerate() {
                        let from_kubernetes = !matches!(action, Action::ResolveImage { .. });
                        let request = self.request(action);
                        self.ledger.insert(request.id, Awaited { key: key.clone(), slot, from_kubernetes });
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

    /// Ends a pass whose process no longer leads: it has found out nothing, and every key is looked at by who leads next.
    fn abandon<R>(&mut self, key: &K, pass: Pass, now: Now, step: &mut Step)
    where
        R: Reconcile<Key = K, Stage = S>,
    {
        self.queue.done(key);
        step.notes.push(reconciled::<R>(key, ReconcileResult::Abandoned, pass, now));
    }

    fn settle(&mut self, key: &K, verdict: Verdict, pass: Pass, now: Now) -> ReconcileResult {
        let wish = pass.not_before.since(now.monotonic);
        match verdict {
            Verdict::Converged => {
                self.backoffs.reset(key);
                self.queue.done(key);
                ReconcileResult::Converged
            }
            Verdict::Requeue(after) => {
                self.backoffs.reset(key);
                let after = self.leave_alone(key, after, wish, now);
                ReconcileResult::Requeued { after }
            }
            Verdict::Retry { reason, backoff, within, user_error } => {
                let backoff = self.backoffs.fail(key, backoff, &mut self.random);
                let retry_after = self.leave_alone(key, backoff, wish, now);
                if let Some(within) = within {
                    self.queue.add_at(key.clone(), now.monotonic + within);
                }
                ReconcileResult::Failed { reason, retry_after, user_error }
            }
        }
    }

    /// Ends a pass that is to be repeated, and returns after what time. An event cuts the delay short, but not the wish
    /// of a server.
    fn leave_alone(&mut self, key: &K, delay: Duration, wish: Duration, now: Now) -> Duration {
        let delay = delay.max(wish);
        if !wish.is_zero() {
            self.queue.hold(key.clone(), now.monotonic + wish);
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
        took: now.monotonic.since(pass.began),
    }
}

#[cfg(test)]
#[path = "driver/tests.rs"]
mod tests;
