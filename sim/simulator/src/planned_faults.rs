//! The fault model of a plan.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest};
use lockstep_engine::object::Kind;
use lockstep_engine::random::Random;

use super::plan::{Plan, What};
use crate::cluster::{FaultModel, FaultVerdict, Transit};

/// How often each fault was injected, by the action in flight (`-` for none).
pub type Struck = BTreeMap<(&'static str, &'static str), u64>;

/// One injection of a fault of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injection {
    /// Time of the injection.
    pub at: Duration,
    /// The index of the fault in the plan.
    pub fault: usize,
    /// A description of the affected request or process.
    pub affected: String,
}

/// Decides the faults of requests from a plan.
#[derive(Debug)]
pub(super) struct PlannedFaults {
    plan: Plan,
    /// A random generator for each fault of the plan, so that removing one fault does not change the others.
    dice: Vec<Random>,
    left: Vec<u32>,
    /// Which of the lasting faults have started.
    begun: Vec<bool>,
    /// The random generator for ordinary delays.
    random: Random,
    over: bool,
    restart_ms: u64,
    /// How many changes lists are behind, and the controller whose lists these are.
    lag: Option<(u64, Option<String>)>,
    /// The controller of each process.
    controllers: BTreeMap<usize, &'static str>,
    pub(super) struck: Struck,
    pub(super) strikes: Vec<Injection>,
}

impl PlannedFaults {
    pub(super) fn new(plan: Plan) -> Self {
        let dice = |index| Random::from_seed(plan.seed.rotate_left(17) ^ (index as u64).wrapping_mul(0x9e37));
        Self {
            dice: (0..plan.faults.len()).map(dice).collect(),
            left: plan.faults.iter().map(|fault| fault.times).collect(),
            begun: vec![false; plan.faults.len()],
            random: Random::from_seed(plan.seed ^ 0x00de_1a75),
            over: false,
            restart_ms: 0,
            lag: None,
            controllers: BTreeMap::new(),
            struck: Struck::new(),
            strikes: Vec::new(),
            plan,
        }
    }

    /// Sets the controller of a process.
    pub(super) fn assign(&mut self, process: usize, controller: &'static str) {
        self.controllers.insert(process, controller);
    }

    /// Returns whether a fault of this controller, or of any, affects a process.
    fn concerns(&self, controller: Option<&String>, process: usize) -> bool {
        controller.is_none_or(|controller| self.controllers.get(&process) == Some(&controller.as_str()))
    }

    /// Ends the injection of faults.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.lag = None;
    }

    /// Makes the lists of a time travel stale until all of them are complete.
    pub(super) fn travel(&mut self, lag: Option<(u64, Option<String>)>) {
        self.lag = lag;
    }

    /// Starts a lasting fault.
    pub(super) fn begin(&mut self, fault: usize) {
        self.begun[fault] = true;
    }

    /// Returns the lasting faults of a process that are active.
    fn lasting(&self, at: Duration, process: usize) -> impl Iterator<Item = (usize, &What)> {
        let now = millis(at);
        let faults = self.plan.faults.iter().enumerate().filter(|_| !self.over);
        faults
            .filter(move |(index, fault)| {
                self.begun[*index]
                    && now < fault.until_ms
                    && self.concerns(fault.controller.as_ref(), process)
            })
            .map(|(index, fault)| (index, &fault.what))
    }

    /// Records that a fault was injected while an action was in flight.
    pub(super) fn struck(
        &mut self,
        fault: usize,
        at: Duration,
        action: Option<&'static str>,
        affected: String,
    ) {
        let name = self.plan.faults[fault].what.name();
        *self.struck.entry((name, action.unwrap_or("-"))).or_insert(0) += 1;
        self.strikes.push(Injection { at, fault, affected });
    }

    /// Returns the first fault that applies to a request now, among those that `wanted` selects.
    fn applicable(
        &mut self,
        at: Duration,
        process: usize,
        action: &Action,
        wanted: fn(&What) -> bool,
    ) -> Option<What> {
        let target = || action.target().map(ToString::to_string).unwrap_or_default();
        let wanted = |what: &What| wanted(what) && !is_a_lie(what, action);
        self.next_fault(at, process, action.name(), wanted, target)
    }

    fn next_fault(
        &mut self,
        at: Duration,
        process: usize,
        action: &'static str,
        wanted: impl Fn(&What) -> bool,
        target: impl Fn() -> String,
    ) -> Option<What> {
        if self.over {
            return None;
        }
        let now = millis(at);
        for index in 0..self.plan.faults.len() {
            let fault = &self.plan.faults[index];
            let open = self.left[index] > 0 && (fault.from_ms..fault.until_ms).contains(&now);
            let aimed = fault.aim.as_deref().is_none_or(|aim| aim == action)
                && self.concerns(fault.controller.as_ref(), process);
            if !open || !aimed || !wanted(&fault.what) {
                continue;
            }
            if self.dice[index].below(1000) < u64::from(fault.per_mille) {
                self.left[index] -= 1;
                let what = fault.what.clone();
                self.struck(index, at, Some(action), format!("{action} {}", target()));
                return Some(what);
            }
        }
        None
    }

    fn watch_delay(&self, at: Duration, process: usize, kind: &Kind) -> u64 {
        let late = self.lasting(at, process).filter_map(|(index, what)| match what {
            What::WatchLate { by_ms } => {
                // Each kind has its own delay, so that kinds overtake each other.
                let salt = kind.kind.bytes().fold(0u64, |salt, byte| salt.wrapping_mul(31) + u64::from(byte));
                let mut dice = self.dice[index].clone();
                Some(Random::from_seed(dice.bits() ^ salt).below(by_ms + 1))
            }
            _ => None,
        });
        late.max().unwrap_or(0)
    }
}

