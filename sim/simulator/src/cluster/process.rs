//! One process: a machine, its requests in flight and its watches. It holds no state that would survive a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Failure, KubeRequest};
use lockstep_engine::machine::{DeadlineReason, Machine};
use lockstep_engine::object::Kind;
use lockstep_engine::wire;

use super::stream::Stream;

/// The program of a process.
pub trait Program {
    /// Returns the machine of a process that starts or restarts.
    fn machine(&self) -> Box<dyn Machine>;

    /// Returns the HTTP request of a request to the Kubernetes API.
    fn encode(&self, request: &KubeRequest, field_manager: &str) -> Result<http::Request<Vec<u8>>, Failure> {
        wire::encode(request, field_manager)
    }
}

impl<F: Fn() -> Box<dyn Machine>> Program for F {
    fn machine(&self) -> Box<dyn Machine> {
        self()
    }
}

pub(super) struct Process {
    /// The program that restarts after a crash; none for a foreign controller, which never crashes.
    pub(super) program: Option<Box<dyn Program>>,
    pub(super) machine: Box<dyn Machine>,
    /// Counts the restarts: a message for an earlier incarnation is lost.
    pub(super) incarnation: u32,
    pub(super) alive: bool,
    /// Whether it leads, now or as soon as it starts.
    pub(super) leading: bool,
    /// When this incarnation started.
    pub(super) began: Duration,
    /// Until when the process is paused, although it is alive.
    pub(super) paused_until: Duration,
    /// The messages that came while it was paused.
    pub(super) deferred: BTreeSet<u64>,
    /// Error of its wall clock, in milliseconds.
    pub(super) skew_ms: i64,
    pub(super) streams: BTreeMap<Arc<Kind>, Stream>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("process", &self.incarnation)
            .field("alive", &self.alive)
            .finish_non_exhaustive()
    }
}

impl Process {
    pub(super) fn new(
        machine: Box<dyn Machine>,
        program: Option<Box<dyn Program>>,
        leading: bool,
        at: Duration,
    ) -> Self {
        Self {
            machine,
            program,
            incarnation: 0,
            alive: true,
            leading,
            began: at,
            paused_until: Duration::ZERO,
            deferred: BTreeSet::new(),
            skew_ms: 0,
            streams: BTreeMap::new(),
        }
    }

    /// Returns whether it is a foreign controller.
    pub(super) fn is_foreign(&self) -> bool {
        self.program.is_none()
    }

    /// Returns the deadline of the machine, in the cluster's time. It ignores resyncs unless `resyncs` is set.
    pub(super) fn deadline(&self, resyncs: bool) -> Option<Duration> {
        if !self.alive {
            return None;
        }
        let deadline = self
            .machine
            .deadline()
            .filter(|deadline| resyncs || deadline.reason != DeadlineReason::Resync)?;
        Some((self.began + deadline.at.elapsed()).max(self.paused_until))
    }
}
