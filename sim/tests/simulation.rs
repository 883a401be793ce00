//! Tests of the simulator itself: it is deterministic, it finds what it should, and it injects every fault during every action.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_sim::cluster::{Author, What as Happened};
use lockstep_sim::plan::{Fault, What};
use lockstep_sim::shrink::shrink;
use lockstep_sim::{Plan, Search, Simulation};
use lockstep_subjects::bugs;
use lockstep_subjects::namespaceclass::NamespaceClass;

use self::search::Searched;

mod allocator;
mod search;

/// Maximum number of seeds until each planted bug must be found.
const HUNT_MAX: u64 = 2000;
/// Maximum number of seeds until half of them must be found.
const HUNT_MEDIAN: u64 = 50;

static NAMESPACE_CLASS: Searched = Searched::new(
    &NamespaceClass,
    1000,
    &[
        1226, 1426, 1625, 1671, 1786, 2372, 2640, 3309, 3650, 3831, 4169, 4835, 4928, 6091, 6314, 7367, 7797,
        8318, 9464, 21_185, 26_953,
    ],
);

#[test]
fn every_seed_holds_every_invariant() {
    NAMESPACE_CLASS.holds();
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let simulation = Simulation::new(&NamespaceClass);
    let hash = |search: Search| search.run(&simulation, &|_| ()).hash;
    let some = |threads| hash(Search { threads, ..NAMESPACE_CLASS.search(50) });
    assert_eq!(some(1), some(2));
    let other = Search { seeds: 1..3, ..NAMESPACE_CLASS.search(3) };
    assert_ne!(hash(other), hash(NAMESPACE_CLASS.search(2)));
}

#[test]
fn every_fault_strikes_at_every_action() {
    NAMESPACE_CLASS.strikes_everywhere();
}

#[test]
fn every_planted_bug_is_found() {
    let needed = NAMESPACE_CLASS.hunt(HUNT_MAX);
    assert!(needed.len() == 59 && needed[needed.len() / 2] <= HUNT_MEDIAN);
}

#[test]
fn leadership_that_moves_twice_before_it_is_acquired_ends_with_one_leader() {
    let simulation = Simulation::new(&NamespaceClass);
    let handover = |from_ms, gap_ms| {
        let what = What::Handover { gap_ms };
        Fault { what, from_ms, until_ms: from_ms, aim: None, controller: None, per_mille: 1000, times: 1 }
    };
    let faults = vec![handover(1000, 80), handover(1060, 1)];
    let plan =
        Plan { controller: "namespaceclass".to_owned(), seed: 1, stormy_ms: 2000, standby: false, faults };
    let run = simulation.run(&plan, true);
    let mut alive = BTreeSet::new();
    for entry in run.journal {
        match entry.what {
            Happened::Started { process } => assert!(alive.insert(process)),
            Happened::Died { process } => assert!(alive.remove(&process) || process == 0),
            _ => {}
        }
    }
    // The second is another controller. The last two took over at rest.
    assert_eq!((run.violation, alive), (None, BTreeSet::from([4])));
}

/// Returns the shrunk plan of a planted bug, with that bug's simulation.
fn shrunk(simulation: &Simulation, bug: &str) -> (Simulation, Plan, &'static str) {
    let bug = bugs::all().into_iter().find(|other| other.name == bug).expect("exists");
    let planted = simulation.with_bug(bug);
    let search = NAMESPACE_CLASS.search(HUNT_MAX);
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
        // After a round trip through JSON, as a user would run it.
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
    let plan = Plan {
        controller: "namespaceclass".to_owned(),
        seed: 1,
        stormy_ms: 3_600_000,
        standby: false,
        faults: Vec::new(),
    };
    let run = simulation.run(&plan, true);
    assert_eq!((run.violation, run.struck), (None, BTreeMap::new()));
    // Then another client removes the statuses, to see them written again.
    let before = run.journal.iter().take_while(|entry| match &entry.what {
        Happened::Changed(change) => !matches!(change.by, Author::Client(_)),
        _ => true,
    });
    let requests: Vec<_> = before.filter(|entry| matches!(entry.what, Happened::Carried(_))).collect();
    let late = requests.iter().filter(|entry| entry.at > Duration::from_mins(1)).count();
    assert_eq!(late, 0, "what exists at the start is brought to its desired state at once");
    // Those of two classes, and of three namespaces with their resources.
    assert!(requests.len() < 40, "{} requests", requests.len());
}
