//! Draws a plan from a seed.

use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use lockstep_engine::random::Random;

use super::plan::{Fault, Plan, What};
use super::subject::Operation;

/// The parameters for drawing plans.
#[derive(Debug, Clone)]
pub struct Range<'a> {
    /// The controller.
    pub controller: &'a str,
    /// Duration of fault injection.
    pub stormy: Duration,
    /// The faults that may be drawn, by name; empty for all.
    pub faults: &'a [String],
    /// The operations that may be drawn.
    pub acts: &'a [Operation],
    /// The names of the actions that the controller requests.
    pub aims: &'a [&'static str],
    /// If several controllers run, their names and the actions that each requests.
    pub members: Vec<(&'static str, &'static [&'static str])>,
}

impl Range<'_> {
    /// Returns the plan of a seed: a few moments with much activity, and operations and faults around them.
    pub fn plan(&self, seed: u64) -> Plan {
        let mut random = Random::from_seed(seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(7));
        let stormy_ms = u64::try_from(self.stormy.as_millis()).unwrap_or(u64::MAX);
        let moments: Vec<u64> = (0..2 + random.below(4)).map(|_| random.below(stormy_ms)).collect();
        let names: Vec<&str> = What::NAMES
            .into_iter()
            .filter(|name| self.faults.is_empty() || self.faults.iter().any(|chosen| chosen == name))
            .collect();
        let mut draw = Draw { random, moments, stormy_ms, aims: self.aims };
        let acts = 6 + draw.below(34);
        let mut faults: Vec<Fault> = (0..acts).filter_map(|_| draw.act(self.acts)).collect();
        let count = if names.is_empty() { 0 } else { draw.below(25) };
        for _ in 0..count {
            let name = draw.pick(&names);
            let mut controller = None;
            if !self.members.is_empty() {
                let (member, aims) = draw.pick(&self.members);
                (controller, draw.aims) = (Some(member.to_owned()), aims);
            }
            faults.push(Fault { controller, ..draw.fault(name) });
        }
        faults.sort_by_key(|fault| fault.from_ms);
        let leadership_moves = names.iter().any(|name| matches!(*name, "two_leaders" | "handover"));
        let standby = leadership_moves && draw.below(4) == 0;
        Plan { controller: self.controller.to_owned(), seed, stormy_ms, standby, faults }
    }

    /// Returns the plan of a seed with more faults, each of which is injected at the first occurrence of an action. The aims are pairs
    /// of fault and action.
    pub fn aimed(&self, seed: u64, aims: &[(&str, &str)]) -> Plan {
        let mut plan = self.plan(seed);
        let random = Random::from_seed(seed);
        let mut draw = Draw { random, moments: vec![0], stormy_ms: plan.stormy_ms, aims: &[] };
        let until_ms = plan.stormy_ms;
        let mut aimed = |(fault, action): &(&str, &str)| {
            let (what, aim) = (draw.what(fault), Some((*action).to_owned()));
            Fault { what, from_ms: 0, until_ms, aim, controller: None, per_mille: 1000, times: 1 }
        };
        plan.faults.splice(0..0, aims.iter().map(&mut aimed));
        plan
    }
}

/// For how long at most a kind is said not to be served that is. It was observed for one request (kubernetes/kubernetes#71218).
const TRANSIENT_MS: u64 = 10_000;

struct Draw<'a> {
    random: Random,
    moments: Vec<u64>,
    stormy_ms: u64,
    aims: &'a [&'static str],
}

