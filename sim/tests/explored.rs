//! Explores small worlds of the NamespaceClass operator: completely without a bug, and with planted bugs, each of which must be found.

#![expect(clippy::print_stdout, reason = "the figures are for readers of a test's output")]

use std::ops::ControlFlow;
use std::time::Instant;

use lockstep_sim::subject::SmallWorld;
use lockstep_sim::{Exploration, Timeline};
use lockstep_subjects::bugs;
use lockstep_subjects::namespaceclass::NamespaceClass;
use lockstep_subjects::namespaceclass::small::{LABELLED, ONE_NAMESPACE, TWO_NAMESPACES};

mod allocator;

/// Explores the world with a bug, and checks that a run of this many operations and faults violates an invariant.
fn finds(bug: &str, small: &SmallWorld, faults: usize, invariant: &str) {
    let began = Instant::now();
    let bug = bugs::all().into_iter().find(|it| it.name == bug).expect("a bug of that name");
    let exploration = Exploration { faults, reduced: true };
    let explored = exploration.run(&NamespaceClass, small, Some(bug), &|_| ControlFlow::Continue(()));
    let failure = explored.failure.unwrap_or_else(|| panic!("{} is found", bug.name));
    let violation = failure.run.violation.as_ref().expect("a violation");
    println!(
        "{}: {}, {} transitions, {} states, {:?}",
        bug.name,
        violation.invariant,
        failure.transitions,
        explored.states,
        began.elapsed()
    );
    assert_eq!(violation.invariant, invariant);
    assert!(Timeline::of(&failure.plan, &failure.run).text().contains("label namespace red"));
}

/// Explores all runs of the world without faults. None violates an invariant.
fn holds(small: &SmallWorld) {
    let exploration = Exploration { faults: 0, reduced: true };
    let explored = exploration.run(&NamespaceClass, small, None, &|_| ControlFlow::Continue(()));
    println!("{}: {} states, {} transitions", small.name, explored.states, explored.transitions);
    let shown = explored.failure.as_ref().map(|failure| Timeline::of(&failure.plan, &failure.run).text());
    assert!(explored.is_complete, "{}", shown.unwrap_or_default());
}

#[test]
fn every_order_of_a_labelled_namespace_reaches_the_desired_state() {
    holds(&LABELLED);
}

/// Takes a minute.
#[test]
fn every_order_of_a_changed_class_reaches_the_desired_state() {
    if std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly") {
        holds(&ONE_NAMESPACE);
    }
}

#[test]
fn a_resource_that_is_never_pruned_is_found() {
    finds("never_prunes", &ONE_NAMESPACE, 0, "desired_state_is_reached");
}

#[test]
fn events_that_are_lost_while_busy_are_found() {
    finds("events_are_lost_while_busy", &ONE_NAMESPACE, 0, "desired_state_is_reached");
}

#[test]
fn a_resource_that_is_created_before_it_is_listed_is_found() {
    finds("no_status_ahead", &ONE_NAMESPACE, 0, "created_resources_are_listed_first");
}

#[test]
fn a_bug_is_found_with_two_namespaces() {
    finds("no_status_ahead", &TWO_NAMESPACES, 0, "created_resources_are_listed_first");
}

#[test]
fn an_unknown_outcome_that_counts_as_success_is_found() {
    finds("unknown_is_success", &ONE_NAMESPACE, 1, "applied_means_existed");
}
