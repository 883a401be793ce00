//! The Sentinel under faults: the fleet, the broker, the adapters and Kubernetes all fail, and each event is published once, and
//! not early.

use lockstep_sim::{Search, Simulation};
use lockstep_subjects::sentinel::Sentinel;

use self::search::Searched;

mod allocator;
mod search;

/// Maximum number of seeds until each planted bug must be found.
const HUNT_MAX: u64 = 100;

static SENTINEL: Searched = Searched::new(&Sentinel, 100, &[191, 240, 473, 735, 41_901_829]);

#[test]
fn every_seed_holds_every_invariant() {
    SENTINEL.holds();
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let simulation = Simulation::new(&Sentinel);
    let some = |threads| Search { threads, ..SENTINEL.search(10) }.run(&simulation, &|_| ()).hash;
    assert_eq!(some(1), some(2));
}

#[test]
fn every_fault_strikes_at_every_action() {
    SENTINEL.strikes_everywhere();
}

#[test]
fn every_planted_bug_is_found() {
    assert!(SENTINEL.hunt(HUNT_MAX).len() >= 29);
}
