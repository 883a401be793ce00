//! The DPUService controller under faults: clusters and services are created and deleted, all clients change everything, and
//! nothing is removed wrongly, left behind or deployed twice.

use lockstep_sim::{Search, Simulation};
use lockstep_subjects::dpuservice::DpuService;

use self::search::Searched;

mod allocator;
mod search;

/// Maximum number of seeds until each planted bug must be found.
const HUNT_MAX: u64 = 300;

static SERVICES: Searched = Searched::new(
    &DpuService,
    100,
    &[
        65,
        180,
        240,
        373,
        408,
        528,
        734,
        785,
        797,
        852,
        865,
        944,
        1257,
        1326,
        1382,
        1407,
        1551,
        1561,
        1809,
        2067,
        2135,
        2366,
        2762,
        3005,
        3191,
        3896,
        4338,
        5283,
        5368,
        5534,
        5746,
        5902,
        6684,
        7155,
        206_446_984,
    ],
);

#[test]
fn every_seed_holds_every_invariant() {
    SERVICES.holds();
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let simulation = Simulation::new(&DpuService);
    let some = |threads| Search { threads, ..SERVICES.search(10) }.run(&simulation, &|_| ()).hash;
    assert_eq!(some(1), some(2));
}

#[test]
fn every_fault_strikes_at_every_action() {
    SERVICES.strikes_everywhere();
}

#[test]
fn every_planted_bug_is_found() {
    assert_eq!(SERVICES.hunt(HUNT_MAX).len(), 44);
}
