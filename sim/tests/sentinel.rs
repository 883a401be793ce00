//! The Sentinel under faults: the fleet, the broker, the adapters and Kubernetes all fail, and nothing is published early,
//! twice, or not at all.

use std::time::Duration;

use lockstep_sim::simulation::subjects::sentinel::Sentinel;
use lockstep_sim::simulation::{Search, Simulation};

const SEEDS: u64 = 200;

fn search(seeds: u64) -> Search {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Search { seeds: 0..seeds, stormy: Duration::from_mins(15), faults: Vec::new(), threads, keep_going: true }
}

#[test]
fn every_seed_holds_every_invariant() {
    let summary = search(SEEDS).run(&Simulation::new(&Sentinel), &|_| ());
    println!("{} runs, {} steps, {} requests", summary.runs, summary.steps, summary.requests);
    let failures: Vec<String> = summary
        .failures
        .iter()
        .map(|(seed, violation)| format!("seed {seed}: {}: {}", violation.invariant, violation.seen))
        .collect();
    assert_eq!(failures, Vec::<String>::new());
}
