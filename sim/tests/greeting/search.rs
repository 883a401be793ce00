//! The search: the greeter withstands it, and each planted bug does not.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use lockstep_sim::bugs::Bug;
use lockstep_sim::{Search, Simulation, Summary, shrink};

use super::bugs::{CHILDREN_UNWATCHED, DELETES_BY_NAME, FINALIZER_FIRST};
use super::subject::Greetings;

fn search(seeds: Range<u64>) -> Search {
    Search { seeds, stormy: Duration::from_mins(10), faults: Vec::new(), threads: 2, keep_going: false }
}

/// The first failure of a search, cut down to what matters.
fn story(simulation: &Simulation, search: &Search, summary: &Summary) -> String {
    let Some(seed) = summary.failures.keys().next() else { return "nothing failed".to_owned() };
    let plan = search.range(simulation).plan(*seed);
    let Some(shrunk) = shrink::shrink(simulation, &plan) else { return format!("seed {seed} fails no more") };
    let mut story =
        format!("seed {seed}, of {} faults {} remain:\n", plan.faults.len(), shrunk.plan.faults.len());
    for fault in &shrunk.plan.faults {
        let _ = writeln!(story, "  {fault}");
    }
    for strike in &shrunk.run.strikes {
        let _ = writeln!(
            story,
            "  struck after {:?}: {} {}",
            strike.at, shrunk.plan.faults[strike.fault].what, strike.befell
        );
    }
    if let Some(violation) = &shrunk.run.violation {
        let _ = writeln!(story, "  violated after {:?}: {}", violation.at, violation.invariant);
        let _ = writeln!(story, "    rule: {}\n    seen: {}", violation.sentence, violation.seen);
    }
    story
}

#[test]
fn no_seed_breaks_the_greeter() {
    let simulation = Simulation::new(&Greetings);
    let search = search(0..300);
    let summary = search.run(&simulation, &|_| ());
    assert!(summary.failures.is_empty(), "{}", story(&simulation, &search, &summary));
    assert_eq!(summary.runs, 300);
}

/// What finds a bug among the first seeds, and how that is told.
fn found(bug: &'static Bug, seeds: u64) -> (Option<&'static str>, String) {
    let simulation = Simulation::new(&Greetings).with_bug(bug);
    let search = search(0..seeds);
    let summary = search.run(&simulation, &|_| ());
    let invariant = summary.failures.values().next().map(|violation| violation.invariant);
    (invariant, format!("{}: {}", bug.name, story(&simulation, &search, &summary)))
}

#[test]
fn a_finalizer_that_goes_first_is_found() {
    let (invariant, story) = found(&FINALIZER_FIRST, 10);
    println!("{story}");
    assert_eq!(invariant, Some("the_finalizer_outlives_the_child"), "{story}");
}

#[test]
fn a_delete_by_name_is_found() {
    let (invariant, story) = found(&DELETES_BY_NAME, 300);
    println!("{story}");
    assert_eq!(invariant, Some("nothing_foreign_is_touched"), "{story}");
}

#[test]
fn children_that_nobody_watches_are_found() {
    let (invariant, story) = found(&CHILDREN_UNWATCHED, 10);
    println!("{story}");
    assert_eq!(invariant, Some("desired_state_is_reached"), "{story}");
}
