//! The Sentinel under faults: the fleet, the broker, the adapters and Kubernetes all fail, and nothing is published early,
//! twice, or not at all.

use std::sync::OnceLock;
use std::time::Duration;

use lockstep_core::engine::action::Class;
use lockstep_sim::simulation::plan::What;
use lockstep_sim::simulation::search::{Found, hunt};
use lockstep_sim::simulation::subjects::sentinel::Sentinel;
use lockstep_sim::simulation::{Search, Simulation, Subject as _, Summary, bugs};

/// How many seeds are searched.
const SEEDS: u64 = 200;
/// Within how many seeds each planted bug must be found.
const HUNT_MAX: u64 = 100;

fn search(seeds: u64) -> Search {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Search { seeds: 0..seeds, stormy: Duration::from_mins(15), faults: Vec::new(), threads, keep_going: true }
}

fn first_search() -> &'static Summary {
    static FIRST: OnceLock<Summary> = OnceLock::new();
    FIRST.get_or_init(|| search(SEEDS).run(&Simulation::new(&Sentinel), &|_| ()))
}

#[test]
fn every_seed_holds_every_invariant() {
    let summary = first_search();
    println!("{} runs, {} steps, {} requests", summary.runs, summary.steps, summary.requests);
    println!("{:.0} hours simulated, hash {}", summary.simulated.as_secs_f64() / 3600.0, summary.hash);
    let failures: Vec<String> = summary
        .failures
        .iter()
        .map(|(seed, violation)| format!("seed {seed}: {}: {}", violation.invariant, violation.seen))
        .collect();
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let some = |threads| Search { threads, ..search(10) }.run(&Simulation::new(&Sentinel), &|_| ()).hash;
    assert_eq!(some(1), some(2));
}

#[test]
fn every_fault_strikes_at_every_action() {
    let struck = &first_search().struck;
    let is_a_lie = |fault: &str, action: &str| fault == Class::NotFound.name() && action == "get";
    let simulation = Simulation::new(&Sentinel);
    let search = search(SEEDS);
    let range = search.range(&simulation);
    let mut missing = Vec::new();
    for action in Sentinel.actions() {
        for fault in What::NAMES.into_iter().filter(|fault| !is_a_lie(fault, action)) {
            // What chance left out is aimed at.
            let strikes = |seed: u64| {
                let run = simulation.run(&range.aimed(seed, fault, action), false);
                assert_eq!(run.violation, None, "{fault} at {action}, seed {seed}");
                run.struck.contains_key(&(fault, *action))
            };
            if !struck.contains_key(&(fault, *action)) && !(0..SEEDS).any(strikes) {
                missing.push(format!("{fault} at {action}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_planted_bug_is_found() {
    let simulation = Simulation::new(&Sentinel);
    let search = search(HUNT_MAX);
    let planted = bugs::all().into_iter().filter(|bug| bug.controller == Sentinel.name());
    let mut count = 0;
    for bug in planted {
        let Found { bug, found, .. } = hunt(&simulation, bug, &search);
        let (seeds, violation) = found.unwrap_or_else(|| panic!("{bug} is not found in {HUNT_MAX} seeds"));
        println!("{bug:<34} {seeds:>5}  {}", violation.invariant);
        count += 1;
    }
    assert!(count >= 12);
}