impl Draw<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.random.pick(from)
    }

    /// Returns a duration of any magnitude up to the maximum: most bugs depend on one magnitude.
    fn millis(&mut self, most: u64) -> u64 {
        let magnitude = self.below(u64::from(most.max(2).ilog2()) + 1);
        let bound = 2u64 << magnitude;
        (bound / 2 + self.below(bound / 2 + 1)).min(most)
    }

    /// Returns a time at or soon after one of the moments.
    fn time(&mut self) -> u64 {
        let moment = self.below(self.moments.len() as u64);
        let moment = self.moments[usize::try_from(moment).unwrap_or(0)];
        let after = self.millis(30_000);
        (moment + after).min(self.stormy_ms)
    }

    fn aim(&mut self) -> Option<String> {
        if self.aims.is_empty() || self.below(2) == 0 {
            return None;
        }
        let aims = self.aims;
        Some(self.pick(aims).to_owned())
    }

    fn act(&mut self, acts: &[Operation]) -> Option<Fault> {
        let total: u64 = acts.iter().map(|act| u64::from(act.weight)).sum();
        let mut lot = self.below(total);
        let act = acts.iter().find(|act| {
            let chosen = lot < u64::from(act.weight);
            lot = lot.saturating_sub(u64::from(act.weight));
            chosen
        })?;
        let what = What::Operation { name: act.name.to_owned(), seed: self.random.bits() >> 11 };
        let from_ms = self.time();
        let aim = self.aim();
        // If the targeted action never occurs, the operation would never run. So it waits only for a limited time.
        let until_ms = from_ms + if aim.is_some() { 60_000 } else { 0 };
        Some(Fault { what, from_ms, until_ms, aim, controller: None, per_mille: 1000, times: 1 })
    }

    fn fault(&mut self, name: &str) -> Fault {
        let what = self.what(name);
        let from_ms = self.time();
        let is_transient = name == ErrorKind::KindNotServed.name();
        let length = 1 + if is_transient { self.below(TRANSIENT_MS) } else { self.millis(600_000) };
        let often = what.targets_requests();
        let is_crash = matches!(what, What::CrashBefore { .. } | What::CrashAfter { .. });
        let times = if is_crash { 1 + self.below(3) } else { 1 + self.millis(64) };
        Fault {
            what,
            from_ms,
            until_ms: (from_ms + length).min(self.stormy_ms),
            aim: self.aim(),
            controller: None,
            per_mille: if often {
                [1000, 500, 100][usize::try_from(self.below(3)).unwrap_or(0)]
            } else {
                1000
            },
            times: if often { u32::try_from(times).unwrap_or(1) } else { 1 },
        }
    }

    fn what(&mut self, name: &str) -> What {
        if let Some(class) = ErrorKind::ALL.into_iter().find(|class| class.name() == name) {
            let has_retry_after =
                class == ErrorKind::Throttled || (class == ErrorKind::Unavailable && self.below(2) == 0);
            let retry_after_ms = has_retry_after.then(|| 1000 * (1 + self.below(30)));
            return What::Fail { class, retry_after_ms };
        }
        match name {
            "answer_lost" => What::AnswerLost,
            "slow_request" => What::SlowRequest { by_ms: self.millis(30_000) },
            "slow_answer" => What::SlowAnswer { by_ms: self.millis(30_000) },
            "crash_before" => What::CrashBefore { restart_ms: self.millis(60_000) },
            "crash_after" => What::CrashAfter { restart_ms: self.millis(60_000) },
            "watch_late" => What::WatchLate { by_ms: self.millis(120_000) },
            "watch_twice" => What::WatchTwice,
            "watch_cut" => What::WatchCut,
            "time_travel" => What::TimeTravel { changes: 1 + self.millis(64) },
            "compaction" => What::Compaction,
            "pause" => What::Pause { by_ms: self.millis(60_000) },
            "clock_jump" => {
                let by = i64::try_from(self.millis(86_400_000)).unwrap_or(0);
                What::ClockJump { by_ms: if self.below(2) == 0 { by } else { -by } }
            }
            "two_leaders" => What::TwoLeaders { for_ms: self.millis(60_000) },
            "handover" => What::Handover { gap_ms: self.millis(60_000) },
            _ => What::SlowControlPlane { by_ms: self.millis(300_000) },
        }
    }
}
