//! Every run of the greeter in small worlds.

use std::ops::ControlFlow;
use std::time::Instant;

use greeting::{Operator, child, config_map, greeting};
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::operator::Config;
use lockstep_sim::explorable::Explorable;
use lockstep_sim::{
    Client, Exploration, Explored, Operation, SmallWorld, SystemUnderTest as _, Timeline, User,
};
use serde_json::json;

use super::Greetings;
use super::planted::DELETES_BY_NAME;

/// Two Greetings, each created.
const BOTH_CREATED: SmallWorld = SmallWorld {
    name: "two Greetings are created",
    machine,
    prepare: |client| Greetings.prepare(client),
    external: Vec::new,
    outside: || None,
    users: &[
        User { part: Some("team-a"), operations: &[CREATE_A] },
        User { part: Some("team-b"), operations: &[CREATE_B] },
    ],
    part,
};

/// One Greeting, created, changed and deleted.
const ONE_GREETING: SmallWorld = SmallWorld {
    name: "a Greeting is created, changed and deleted",
    users: &[User { part: Some("team-a"), operations: &[CREATE_A, CHANGE_A, DELETE_A] }],
    ..BOTH_CREATED
};

/// One Greeting, created.
const CREATED: SmallWorld = SmallWorld {
    name: "a Greeting is created",
    users: &[User { part: Some("team-a"), operations: &[CREATE_A] }],
    ..BOTH_CREATED
};

/// A Greeting that is created and deleted, and another client that replaces its ConfigMap.
const REPLACED: SmallWorld = SmallWorld {
    name: "a Greeting is created and deleted, and its ConfigMap is replaced",
    users: &[
        User { part: Some("team-a"), operations: &[CREATE_A, DELETE_A] },
        User { part: Some("team-a"), operations: &[REPLACE_A] },
    ],
    ..BOTH_CREATED
};

const CREATE_A: Operation =
    Operation::new("create team-a/hello", "user", 1, |client, _| create(client, "team-a"));
const CREATE_B: Operation =
    Operation::new("create team-b/hello", "user", 1, |client, _| create(client, "team-b"));
const CHANGE_A: Operation =
    Operation::new("change team-a/hello", "user", 1, |client, _| change(client, "team-a"));
const DELETE_A: Operation =
    Operation::new("delete team-a/hello", "user", 1, |client, _| delete(client, "team-a"));
const REPLACE_A: Operation =
    Operation::new("replace the ConfigMap", "other controller", 1, |client, _| replace(client, "team-a"));

fn machine(seed: u64) -> Box<dyn Explorable> {
    Box::new(Operator::new(Config { seed, ..Config::default() }))
}

fn part(object: &ObjectRef) -> Option<&'static str> {
    let is_of = |team: &str| object.namespace.as_deref() == Some(team) || object.name.starts_with(team);
    ["team-a", "team-b"].into_iter().find(|team| is_of(team))
}

fn hello(team: &str) -> Name {
    Name::new(team, "hello")
}

fn create(client: &mut dyn Client, team: &str) {
    let metadata = json!({ "namespace": team, "name": "hello" });
    client.create(&greeting(), &json!({ "metadata": metadata, "spec": { "text": "good morning" } }));
}

fn change(client: &mut dyn Client, team: &str) {
    client.merge(&hello(team).object(&greeting()), &json!({ "spec": { "text": "good evening" } }));
}

fn delete(client: &mut dyn Client, team: &str) {
    client.delete(&hello(team).object(&greeting()));
}

fn replace(client: &mut dyn Client, team: &str) {
    let target = child(&hello(team));
    client.delete(&target);
    client.create(
        &config_map(),
        &json!({ "metadata": { "namespace": target.namespace, "name": target.name } }),
    );
}

fn explore(small: &SmallWorld, faults: usize, reduced: bool) -> Explored {
    let began = Instant::now();
    let explored =
        Exploration { faults, reduced }.run(&Greetings, small, None, &|_| ControlFlow::Continue(()));
    let Explored { states, transitions, depth, .. } = explored;
    println!("{states} states, {transitions} transitions, depth {depth}, {:?}", began.elapsed());
    explored
}

fn assert_complete(explored: &Explored) {
    let shown = explored.failure.as_ref().map(|failure| Timeline::of(&failure.plan, &failure.run).text());
    assert!(explored.is_complete, "{}", shown.unwrap_or_default());
}

#[test]
fn every_order_of_one_greeting_reaches_the_desired_state() {
    assert_complete(&explore(&ONE_GREETING, 0, true));
}

#[test]
fn every_placement_of_one_fault_on_a_created_greeting_reaches_the_desired_state() {
    assert_complete(&explore(&CREATED, 1, true));
}

/// Takes minutes.
#[test]
fn every_placement_of_two_faults_on_a_created_greeting_reaches_the_desired_state() {
    if std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly") {
        assert_complete(&explore(&CREATED, 2, true));
    }
}

#[test]
fn the_reduction_keeps_all_final_states() {
    let [reduced, whole] = [true, false].map(|reduced| explore(&BOTH_CREATED, 0, reduced));
    assert_complete(&reduced);
    assert_complete(&whole);
    assert_eq!(reduced.finals, whole.finals);
}

#[test]
fn each_exploration_visits_the_same_states() {
    let counts = || {
        let Explored { states, transitions, depth, finals, .. } = explore(&BOTH_CREATED, 0, false);
        (states, transitions, depth, finals.len())
    };
    assert_eq!(counts(), counts());
}

#[test]
fn a_deletion_by_name_is_found() {
    let exploration = Exploration { faults: 0, reduced: true };
    let explored =
        exploration.run(&Greetings, &REPLACED, Some(&DELETES_BY_NAME), &|_| ControlFlow::Continue(()));
    let failure = explored.failure.expect("the bug is found");
    let violation = failure.run.violation.as_ref().expect("a violation");
    assert_eq!(violation.invariant, "only_own_objects_are_changed");
    let text = Timeline::of(&failure.plan, &failure.run).text();
    assert!(text.contains("replace the ConfigMap"), "{text}");
}
