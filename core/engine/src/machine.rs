//! The contract between a machine in the core and its driver: the shell, the simulator or a replay.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::action::{ActionId, Failure, Outcome, Request};
use super::trace::Span;
use crate::object::{Kind, ObjectRef, Uid};
use crate::time::{Monotonic, Now};

/// An event. Events are the only input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// The process began. It is delivered once, and first.
    Started,
    /// This process became the leader, or no longer is. Until the first of these a machine only watches.
    LeadershipChanged {
        /// Whether it leads now.
        leading: bool,
    },
    /// A watch lists its objects again: [`Event::Applied`] follows for each, then [`Event::ListCompleted`].
    ListStarted {
        /// The kind watched.
        kind: Arc<Kind>,
    },
    /// All existing objects have been delivered since [`Event::ListStarted`]; others are gone. If the watch that follows was
    /// refused before, this event is delivered only once it runs.
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
    /// A watch saw that an object was deleted (or no longer matches the selector).
    Deleted {
        /// The kind watched.
        kind: Arc<Kind>,
        /// Its last state.
        object: Arc<Value>,
    },
    /// A watch could not list or was refused; the driver retries with backoff.
    WatchFailed {
        /// The kind watched.
        kind: Arc<Kind>,
        /// The failure.
        failure: Failure,
    },
    /// An action ended. An action without an answer is assumed neither to have worked nor to have failed.
    Finished {
        /// The request's id.
        id: ActionId,
        /// Its result.
        outcome: Outcome,
    },
    /// The deadline has passed. Harmless at any other time.
    TimerFired,
}

impl Event {
    /// Returns the kind of a watch event.
    pub fn kind(&self) -> Option<&Arc<Kind>> {
        match self {
            Self::ListStarted { kind }
            | Self::ListCompleted { kind }
            | Self::Applied { kind, .. }
            | Self::Deleted { kind, .. }
            | Self::WatchFailed { kind, .. } => Some(kind),
            Self::Started | Self::LeadershipChanged { .. } | Self::Finished { .. } | Self::TimerFired => None,
        }
    }
}

/// The output of a step.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[must_use]
pub struct Step {
    /// Requests to execute, in any order and concurrently. Requests about the watch of one kind are executed in their order.
    pub requests: Vec<Request>,
    /// Notes for logs, metrics, the live view, and the simulator's invariants.
    pub notes: Vec<Note>,
}

/// Information that requests no action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A reconcile ended.
    Reconciled {
        /// Which reconciler, such as `binding`.
        reconciler: String,
        /// Which object.
        object: ObjectRef,
        /// Its result.
        result: ReconcileResult,
        /// How long its key was in the work queue before.
        waited: Duration,
        /// How long it took.
        took: Duration,
    },
    /// A condition changed its status or reason.
    ConditionChanged {
        /// The object with the condition.
        object: ObjectRef,
        /// Such as `Ready`.
        condition: String,
        /// `True`, `False` or `Unknown`.
        status: String,
        /// Such as `ResourcesApplied`.
        reason: String,
        /// For people.
        message: String,
        /// Whether people should investigate: it became False, and not because of work in progress.
        #[serde(default)]
        warning: bool,
    },
    /// A Kubernetes Event was announced: it is written to the API server as soon as possible.
    EventAnnounced {
        /// The object that it is about.
        object: ObjectRef,
        /// The uid of that object.
        uid: Uid,
        /// Whether it is a Warning.
        warning: bool,
        /// Such as `ClassNotFound`.
        reason: String,
        /// For people.
        note: String,
    },
    /// This process became the leader, or no longer is (sent by the election only).
    LeadershipChanged {
        /// Whether it leads now.
        leading: bool,
    },
    /// A warning for the people who run the program.
    Warning {
        /// What failed, on which object, and how to fix it.
        message: String,
    },
    /// A failure that a specification requires to be logged at the level ERROR.
    Error {
        /// What failed, and why.
        message: String,
        /// The object that it is about, and others that it refers to: fields of the line in the log.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        objects: Vec<ObjectRef>,
    },
    /// A message for the log.
    Log {
        /// Whether it is needed only to understand the reasons of decisions.
        debug: bool,
        /// The message.
        message: String,
        /// The object that it is about, and others that it refers to: fields of the line in the log.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        objects: Vec<ObjectRef>,
    },
    /// A broker has confirmed an event.
    Published {
        /// The id of the event.
        event: String,
        /// The type of the resource that it is about.
        resource_type: String,
        /// The id of the resource.
        resource: String,
    },
    /// A metric of the controller's own.
    Measured(Measure),
    /// A span of a trace has ended.
    Traced(Span),
}

impl Note {
    /// Returns a message for the log that is about no object.
    pub fn info(message: String) -> Self {
        Self::Log { debug: false, message, objects: Vec::new() }
    }

    /// Returns a message that is needed only to understand the reasons of decisions, and is about no object.
    pub fn debug(message: String) -> Self {
        Self::Log { debug: true, message, objects: Vec::new() }
    }
}

/// A change of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Its name, one of those that the controller declares.
    pub metric: Cow<'static, str>,
    /// The values of its labels, in the order in which it declares them.
    pub labels: Vec<String>,
    /// The change.
    pub by: Amount,
}

