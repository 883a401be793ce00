//! All controllers in one cluster under faults: they share namespaces, DPUClusters and Secrets, and none harms another.

use lockstep_engine::action::ErrorKind;
use lockstep_sim::cluster::{Carried, FaultVerdict, What as Happened};
use lockstep_sim::plan::{Fault, What};
use lockstep_sim::{Plan, Search, Simulation};
use lockstep_subjects::together::Together;

use self::search::Searched;

mod allocator;
mod search;

/// Maximum number of seeds until each planted bug must be found.
const HUNT_MAX: u64 = 100;

static TOGETHER: Searched = Searched::new(
    &Together,
    20,
    &[70, 316, 583, 1160, 1521, 1623, 1625, 1933, 2221, 2660, 3029, 4793, 5249, 9194],
);

#[test]
fn every_seed_holds_every_invariant() {
    TOGETHER.holds();
}

#[test]
fn the_same_seeds_give_the_same_hash_on_any_number_of_threads() {
    let simulation = Simulation::new(&Together);
    let some = |threads| Search { threads, ..TOGETHER.search(4) }.run(&simulation, &|_| ()).hash;
    assert_eq!(some(1), some(2));
}

/// Bugs that the first seed finds, in each controller that has some, and in all. A run takes seconds, so only `nightly` hunts for all.
const SOON: [&str; 4] =
    ["ignores_new_secrets", "caches_without_the_kind", "deletes_what_it_adopted", "shares_a_lease"];

#[test]
fn planted_bugs_are_found() {
    if std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly") {
        assert_eq!(TOGETHER.hunt(HUNT_MAX).len(), 13);
    } else {
        assert_eq!(TOGETHER.hunt_for(|name| SOON.contains(&name), HUNT_MAX).len(), SOON.len());
    }
}

#[test]
fn a_fault_affects_the_controller_that_its_plan_names() {
    let fault = |what, controller: &str, times| {
        let controller = Some(controller.to_owned());
        Fault { what, from_ms: 0, until_ms: 2000, aim: None, controller, per_mille: 1000, times }
    };
    let fails = What::Fail { class: ErrorKind::Unavailable, retry_after_ms: None };
    let faults =
        vec![fault(fails, "namespaceclass", 3), fault(What::Handover { gap_ms: 1000 }, "dpuservice", 1)];
    let plan = Plan { controller: "together".to_owned(), seed: 1, stormy_ms: 2000, standby: false, faults };
    let run = Simulation::new(&Together).run(&plan, true);
    let (mut started, mut died, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in &run.journal {
        match &entry.what {
            Happened::Started { process } => started.push(run.controllers[process]),
            Happened::Died { process } => died.push(run.controllers[process]),
            Happened::Carried(Carried { process, fate: FaultVerdict::Failed(_), .. }) => {
                failed.push(run.controllers[process]);
            }
            _ => {}
        }
    }
    // At rest, new leaders take over twice.
    let all = ["bridge", "dpuservice", "namespaceclass", "sentinel"];
    assert_eq!(started, [&all[..], &["dpuservice"], &all[..], &all[..]].concat());
    assert_eq!(died, [&["dpuservice"], &all[..], &all[..]].concat());
    assert_eq!((run.violation, failed), (None, vec!["namespaceclass"; 3]));
}
