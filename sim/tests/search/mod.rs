//! Code that the searches of all controllers share.

#![expect(clippy::print_stdout, reason = "the figures are for readers of a test's output")]

use std::sync::OnceLock;

use lockstep_sim::bugs::Bug;
use lockstep_sim::coverage::is_false_answer;
use lockstep_sim::plan::What;
use lockstep_sim::search::{Found, hunt};
use lockstep_sim::{Search, Simulation, Summary, SystemUnderTest};
use lockstep_subjects::bugs;

/// The number of seeds after which the last complete search found each planted bug: a line has the controller, the bug and the
/// number, as the tests print them.
const FOUND_AFTER: &str = include_str!("found_after.txt");

/// A controller with its number of seeds, and the seeds that once failed.
pub(super) struct Searched {
    pub(super) subject: &'static dyn SystemUnderTest,
    seeds: u64,
    once_failed: &'static [u64],
    first: OnceLock<Summary>,
}

impl Searched {
    /// `seeds` is the number in the tier `full`; `once_failed` are seeds with failures that were fixed.
    pub(super) const fn new(
        subject: &'static dyn SystemUnderTest,
        seeds: u64,
        once_failed: &'static [u64],
    ) -> Self {
        Self { subject, seeds, once_failed, first: OnceLock::new() }
    }

    /// Returns the number of seeds in the tier that `tests/run` sets in the environment: a tenth in `quick` and for mutants, but at least
    /// 10, and tenfold in `nightly`.
    pub(super) fn seeds(&self) -> u64 {
        match std::env::var("LOCKSTEP_TIER").as_deref() {
            Ok("quick" | "mutants") => (self.seeds / 10).max(10),
            Ok("nightly") => self.seeds * 10,
            _ => self.seeds,
        }
    }

    pub(super) fn search(&self, seeds: u64) -> Search {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        // Several mutants are tested at a time, and the first violation is enough.
        let threads = if is_mutant() { 1 } else { threads };
        let stormy = self.subject.stormy();
        Search { seeds: 0..seeds, stormy, faults: Vec::new(), threads, keep_going: !is_mutant() }
    }

    /// Returns the results of all seeds. They are run once, for all tests of a controller.
    pub(super) fn summary(&self) -> &Summary {
        self.first.get_or_init(|| self.search(self.seeds()).run(&Simulation::new(self.subject), &|_| ()))
    }

    /// Checks that every seed satisfies every invariant.
    pub(super) fn holds(&self) {
        let summary = self.summary();
        println!("{} runs, {} steps, {} requests", summary.runs, summary.steps, summary.requests);
        println!("{:.0} hours simulated, hash {}", summary.simulated.as_secs_f64() / 3600.0, summary.hash);
        let failed = summary.failures.iter();
        let failures: Vec<String> =
            failed.map(|(seed, it)| format!("seed {seed}: {}: {}", it.invariant, it.seen)).collect();
        assert_eq!((summary.runs, failures), (self.seeds(), Vec::new()));
        // What random seeds find is the question for mutants.
        let once_failed = if is_mutant() { &[] } else { self.once_failed };
        let simulation = Simulation::new(self.subject);
        for seed in once_failed {
            let search = Search { seeds: *seed..*seed + 1, ..self.search(1) };
            assert_eq!(search.run(&simulation, &|_| ()).failures.len(), 0, "seed {seed} fails again");
        }
    }

    /// Checks that every fault is injected during each action. Combinations that no random plan had are targeted, several in one run.
    #[allow(dead_code, reason = "too many runs where each takes seconds")]
    pub(super) fn strikes_everywhere(&self) {
        const AIMS_OF_A_RUN: usize = 6;
        let struck = &self.summary().struck;
        let simulation = Simulation::new(self.subject);
        let search = self.search(self.seeds());
        let range = search.range(&simulation);
        let actions = self.subject.actions();
        let pairs =
            What::NAMES.into_iter().flat_map(|fault| actions.iter().map(move |action| (fault, *action)));
        let mut missing: Vec<(&str, &str)> =
            pairs.filter(|pair| !struck.contains_key(pair) && !is_false_answer(pair.0, pair.1)).collect();
        let (aimed, mut runs) = (missing.len(), 0);
        for seed in 0..self.seeds() {
            let mut left = Vec::new();
            for aims in missing.chunks(AIMS_OF_A_RUN) {
                let run = simulation.run(&range.aimed(seed, aims), false);
                assert_eq!(run.violation, None, "{aims:?}, seed {seed}");
                left.extend(aims.iter().filter(|aim| !run.struck.contains_key(*aim)));
                runs += 1;
            }
            missing = left;
        }
        let total: u64 = struck.values().sum();
        println!(
            "{total} strikes by chance; {aimed} pairs of fault and action were aimed at, in {runs} runs"
        );
        assert_eq!(missing, Vec::<(&str, &str)>::new());
    }

    /// Returns the number of seeds until each planted bug is found, in ascending order. Each must be found within `seeds_max`. Below
    /// the tier `nightly`, the seed of [`FOUND_AFTER`] is tried first.
    pub(super) fn hunt(&self, seeds_max: u64) -> Vec<u64> {
        self.hunt_for(|_| true, seeds_max)
    }

    /// Does the same for the planted bugs with these names.
    pub(super) fn hunt_for(&self, is_wanted: impl Fn(&str) -> bool, seeds_max: u64) -> Vec<u64> {
        let simulation = Simulation::new(self.subject);
        let search = self.search(seeds_max);
        let is_wanted = |bug: &&'static Bug| bug.controller == self.subject.name() && is_wanted(bug.name);
        let planted: Vec<&Bug> = bugs::all().into_iter().filter(is_wanted).collect();
        let found: Vec<Found> = std::thread::scope(|scope| {
            let hunts = planted.chunks(planted.len().div_ceil(2)).map(|half| {
                let (simulation, search) = (&simulation, &search);
                scope.spawn(move || half.iter().map(|bug| find(simulation, bug, search)).collect::<Vec<_>>())
            });
            let hunts: Vec<_> = hunts.collect();
            hunts.into_iter().flat_map(|hunt| hunt.join().expect("a hunt ends")).collect()
        });
        let needed = found.into_iter().map(|Found { bug, found, .. }| {
            let (seeds, violation) =
                found.unwrap_or_else(|| panic!("{bug} is not found in {seeds_max} seeds"));
            println!("{} {bug:<34} {seeds:>5}  {}", self.subject.name(), violation.invariant);
            seeds
        });
        let mut needed: Vec<u64> = needed.collect();
        needed.sort_unstable();
        println!("{} bugs, the median within {} seeds", needed.len(), needed[needed.len() / 2]);
        needed
    }
}

/// Returns whether the tests run to notice a mutant of the core.
fn is_mutant() -> bool {
    std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "mutants")
}

/// Finds a planted bug, with the listed seed if that still finds it, or else with the first one that does.
fn find(simulation: &Simulation, bug: &'static Bug, search: &Search) -> Found {
    let is_complete = std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly");
    let lines = FOUND_AFTER.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listed = lines.filter(|line| line[..2] == [simulation.subject().name(), bug.name]);
    let mut listed = listed.filter_map(|line| line[2].parse::<u64>().ok()).filter(|_| !is_complete);
    if let Some(seeds) = listed.next() {
        let found = hunt(simulation, bug, &Search { seeds: seeds - 1..seeds, ..search.clone() });
        if let Some((_, violation)) = found.found {
            return Found { found: Some((seeds, violation)), ..found };
        }
    }
    hunt(simulation, bug, search)
}
