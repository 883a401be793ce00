//! Explores small worlds of the controllers: completely without a bug, and with planted bugs, each of which must be found.

#![expect(clippy::print_stdout, reason = "the figures are for readers of a test's output")]

use std::ops::ControlFlow;
use std::time::Instant;

use lockstep_sim::bugs::Bug;
use lockstep_sim::{Exploration, Explored, SmallWorld, SystemUnderTest, Timeline};
use lockstep_subjects::bridge::Bridge;
use lockstep_subjects::dpuservice::DpuService;
use lockstep_subjects::namespaceclass::NamespaceClass;
use lockstep_subjects::namespaceclass::small::{LABELLED, ONE_NAMESPACE, TWO_NAMESPACES};
use lockstep_subjects::sentinel::Sentinel;
use lockstep_subjects::{bridge, bugs, dpuservice, sentinel};

mod allocator;

/// Explores the world with a bug, and checks that a run with the first operation and this many faults violates an invariant.
fn finds(
    bug: &str,
    subject: &'static dyn SystemUnderTest,
    small: &SmallWorld,
    faults: usize,
    invariant: &str,
) {
    let began = Instant::now();
    let is_planted = |it: &&'static Bug| it.name == bug && it.controller == subject.name();
    let bug = bugs::all().into_iter().find(is_planted).expect("a bug of that name");
    let exploration = Exploration { faults, reduced: true };
    let explored = exploration.run(subject, small, Some(bug), &|_| ControlFlow::Continue(()));
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
    let operation = small.users[0].operations[0].name;
    assert!(Timeline::of(&failure.plan, &failure.run).text().contains(operation), "no {operation}");
}

/// Explores all runs of the world with at most this number of faults. None violates an invariant.
fn holds(subject: &'static dyn SystemUnderTest, small: &SmallWorld, faults: usize) {
    let exploration = Exploration { faults, reduced: true };
    let explored = exploration.run(subject, small, None, &|_| ControlFlow::Continue(()));
    let Explored { states, transitions, .. } = &explored;
    println!("{}, {faults} faults: {states} states, {transitions} transitions", small.name);
    let shown = explored.failure.as_ref().map(|failure| Timeline::of(&failure.plan, &failure.run).text());
    assert!(explored.is_complete, "{}", shown.unwrap_or_default());
}

#[test]
fn every_order_of_a_labelled_namespace_reaches_the_desired_state() {
    holds(&NamespaceClass, &LABELLED, 0);
}

#[test]
fn every_order_of_a_created_service_reaches_the_desired_state() {
    holds(&DpuService, &dpuservice::small::CREATED, 0);
    holds(&DpuService, &dpuservice::small::RESTORED, 0);
}

#[test]
fn every_order_of_a_created_bridge_reaches_the_desired_state() {
    holds(&Bridge, &bridge::small::CREATED, 0);
}

#[test]
fn every_order_of_a_polled_fleet_reaches_the_desired_state() {
    holds(&Sentinel, &sentinel::small::POLLED, 0);
    holds(&Sentinel, &sentinel::small::CREATED, 0);
    holds(&Sentinel, &sentinel::small::DISCONNECTED, 0);
    holds(&Sentinel, &sentinel::small::REPLACED, 0);
}

/// Takes minutes.
#[test]
fn every_order_of_more_operations_and_faults_reaches_the_desired_state() {
    if std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly") {
        holds(&NamespaceClass, &ONE_NAMESPACE, 0);
        holds(&DpuService, &dpuservice::small::DELETED, 0);
        holds(&Sentinel, &sentinel::small::REDIRECTED, 0);
        holds(&Sentinel, &sentinel::small::POLLED, 1);
    }
}

#[test]
fn a_resource_that_is_never_pruned_is_found() {
    finds("never_prunes", &NamespaceClass, &ONE_NAMESPACE, 0, "desired_state_is_reached");
}

#[test]
fn events_that_are_lost_while_busy_are_found() {
    finds("events_are_lost_while_busy", &NamespaceClass, &ONE_NAMESPACE, 0, "desired_state_is_reached");
}

#[test]
fn a_resource_that_is_created_before_it_is_listed_is_found() {
    finds("no_status_ahead", &NamespaceClass, &ONE_NAMESPACE, 0, "created_resources_are_listed_first");
}

#[test]
fn a_bug_is_found_with_two_namespaces() {
    finds("no_status_ahead", &NamespaceClass, &TWO_NAMESPACES, 0, "created_resources_are_listed_first");
}

#[test]
fn an_unknown_outcome_that_counts_as_success_is_found() {
    finds("unknown_is_success", &NamespaceClass, &ONE_NAMESPACE, 1, "applied_means_existed");
}

#[test]
fn reports_of_argo_cd_that_are_ignored_are_found() {
    let world = &dpuservice::small::CREATED;
    finds("ignores_argocd_events", &DpuService, world, 0, "desired_state_is_reached");
}

#[test]
fn a_bridge_without_a_finalizer_is_found() {
    let world = &bridge::small::CREATED;
    finds("never_adds_the_finalizer", &Bridge, world, 0, "the_finalizer_is_added_first");
}

#[test]
fn events_that_count_before_they_are_confirmed_are_found() {
    let world = &sentinel::small::DISCONNECTED;
    finds("counts_what_is_sent", &Sentinel, world, 0, "published_is_counted_when_confirmed");
}
