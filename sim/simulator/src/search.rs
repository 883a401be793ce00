//! Runs many seeds on all processors and summarises the results.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range as Seeds};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::bugs::Bug;
use super::coverage::Reached;
use super::draw::Range;
use super::planned_faults::Struck;
use super::run::{Run, Simulation, Violation};
use super::trace::combine;

/// The parameters of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// The seeds.
    pub seeds: Seeds<u64>,
    /// Duration of fault injection in each run.
    pub stormy: Duration,
    /// The faults that may be drawn, by name; empty for all.
    pub faults: Vec<String>,
    /// Number of threads.
    pub threads: usize,
    /// Whether the search continues after a failed seed.
    pub keep_going: bool,
}

impl Default for Search {
    /// A hundred seeds with ten minutes of all faults each, on one thread, until one fails.
    fn default() -> Self {
        let stormy = Duration::from_mins(10);
        Self { seeds: 0..100, stormy, faults: Vec::new(), threads: 1, keep_going: false }
    }
}

/// The results of a search.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Number of runs.
    pub runs: u64,
    /// Number of machine steps.
    pub steps: u64,
    /// Number of requests.
    pub requests: u64,
    /// Simulated time of all runs together.
    pub simulated: Duration,
    /// How often each fault was injected, by the action in flight.
    pub struck: Struck,
    /// How often each combination was reached, if the simulation collects that.
    pub reached: Reached,
    /// The failed seeds, each with its violation.
    pub failures: BTreeMap<u64, Violation>,
    /// One hash over the traces of all seeds, in the order of the seeds.
    pub hash: String,
}

impl Search {
    /// Returns the parameters for drawing the plans of this search.
    pub fn range<'a>(&'a self, simulation: &Simulation) -> Range<'a> {
        let subject = simulation.subject();
        Range {
            controller: subject.name(),
            stormy: self.stormy,
            faults: &self.faults,
            acts: subject.operations(),
            aims: subject.actions(),
            members: subject.members().iter().map(|member| (member.name(), member.actions())).collect(),
        }
    }

    /// Runs all seeds, or all up to the first failure. `progress` receives the number of completed runs after each run.
    pub fn run(&self, simulation: &Simulation, progress: &(dyn Fn(u64) + Sync)) -> Summary {
        self.run_while(simulation, &|done| {
            progress(done);
            ControlFlow::Continue(())
        })
    }

    /// Like [`Search::run`], but `progress` returns after each run whether to continue.
    pub fn run_while(
        &self,
        simulation: &Simulation,
        progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
    ) -> Summary {
        let next = AtomicU64::new(self.seeds.start);
        let (done, failed, stopped) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        let runs: Mutex<BTreeMap<u64, Run>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    let range = self.range(simulation);
                    // A thread that has drawn a seed runs it: all seeds before a failed one are run.
                    while (self.keep_going || !failed.load(Ordering::Relaxed))
                        && !stopped.load(Ordering::Relaxed)
                    {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= self.seeds.end {
                            return;
                        }
                        let run = simulation.run(&range.plan(seed), false);
                        failed.fetch_or(run.violation.is_some(), Ordering::Relaxed);
                        if let Ok(mut runs) = runs.lock() {
                            runs.insert(seed, run);
                        }
                        let flow = progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                        stopped.fetch_or(flow.is_break(), Ordering::Relaxed);
                    }
                });
            }
        });
        let mut runs = runs.into_inner().unwrap_or_default();
        let first = runs.iter().find(|(_, run)| run.violation.is_some()).map(|(seed, _)| *seed);
        if let Some(first) = first.filter(|_| !self.keep_going) {
            // The other threads' progress at this point depends on their speed. The reported results must not.
            runs.retain(|seed, _| *seed <= first);
        }
        sum_up(runs)
    }
}

fn sum_up(runs: BTreeMap<u64, Run>) -> Summary {
    let mut summary = Summary {
        hash: combine(runs.values().map(|run| run.hash.as_str())),
        runs: runs.len() as u64,
        ..Summary::default()
    };
    for (seed, run) in runs {
        summary.steps += run.steps;
        summary.requests += run.requests;
        summary.simulated += run.simulated;
        for (fault, times) in run.struck {
            *summary.struck.entry(fault).or_insert(0) += times;
        }
        for (combination, times) in run.reached {
            *summary.reached.entry(combination).or_default() += times;
        }
        if let Some(violation) = run.violation {
            summary.failures.insert(seed, violation);
        }
    }
    summary
}

/// The result of a search for a planted bug.
#[derive(Debug, Clone)]
pub struct Found {
    /// The bug's name.
    pub bug: &'static str,
    /// Describes the bug.
    pub sentence: &'static str,
    /// The number of seeds that were needed and the violation; none if the bug was not found.
    pub found: Option<(u64, Violation)>,
}

/// Searches for a planted bug with the seeds from 0 on, and counts the seeds.
pub fn hunt(simulation: &Simulation, bug: &'static Bug, search: &Search) -> Found {
    let planted = simulation.with_bug(bug);
    let range = search.range(simulation);
    let found = search.seeds.clone().find_map(|seed| {
        let violation = planted.run(&range.plan(seed), false).violation?;
        Some((seed - search.seeds.start + 1, violation))
    });
    Found { bug: bug.name, sentence: bug.sentence, found }
}
