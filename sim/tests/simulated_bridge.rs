//! The Bridge under faults: control planes take minutes, all clients change everything, and no cluster is lost or left behind.

use lockstep_sim::{Search, Simulation};
use lockstep_subjects::bridge::Bridge;

use self::search::Searched;

mod allocator;
mod search;

/// Maximum number of seeds until each planted bug must be found.
const HUNT_MAX: u64 = 1000;

static BRIDGE: Searched =
    Searched::new(&Bridge, 200, &[317, 420, 440, 515, 524, 726, 970, 1071, 1877, 2879, 167_238_906]);

#[test]
fn every_seed_holds_every_invariant() {
    BRIDGE.holds();
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let simulation = Simulation::new(&Bridge);
    let some = |threads| Search { threads, ..BRIDGE.search(10) }.run(&simulation, &|_| ()).hash;
    assert_eq!(some(1), some(2));
}

#[test]
fn every_fault_strikes_at_every_action() {
    BRIDGE.strikes_everywhere();
}

#[test]
fn every_planted_bug_is_found() {
    assert!(BRIDGE.hunt(HUNT_MAX).len() >= 55);
}
