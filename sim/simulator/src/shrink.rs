//! Shrinks a failing plan to a minimal plan that fails in the same way.

use super::plan::{Fault, Plan};
use super::run::{Run, Simulation};

/// Maximum number of runs for shrinking.
const RUNS_MAX: u32 = 400;

/// A shrunk plan.
#[derive(Debug, Clone)]
pub struct Shrunk {
    /// The plan.
    pub plan: Plan,
    /// Its run, with the journal. It violates the same invariant.
    pub run: Run,
    /// Number of runs that were needed.
    pub runs: u32,
}

struct Shrinker<'a> {
    simulation: &'a Simulation,
    invariant: &'static str,
    runs: u32,
}

/// Removes faults and narrows the others, as long as the same invariant is violated. Returns none if the plan does not fail.
pub fn shrink(simulation: &Simulation, plan: &Plan) -> Option<Shrunk> {
    let invariant = simulation.run(plan, false).violation?.invariant;
    let mut shrinker = Shrinker { simulation, invariant, runs: 1 };
    let mut plan = plan.clone();
    shrinker.leave_out(&mut plan);
    shrinker.remove_standbys(&mut plan);
    shrinker.narrow(&mut plan);
    shrinker.leave_out(&mut plan);
    shrinker.end_early(&mut plan);
    let run = simulation.run(&plan, true);
    Some(Shrunk { plan, run, runs: shrinker.runs })
}

impl Shrinker<'_> {
    fn still_fails(&mut self, plan: &Plan) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        self.simulation
            .run(plan, false)
            .violation
            .is_some_and(|violation| violation.invariant == self.invariant)
    }

    /// Removes halves, quarters and so on, down to single faults.
    fn leave_out(&mut self, plan: &mut Plan) {
        let mut size = plan.faults.len().div_ceil(2).max(1);
        loop {
            let mut start = 0;
            while start < plan.faults.len() {
                let mut less = plan.clone();
                let end = (start + size).min(less.faults.len());
                less.faults.drain(start..end);
                if self.still_fails(&less) {
                    *plan = less;
                } else {
                    start += size;
                }
            }
            if size == 1 {
                return;
            }
            size = size.div_ceil(2);
        }
    }

    fn remove_standbys(&mut self, plan: &mut Plan) {
        let less = Plan { standby: false, ..plan.clone() };
        if plan.standby && self.still_fails(&less) {
            *plan = less;
        }
    }

    /// Limits each fault to one injection, and then its window to the time of that injection.
    fn narrow(&mut self, plan: &mut Plan) {
        for index in 0..plan.faults.len() {
            self.attempt(plan, index, |fault| fault.times = 1);
            self.attempt(plan, index, |fault| fault.aim = None);
            while plan.faults[index].until_ms > plan.faults[index].from_ms + 1000 {
                let halved = |fault: &mut Fault| fault.until_ms -= (fault.until_ms - fault.from_ms) / 2;
                if !self.attempt(plan, index, halved) {
                    break;
                }
            }
        }
    }

    fn attempt(&mut self, plan: &mut Plan, index: usize, change: impl Fn(&mut Fault)) -> bool {
        let mut less = plan.clone();
        change(&mut less.faults[index]);
        let fails = less != *plan && self.still_fails(&less);
        if fails {
            *plan = less;
        }
        fails
    }

    /// Ends fault injection at the last fault.
    fn end_early(&mut self, plan: &mut Plan) {
        let last = plan.faults.iter().map(|fault| fault.until_ms.max(fault.from_ms)).max().unwrap_or(0);
        let mut less = plan.clone();
        less.stormy_ms = (last + 1000).min(plan.stormy_ms);
        if self.still_fails(&less) {
            *plan = less;
        }
    }
}
