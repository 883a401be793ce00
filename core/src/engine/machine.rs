//! The contract between a machine in the core and whatever drives it: the shell, the simulator or a replay.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::{ActionId, Failure, Outcome, Request};
use super::trace::Span;
use crate::object::{Kind, ObjectRef};
use crate::time::{Monotonic, Now};

/// One thing that happened. Events are the only way in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The process began. Comes once, first.
    Started,
    /// This process became the leader, or is no longer. Until the first of these a machine only watches.
    LeadershipChanged {
        /// Whether it leads now.
        leading: bool,
    },
    /// A watch lists its objects anew: [`Event::Applied`] follows for each, then [`Event::ListCompleted`].
    ListStarted {
        /// The kind watched.
        kind: Arc<Kind>,
    },
    /// All objects that exist have been told since [`Event::ListStarted`]; others are gone. Where the watch that follows was
    /// refused before, this is told only once it runs.
    ListCompleted {
        /// The kind watched.
        kind: Arc<Kind>,
    },
    /// A watch saw an object: listed, added or changed.
    Applied {
        /// The kind watched.
        kind: Arc<Kind>,
        /// The object, or its metadata.
        object: Arc<Value>,
    },
    /// A watch saw an object go (or cease to match the selector).
    Deleted {
        /// The kind watched.
        kind: Arc<Kind>,
        /// Its last state.
        object: Arc<Value>,
    },
    /// A watch could not list or was refused; the driver goes on trying with backoff.
    WatchFailed {
        /// The kind watched.
        kind: Arc<Kind>,
        /// What it met.
        failure: Failure,
    },
    /// An action ended. An action without an answer is never assumed to have worked or failed.
    Finished {
        /// The request's id.
        id: ActionId,
        /// How it ended.
        outcome: Outcome,
    },
    /// The deadline has passed. Harmless at any other time.
    TimerFired,
}

/// What a step gives out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Step {
    /// To be carried out, in any order and at the same time; but those about the watch of one kind in their own order.
    pub requests: Vec<Request>,
    /// To be told: logs, metrics, the live view, and the simulator's invariants read these.
    pub notes: Vec<Note>,
}

/// Something worth telling that asks nothing of the world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A reconcile ended.
    Reconciled {
        /// Which reconciler, such as `binding`.
        reconciler: String,
        /// Which object.
        object: ObjectRef,
        /// How it ended.
        result: ReconcileResult,
        /// How long it took.
        took: Duration,
    },
    /// A condition changed its status or reason.
    ConditionChanged {
        /// Whose condition.
        object: ObjectRef,
        /// Such as `Ready`.
        condition: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// Such as `ResourcesApplied`.
        reason: String,
        /// For people.
        message: String,
        /// Whether someone should look: it became False, and not because something takes its time.
        #[serde(default)]
        warning: bool,
    },
    /// A Kubernetes Event was announced: it is written to the API server, as soon as that may be.
    EventAnnounced {
        /// The object that it is about.
        object: ObjectRef,
        /// The uid of that object.
        uid: String,
        /// Whether it is a Warning.
        warning: bool,
        /// Such as `ClassNotFound`.
        reason: String,
        /// For people.
        note: String,
    },
    /// This process became the leader, or is no longer (told by the election only).
    LeadershipChanged {
        /// Whether it leads now.
        leading: bool,
    },
    /// Something that an operator of the program should know.
    Warning {
        /// What, where and how to mend it.
        message: String,
    },
    /// Something failed that a specification wants at the level ERROR.
    Error {
        /// What failed, where and why.
        message: String,
    },
    /// What went on, for the log.
    Log {
        /// Whether only those want to know who look for the reasons of decisions.
        debug: bool,
        /// What.
        message: String,
    },
    /// A metric of the controller's own.
    Measured(Measure),
    /// Something of a trace has ended.
    Traced(Span),
}

/// A metric that has to move.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Its name, one of those that the controller declares.
    pub metric: Cow<'static, str>,
    /// The values of its labels, in the order in which it declares them.
    pub labels: Vec<String>,
    /// How it moves.
    pub by: Amount,
}

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// A counter goes up by so much.
    Add(u64),
    /// A gauge stands at this value.
    Set(u64),
    /// A histogram takes in a duration, in seconds.
    Observe(Duration),
    /// What the labels speak of is no more: the series ends.
    Forget,
}

/// A metric of a controller's own.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// How it moves.
    pub kind: MetricKind,
}

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// Up only.
    Counter,
    /// To any value.
    Gauge,
    /// By durations that fall into buckets, of which these are the upper bounds in seconds.
    Histogram(&'static [f64]),
}

/// How a reconcile ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReconcileResult {
    /// The world is as it should be, as far as this key goes.
    Converged,
    /// It will be looked at again after the delay, though nothing failed.
    Requeued {
        /// The delay.
        after: Duration,
    },
    /// It failed and will be tried again after the delay.
    Failed {
        /// Why, in words for people.
        reason: String,
        /// The backoff.
        retry_after: Duration,
        /// Whether it is for users to correct: then the controller has not failed.
        #[serde(default)]
        user_error: bool,
    },
    /// This process ceased to lead while it was under way: nothing is known of the key.
    Abandoned,
}

impl ReconcileResult {
    /// Its name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Requeued { .. } => "requeued",
            Self::Failed { user_error: true, .. } => "user_error",
            Self::Failed { .. } => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}

/// When a machine wants [`Event::TimerFired`] and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The instant.
    pub at: Monotonic,
    /// For the log.
    pub reason: &'static str,
}

/// A pure state machine that can be driven.
///
/// A driver
/// 1. delivers [`Event::Started`], once and first;
/// 2. carries out the requests of every step and delivers [`Event::Finished`] for each, in whatever order they end; what
///    is asked about the watch of one kind (`Watch`, `Unwatch`) takes effect in the order in which it was asked;
/// 3. delivers what watches see, in the order of each watch;
/// 4. reads [`Machine::deadline`] after every step and delivers [`Event::TimerFired`] once it has passed; early and spurious
///    wake-ups are harmless;
/// 5. passes readings of `now` whose monotonic part never goes back.
///
/// The same events at the same times give the same steps, byte for byte. If the process dies, nothing is lost: a new
/// machine that starts from [`Event::Started`] finds everything in the world.
pub trait Machine {
    /// The controller's name, such as `namespaceclass`.
    fn name(&self) -> &'static str;

    /// Takes one event in and gives out what follows from it.
    fn step(&mut self, event: Event, now: Now) -> Step;

    /// When to wake the machine at the latest; none if only events can change anything.
    fn deadline(&self) -> Option<Deadline>;

    /// How many keys wait in each reconciler's queue.
    fn queue_depths(&self) -> Vec<(&'static str, usize)>;

    /// Whether every watch that it began with has listed its objects at least once, and whatever else it needs to do its
    /// work is there.
    fn is_synced(&self) -> bool;

    /// The metrics that it keeps beside those that all machines have.
    fn metrics(&self) -> &'static [Metric] {
        &[]
    }

    /// How long it may go without a step before it counts as stuck, if only while it has something to do is not enough.
    fn patience(&self) -> Option<Duration> {
        None
    }
}
