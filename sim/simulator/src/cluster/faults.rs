//! The fault model of a cluster: which faults are injected, and how long each step takes.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest};
use lockstep_engine::object::Kind;

/// The fault that is injected into one request.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultVerdict {
    /// The request is executed and answered.
    Served,
    /// The request is not executed; the answer is this failure.
    Failed(Failure),
    /// The request is executed, but the answer is lost, so the process sees an unknown outcome.
    AnswerLost,
    /// The process crashes before the request is executed.
    CrashedBefore,
    /// The process crashes after the request was executed, before the answer.
    CrashedAfter,
}

impl FaultVerdict {
    /// Returns a failure of this class, without effect on the server.
    pub fn failed(class: ErrorKind) -> Self {
        Self::Failed(Failure::new(class, "injected"))
    }
}

/// A message in transit.
#[derive(Debug, Clone, Copy)]
pub enum Transit<'a> {
    /// A request, on its way to the server.
    Request(&'a Action),
    /// An answer, on its way back.
    Answer(&'a Action),
    /// Watch events of this kind, on their way to the process.
    Watch(&'a Kind),
    /// The restart of a process after a crash.
    Restart,
}

/// Decides which faults are injected. The order of the calls follows from the run, so random draws follow from the seed. The
/// default of each method injects no fault and takes no time.
pub trait FaultModel {
    /// Returns the fault for a request that has just reached the server. The number counts the requests of the cluster.
    fn fate(&mut self, number: u64, at: Duration, process: usize, action: &Action) -> FaultVerdict {
        let _ = (number, at, process, action);
        FaultVerdict::Served
    }

    /// Returns how long a message is in transit.
    fn delay(&mut self, at: Duration, process: usize, hop: Transit<'_>) -> Duration {
        let _ = (at, process, hop);
        Duration::ZERO
    }

    /// Returns whether a request in transit reaches the server although its process has crashed.
    fn outlives(&mut self, action: &Action) -> bool {
        let _ = action;
        false
    }

    /// Returns by how many changes a list is stale.
    fn list_lag(&mut self, at: Duration, process: usize, kind: &Kind) -> u64 {
        let _ = (at, process, kind);
        0
    }

    /// Returns the failure that replaces a list of a watch, if any. The watch retries as often as necessary. This and
    /// [`FaultModel::refuses_watch`] are the only failures of a watch: it has no answer of its own, and no effect on the server.
    fn refuses_list(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        let _ = (at, process, kind);
        None
    }

    /// Returns the failure of a watch that starts after its list, if any.
    fn refuses_watch(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        let _ = (at, process, kind);
        None
    }

    /// Returns whether a watch event is delivered twice.
    fn repeats(&mut self, at: Duration, process: usize, kind: &Kind) -> bool {
        let _ = (at, process, kind);
        false
    }
}

impl<W: FaultModel + ?Sized> FaultModel for Box<W> {
    fn fate(&mut self, number: u64, at: Duration, process: usize, action: &Action) -> FaultVerdict {
        (**self).fate(number, at, process, action)
    }

    fn delay(&mut self, at: Duration, process: usize, hop: Transit<'_>) -> Duration {
        (**self).delay(at, process, hop)
    }

    fn outlives(&mut self, action: &Action) -> bool {
        (**self).outlives(action)
    }

    fn list_lag(&mut self, at: Duration, process: usize, kind: &Kind) -> u64 {
        (**self).list_lag(at, process, kind)
    }

    fn refuses_list(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        (**self).refuses_list(at, process, kind)
    }

    fn refuses_watch(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        (**self).refuses_watch(at, process, kind)
    }

    fn repeats(&mut self, at: Duration, process: usize, kind: &Kind) -> bool {
        (**self).repeats(at, process, kind)
    }
}

/// Injects no faults and no delays.
#[derive(Debug, Clone, Copy)]
pub struct NoFaults;

impl FaultModel for NoFaults {}

/// Delays the patches of the objects of a kind by ten seconds, those of their status as well, and injects no faults.
pub struct SlowPatches(pub &'static str);

impl FaultModel for SlowPatches {
    fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
        match hop {
            Transit::Request(Action::Kube(KubeRequest::Patch { target, .. }))
                if target.kind.kind == self.0 =>
            {
                Duration::from_secs(10)
            }
            _ => Duration::ZERO,
        }
    }
}

/// Delays every answer by this time, and injects no faults.
pub struct SlowAnswers(pub Duration);

impl FaultModel for SlowAnswers {
    fn delay(&mut self, _: Duration, _: usize, hop: Transit<'_>) -> Duration {
        if matches!(hop, Transit::Answer(_)) { self.0 } else { Duration::ZERO }
    }
}

/// Sets the fault of each request from its number and action, and injects no other faults.
pub struct Interference<F>(pub F);

impl<F: FnMut(u64, &Action) -> FaultVerdict> FaultModel for Interference<F> {
    fn fate(&mut self, number: u64, _: Duration, _: usize, action: &Action) -> FaultVerdict {
        (self.0)(number, action)
    }
}
