//! What goes wrong in a cluster, and how long everything takes.

use std::time::Duration;

use lockstep_core::engine::action::{Action, Class, Failure};
use lockstep_core::object::Kind;

/// What becomes of one request.
#[derive(Debug, Clone, PartialEq)]
pub enum FaultVerdict {
    /// It is carried out and answered.
    Served,
    /// It is not carried out; the answer is this failure.
    Failed(Failure),
    /// It is carried out; the answer is lost, so the process learns of an unknown outcome.
    AnswerLost,
    /// The process dies before it is carried out.
    CrashedBefore,
    /// The process dies after it was carried out, before the answer.
    CrashedAfter,
}

impl FaultVerdict {
    /// A failure of a class, without effect.
    pub fn failed(class: Class) -> Self {
        Self::Failed(Failure::new(class, "injected"))
    }
}

/// Something that is under way for a while.
#[derive(Debug, Clone, Copy)]
pub enum Transit<'a> {
    /// A request, on its way to the server.
    Request(&'a Action),
    /// An answer, on its way back.
    Answer(&'a Action),
    /// What a watch of this kind has seen, on its way to the process.
    Watch(&'a Kind),
    /// A process that begins anew after a crash.
    Restart,
}

/// Decides what goes wrong. Everything that it is asked is asked in an order that follows from the run, so that whatever
/// it draws by lot follows from its seed. What is left out does not go wrong and takes no time.
pub trait FaultModel {
    /// What becomes of a request that has just reached the server. The number counts the requests of the cluster.
    fn fate(&mut self, number: u64, at: Duration, process: usize, action: &Action) -> FaultVerdict {
        let _ = (number, at, process, action);
        FaultVerdict::Served
    }

    /// How long something is under way.
    fn delay(&mut self, at: Duration, process: usize, hop: Transit<'_>) -> Duration {
        let _ = (at, process, hop);
        Duration::ZERO
    }

    /// Whether a request that is under way when its process dies reaches the server all the same.
    fn outlives(&mut self, action: &Action) -> bool {
        let _ = action;
        false
    }

    /// By how many changes the state from which a list is served lies behind.
    fn list_lag(&mut self, at: Duration, process: usize, kind: &Kind) -> u64 {
        let _ = (at, process, kind);
        0
    }

    /// What a watch meets instead of a list, if it meets anything. It tries again, as often as need be. This and
    /// [`FaultModel::refuses_watch`] are all that can befall a watch: it has no answer of its own, and no effect on the server.
    fn refuses_list(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        let _ = (at, process, kind);
        None
    }

    /// What a watch meets that is to begin after its list, if it meets anything.
    fn refuses_watch(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        let _ = (at, process, kind);
        None
    }

    /// Whether what a watch has seen is told twice.
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

/// Nothing goes wrong, nothing takes time.
#[derive(Debug, Clone, Copy)]
pub struct NoFaults;

impl FaultModel for NoFaults {}

/// Decides the fate of requests and nothing else, by their number and action.
pub struct Interference<F>(pub F);

impl<F: FnMut(u64, &Action) -> FaultVerdict> FaultModel for Interference<F> {
    fn fate(&mut self, number: u64, _: Duration, _: usize, action: &Action) -> FaultVerdict {
        (self.0)(number, action)
    }
}
