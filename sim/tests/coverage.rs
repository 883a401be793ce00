//! The coverage of the searches of all controllers.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_sim::coverage::{Reason, View, gaps};
use lockstep_sim::{Search, Simulation, SystemUnderTest};
use lockstep_subjects as subjects;

mod allocator;

fn search(seeds: u64) -> Search {
    Search { seeds: 0..seeds, stormy: Duration::from_mins(10), keep_going: true, ..Search::default() }
}

#[test]
fn collecting_the_coverage_changes_no_run() {
    for subject in subjects::all() {
        let simulation = Simulation::new(subject);
        let blind = search(2).run(&simulation, &|_| ());
        let covered = search(2).run(&simulation.covering(), &|_| ());
        assert_eq!(blind.hash, covered.hash, "{}", subject.name());
        assert!(blind.reached.is_empty());
        assert!(!covered.reached.is_empty(), "{}", subject.name());
    }
}

#[test]
fn the_coverage_is_the_same_on_one_thread_and_on_several() {
    let subject: &dyn SystemUnderTest = subjects::all()[0];
    let simulation = Simulation::new(subjects::all()[0]).covering();
    let one = search(4).run(&simulation, &|_| ());
    let several = Search { threads: 3, ..search(4) }.run(&simulation, &|_| ());
    assert_eq!(one.reached, several.reached);
    assert_eq!(gaps(subject, &one.reached, &[]), gaps(subject, &several.reached, &[]));
}

#[test]
fn each_gap_is_a_combination_that_was_not_reached() {
    let mut views = BTreeSet::new();
    for subject in subjects::all() {
        let reached = search(4).run(&Simulation::new(subject).covering(), &|_| ()).reached;
        let gaps = gaps(subject, &reached, &[]);
        for it in reached.keys() {
            let is_gap = |never: &str| gaps.iter().any(|gap| gap.request == it.request && gap.never == never);
            assert!(!is_gap(it.met) && !is_gap(&it.view.to_string()), "{it:?}");
        }
        let requests: BTreeSet<&str> = reached.keys().map(|it| it.request.as_str()).collect();
        println!(
            "{}: {} requests, {} combinations, {} gaps",
            subject.name(),
            requests.len(),
            reached.len(),
            gaps.len()
        );
        assert!(gaps.iter().any(|gap| gap.reason == Reason::FalseAnswer), "{}", subject.name());
        views.extend(reached.keys().map(|it| it.view));
    }
    assert!(View::ALL.iter().all(|view| views.contains(view)), "{views:?}");
}