/// The change of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Amount {
    /// A counter increases by this value.
    Add(u64),
    /// A gauge is set to this value.
    Set(u64),
    /// A histogram observes a duration, in seconds.
    Observe(Duration),
    /// The object that the labels name no longer exists: the series ends.
    Forget,
}

/// A metric that a controller declares.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its help text.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Its type.
    pub kind: MetricKind,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MetricKind {
    /// It only increases.
    Counter,
    /// It can be set to any value.
    Gauge,
    /// It counts durations in buckets; these are the upper bounds in seconds.
    Histogram(&'static [f64]),
}

/// The result of a reconcile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReconcileResult {
    /// The desired state of this key is reached.
    Converged,
    /// It will be reconciled again after the delay, although nothing failed.
    Requeued {
        /// The delay.
        after: Duration,
    },
    /// It failed and will be retried after the delay.
    Failed {
        /// The reason, for people.
        reason: String,
        /// The backoff.
        retry_after: Duration,
        /// Whether users must correct it: then the controller has not failed.
        #[serde(default)]
        user_error: bool,
    },
    /// This process stopped leading during the pass: the state of the key is unknown.
    Abandoned,
}

impl ReconcileResult {
    /// Returns its name in logs and metrics.
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

/// The work of a machine at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its work queues, one for each reconciler.
    pub queues: Vec<WorkQueue>,
    /// The maximum number of items in progress; `None` if the machine does not reconcile keys.
    pub concurrency: Option<usize>,
}

/// A work queue at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkQueue {
    /// The name of its reconciler.
    pub name: &'static str,
    /// The number of items that wait for a free worker. Delayed items are not included.
    pub waiting: usize,
    /// When the reconciles in progress began.
    pub running: Vec<Monotonic>,
}

/// The time of the next [`Event::TimerFired`], and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The instant.
    pub at: Monotonic,
    /// The reason.
    pub reason: DeadlineReason,
}

/// Why a machine needs a timer event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineReason {
    /// Every key is reconciled again. A cluster in which machines wait for nothing else is at rest.
    Resync,
    /// A key is reconciled again after its delay.
    Requeue,
    /// Other work; its name is for the log.
    Work(&'static str),
}

impl DeadlineReason {
    /// Returns its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Requeue => "requeue",
            Self::Work(name) => name,
        }
    }
}

/// A pure state machine that a driver runs.
///
/// A driver
/// 1. delivers [`Event::Started`], once and first;
/// 2. executes the requests of every step and delivers [`Event::Finished`] for each, in whatever order they end; requests
///    about the watch of one kind (`Watch`, `Unwatch`) take effect in the order in which they were made;
/// 3. delivers the events of watches, in the order of each watch;
/// 4. reads [`Machine::deadline`] after every step and delivers [`Event::TimerFired`] once it has passed; early and spurious
///    wake-ups are harmless;
/// 5. passes readings of `now` with a monotonic reading that never decreases.
///
/// The same events at the same times give the same steps, byte for byte. If the process crashes, nothing is lost: a new
/// machine that starts from [`Event::Started`] reads all state from the cluster.
pub trait Machine {
    /// Returns the controller's name, such as `namespaceclass`.
    fn name(&self) -> &'static str;

    /// Processes one event and returns the resulting step.
    fn step(&mut self, event: Event, now: Now) -> Step;

    /// Returns the latest time of the next timer event; `None` if only other events can change anything.
    fn deadline(&self) -> Option<Deadline>;

    /// Returns what waits and what is in progress; nothing for a machine without a work queue.
    fn workload(&self) -> Workload {
        Workload::default()
    }

    /// Returns whether every initial watch has listed its objects at least once, and all other prerequisites of the machine
    /// are met.
    fn is_synced(&self) -> bool;

    /// Returns the metrics that it has beside those of all machines.
    fn metrics(&self) -> &'static [Metric] {
        &[]
    }

    /// Returns how long it may go without a step before it counts as stuck. `None` means that it is checked only while it has
    /// work.
    fn patience(&self) -> Option<Duration> {
        None
    }
}

/// A machine that changes the input or the output of another one. Everything else is as in the inner machine.
pub trait Wrapper {
    /// Returns the inner machine.
    fn inner(&self) -> &dyn Machine;

    /// Processes one event, like [`Machine::step`].
    fn step(&mut self, event: Event, now: Now) -> Step;

    /// Returns the latest time of the next timer event, like [`Machine::deadline`].
    fn deadline(&self) -> Option<Deadline> {
        self.inner().deadline()
    }

    /// Returns what waits and what is in progress, like [`Machine::workload`].
    fn workload(&self) -> Workload {
        self.inner().workload()
    }
}

impl<W: Wrapper> Machine for W {
    fn name(&self) -> &'static str {
        self.inner().name()
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        Wrapper::step(self, event, now)
    }

    fn deadline(&self) -> Option<Deadline> {
        Wrapper::deadline(self)
    }

    fn workload(&self) -> Workload {
        Wrapper::workload(self)
    }

    fn is_synced(&self) -> bool {
        self.inner().is_synced()
    }

    fn metrics(&self) -> &'static [Metric] {
        self.inner().metrics()
    }

    fn patience(&self) -> Option<Duration> {
        self.inner().patience()
    }
}

#[cfg(test)]
mod tests;
