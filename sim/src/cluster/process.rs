//! One process: a machine, its requests under way and its watches. It keeps nothing that a crash would not take.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lockstep_core::engine::action::{Action, Failure};
use lockstep_core::engine::machine::Machine;
use lockstep_core::engine::wire;
use lockstep_core::object::Kind;

use super::stream::Stream;

/// What a process runs.
pub trait Program {
    /// The machine of a process that begins, or begins anew.
    fn machine(&self) -> Box<dyn Machine>;

    /// The request by which an action is carried out.
    fn encode(&self, action: &Action, field_manager: &str) -> Result<http::Request<Vec<u8>>, Failure> {
        wire::encode(action, field_manager)
    }
}

impl<F: Fn() -> Box<dyn Machine>> Program for F {
    fn machine(&self) -> Box<dyn Machine> {
        self()
    }
}

pub(super) struct Process {
    /// What begins anew after a crash; none for a foreign controller, which never dies.
    pub(super) program: Option<Box<dyn Program>>,
    pub(super) machine: Box<dyn Machine>,
    /// Counts its lives: what was meant for an earlier one is lost.
    pub(super) life: u32,
    pub(super) alive: bool,
    /// Whether it leads, now or as soon as it begins.
    pub(super) leading: bool,
    /// When this life began.
    pub(super) began: Duration,
    /// Until when it does not run, though it lives.
    pub(super) paused_until: Duration,
    /// How far its wall clock is off, in milliseconds.
    pub(super) skew_ms: i64,
    pub(super) streams: BTreeMap<Arc<Kind>, Stream>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("life", &self.life)
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
            life: 0,
            alive: true,
            leading,
            began: at,
            paused_until: Duration::ZERO,
            skew_ms: 0,
            streams: BTreeMap::new(),
        }
    }

    /// Whether it is somebody else's.
    pub(super) fn is_foreign(&self) -> bool {
        self.program.is_none()
    }

    /// When the machine wants to be woken, in the cluster's time; resyncs only if they count.
    pub(super) fn deadline(&self, resyncs: bool) -> Option<Duration> {
        if !self.alive {
            return None;
        }
        let deadline = self.machine.deadline().filter(|deadline| resyncs || deadline.reason != "resync")?;
        Some((self.began + deadline.at.elapsed()).max(self.paused_until))
    }
}