fn millis(at: Duration) -> u64 {
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

/// Returns whether a failure would be a false answer: a controller must believe from a read that there is no such object.
fn is_a_lie(what: &What, action: &Action) -> bool {
    matches!(what, What::Fail { class: ErrorKind::NotFound, .. })
        && matches!(
            action,
            Action::Kube(KubeRequest::Get { .. } | KubeRequest::List { .. } | KubeRequest::Discover { .. })
        )
}

impl FaultModel for PlannedFaults {
    fn fate(&mut self, _: u64, at: Duration, process: usize, action: &Action) -> FaultVerdict {
        let wanted = |what: &What| {
            what.targets_requests() && !matches!(what, What::SlowRequest { .. } | What::SlowAnswer { .. })
        };
        match self.applicable(at, process, action, wanted) {
            Some(What::Fail { class, retry_after_ms }) => {
                let retry_after = retry_after_ms.map(Duration::from_millis);
                FaultVerdict::Failed(Failure { retry_after, ..Failure::new(class, "injected") })
            }
            Some(What::AnswerLost) => FaultVerdict::AnswerLost,
            Some(What::CrashBefore { restart_ms }) => {
                self.restart_ms = restart_ms;
                FaultVerdict::CrashedBefore
            }
            Some(What::CrashAfter { restart_ms }) => {
                self.restart_ms = restart_ms;
                FaultVerdict::CrashedAfter
            }
            _ => FaultVerdict::Served,
        }
    }

    /// The first request of a watch fails like the others.
    fn refuses_list(&mut self, at: Duration, process: usize, kind: &Kind) -> Option<Failure> {
        let wanted = |what: &What| matches!(what, What::Fail { class: ErrorKind::KindNotServed, .. });
        let target = || kind.to_string();
        self.next_fault(at, process, "watch", wanted, target)?;
        Some(Failure::new(ErrorKind::KindNotServed, "injected"))
    }

    fn delay(&mut self, at: Duration, process: usize, hop: Transit<'_>) -> Duration {
        let millis = match hop {
            Transit::Request(action) => {
                let is_slow = |what: &What| matches!(what, What::SlowRequest { .. });
                match self.applicable(at, process, action, is_slow) {
                    Some(What::SlowRequest { by_ms }) => by_ms,
                    _ => 1 + self.random.below(15),
                }
            }
            Transit::Answer(action) => {
                let is_slow = |what: &What| matches!(what, What::SlowAnswer { .. });
                match self.applicable(at, process, action, is_slow) {
                    Some(What::SlowAnswer { by_ms }) => by_ms,
                    _ => 1 + self.random.below(15),
                }
            }
            Transit::Watch(kind) => 1 + self.random.below(40) + self.watch_delay(at, process, kind),
            Transit::Restart => self.restart_ms,
        };
        Duration::from_millis(millis)
    }

    fn outlives(&mut self, _: &Action) -> bool {
        self.random.below(2) == 0
    }

    fn list_lag(&mut self, _: Duration, process: usize, _: &Kind) -> u64 {
        let lag = self.lag.as_ref().filter(|(_, controller)| self.concerns(controller.as_ref(), process));
        lag.map_or(0, |(changes, _)| *changes)
    }

    fn repeats(&mut self, at: Duration, process: usize, _: &Kind) -> bool {
        self.lasting(at, process).any(|(_, what)| *what == What::WatchTwice)
    }
}
