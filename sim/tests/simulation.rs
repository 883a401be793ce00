//! The simulator itself: is it deterministic, does it find what it should, does it strike everywhere?

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use lockstep_core::engine::action::Class;
use lockstep_sim::simulation::plan::What;
use lockstep_sim::simulation::search::{Found, hunt};
use lockstep_sim::simulation::shrink::shrink;
use lockstep_sim::simulation::subjects::namespaceclass::NamespaceClass;
use lockstep_sim::simulation::{Plan, Search, Simulation, Subject as _, Summary, bugs};

/// How many seeds are searched.
const SEEDS: u64 = 1000;
/// Within how many seeds each planted bug must be found.
const HUNT_MAX: u64 = 2000;
/// Within how many seeds half of them must be found.
const HUNT_MEDIAN: u64 = 50;

fn search(seeds: u64) -> Search {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Search { seeds: 0..seeds, stormy: Duration::from_hours(1), faults: Vec::new(), threads, keep_going: true }
}

fn first_search() -> &'static Summary {
    static FIRST: OnceLock<Summary> = OnceLock::new();
    FIRST.get_or_init(|| search(SEEDS).run(&Simulation::new(&NamespaceClass), &|_| ()))
}

#[test]
fn a_thousand_seeds_hold_every_invariant() {
    let summary = first_search();
    println!("{} runs, {} steps, {} requests", summary.runs, summary.steps, summary.requests);
    println!("{:.0} hours simulated, hash {}", summary.simulated.as_secs_f64() / 3600.0, summary.hash);
    assert_eq!(summary.runs, SEEDS);
    let failures: Vec<String> = summary
        .failures
        .iter()
        .map(|(seed, violation)| format!("seed {seed}: {}: {}", violation.invariant, violation.seen))
        .collect();
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let again = Search { threads: 1, ..search(SEEDS) };
    assert_eq!(again.run(&Simulation::new(&NamespaceClass), &|_| ()).hash, first_search().hash);
    let other = Search { seeds: 1..3, ..search(3) }.run(&Simulation::new(&NamespaceClass), &|_| ());
    assert_ne!(other.hash, search(2).run(&Simulation::new(&NamespaceClass), &|_| ()).hash);
}

#[test]
fn every_fault_strikes_at_every_action() {
    let struck = &first_search().struck;
    let is_a_lie =
        |fault: &str, action: &str| fault == Class::NotFound.name() && matches!(action, "get" | "discover");
    let simulation = Simulation::new(&NamespaceClass);
    let search = search(SEEDS);
    let range = search.range(&simulation);
    let (mut missing, mut aimed) = (Vec::new(), 0);
    for action in NamespaceClass.actions() {
        for fault in What::NAMES.into_iter().filter(|fault| !is_a_lie(fault, action)) {
            // What chance left out is aimed at.
            let strikes = |seed: u64| {
                let run = simulation.run(&range.aimed(seed, fault, action), false);
                assert_eq!(run.violation, None, "{fault} at {action}, seed {seed}");
                run.struck.contains_key(&(fault, action))
            };
            if struck.contains_key(&(fault, action)) {
                continue;
            }
            aimed += 1;
            if !(0..SEEDS).any(strikes) {
                missing.push(format!("{fault} at {action}"));
            }
        }
    }
    println!("{aimed} of the pairs of fault and action were aimed at, the others met by chance");
    let total: u64 = struck.values().sum();
    println!(
        "{total} strikes, {} kinds of faults at {} actions",
        What::NAMES.len(),
        NamespaceClass.actions().len()
    );
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_planted_bug_is_found() {
    let simulation = Simulation::new(&NamespaceClass);
    let search = search(HUNT_MAX);
    let found: Vec<Found> = std::thread::scope(|scope| {
        let planted: Vec<_> =
            bugs::all().into_iter().filter(|bug| bug.controller == NamespaceClass.name()).collect();
        let halves: Vec<_> = planted.chunks(planted.len().div_ceil(2)).map(<[_]>::to_vec).collect();
        let hunts = halves.into_iter().map(|half| {
            let (simulation, search) = (simulation.clone(), search.clone());
            scope.spawn(move || {
                half.into_iter().map(|bug| hunt(&simulation, bug, &search)).collect::<Vec<_>>()
            })
        });
        let hunts: Vec<_> = hunts.collect();
        hunts.into_iter().flat_map(|hunt| hunt.join().expect("a hunt ends")).collect()
    });
    let mut needed = Vec::new();
    for Found { bug, found, .. } in &found {
        let (seeds, violation) =
            found.as_ref().unwrap_or_else(|| panic!("{bug} is not found in {HUNT_MAX} seeds"));
        println!("{bug:<34} {seeds:>5}  {}", violation.invariant);
        needed.push(*seeds);
    }
    needed.sort_unstable();
    let median = needed[needed.len() / 2];
    println!("{} bugs, the median within {median} seeds", needed.len());
    assert!(needed.len() >= 20 && median <= HUNT_MEDIAN);
}

/// The shrunk plan of a planted bug, with that bug's simulation.
fn shrunk(simulation: &Simulation, bug: &str) -> (Simulation, Plan, &'static str) {
    let bug = bugs::all().into_iter().find(|other| other.name == bug).expect("exists");
    let planted = simulation.with_bug(bug);
    let search = search(HUNT_MAX);
    let range = search.range(simulation);
    let failing =
        (0..HUNT_MAX).map(|seed| range.plan(seed)).find(|plan| planted.run(plan, false).violation.is_some());
    let failing = failing.expect("is found");
    let shrunk = shrink(&planted, &failing).expect("fails");
    assert!(shrunk.plan.faults.len() <= failing.faults.len());
    let invariant = shrunk.run.violation.expect("still fails").invariant;
    (planted, shrunk.plan, invariant)
}

#[test]
fn a_shrunk_plan_fails_by_itself_and_passes_without_the_bug() {
    let simulation = Simulation::new(&NamespaceClass);
    for bug in ["never_prunes", "deletions_are_missed", "never_ceases_to_lead", "no_label"] {
        let (planted, plan, invariant) = shrunk(&simulation, bug);
        println!("{bug}: {} faults remain", plan.faults.len());
        // Stored and read again, as a user would run it.
        let plan: Plan =
            serde_json::from_str(&serde_json::to_string(&plan).expect("JSON")).expect("reads back");
        let run = planted.run(&plan, false);
        assert_eq!(run.violation.map(|violation| violation.invariant), Some(invariant), "{bug}");
        assert_eq!(simulation.run(&plan, false).violation, None, "{bug}: without it the plan passes");
    }
}

#[test]
fn without_faults_and_acts_nothing_happens() {
    let simulation = Simulation::new(&NamespaceClass);
    let plan =
        Plan { controller: "namespaceclass".to_owned(), seed: 1, stormy_ms: 3_600_000, faults: Vec::new() };
    let run = simulation.run(&plan, true);
    assert_eq!((run.violation, run.struck), (None, BTreeMap::new()));
    assert!(run.requests < 20, "{} requests", run.requests);
}
