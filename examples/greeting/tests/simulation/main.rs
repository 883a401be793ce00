//! The greeter under faults: what other clients do, what the greeter may change, and what the cluster must look like in the end.

use std::{sync::Arc, time::Duration};

use greeting::{FINALIZER, Greeter, LABEL, LOBBY, Operator, child, config_map, greeting, is_ours};
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Name, ObjectRef, is_deleting};
use lockstep_engine::operator::{Config, Control as _};
use lockstep_engine::random::Random;
use lockstep_engine::{finalizer, yaml};
use lockstep_sim::cluster::Change;
use lockstep_sim::history::{History, Version, references};
use lockstep_sim::invariant::{Invariant, Moment};
use lockstep_sim::{ApiServer, Client, Operation, Search, Simulation, Summary, SystemUnderTest, World};
use serde_json::{Value, json};

mod explored;
mod planted;
struct Greetings;

impl SystemUnderTest for Greetings {
    fn name(&self) -> &'static str {
        Greeter::NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Operator::new(Config { seed, ..Config::default() }))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "create", "patch", "patch_status", "delete"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        let crd: Value = yaml::read(include_str!("../../greetings.yaml")).expect("valid YAML");
        client.create_kind(&crd, &["team-a", "team-b", LOBBY]);
    }

    fn operations(&self) -> &'static [Operation] {
        OPERATIONS
    }

    /// The greeter may write ConfigMaps with its label in the lobby, and the status and the finalizers of Greetings.
    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        let Change { object, old, new, .. } = change;
        let is_allowed = match &*object.kind.kind {
            "ConfigMap" => {
                object.namespace.as_deref() == Some(LOBBY) && old.iter().chain(new).all(|it| is_ours(it))
            }
            _ => old.as_ref().is_some_and(|old| new.iter().all(|new| new["spec"] == old["spec"])),
        };
        if is_allowed { Ok(()) } else { Err(format!("the greeter must not change {object} like this")) }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[Invariant {
            name: "the_finalizer_outlives_the_child",
            sentence: "The finalizer of a Greeting is removed only after its ConfigMap was deleted.",
            holds: the_finalizer_outlives_the_child,
        }]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[Greeter::BACKOFF]
    }

    fn reports(&self, server: &ApiServer) -> Vec<ObjectRef> {
        references(server, &greeting())
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let greetings = world.server.objects(&greeting());
        let wanted: Vec<ObjectRef> = greetings.iter().map(|it| child(&Name::of(it))).collect();
        let wrong = greetings.iter().filter(|it| !is_deployed(world.server, it));
        let wrong = wrong.map(|it| format!("{} is not as its spec says", Name::of(it)));
        let found = world.server.objects(&config_map()).into_iter().filter(|it| is_ours(it));
        let orphans = found.map(|it| Name::of(&it).object(&config_map())).filter(|it| !wanted.contains(it));
        orphans.map(|it| format!("{it} has no Greeting")).chain(wrong).collect()
    }
}

const TEXTS: &[&str] = &["good morning", "good evening", "good night"];
const OPERATIONS: &[Operation] = &[
    Operation::new("create a greeting", "user", 10, |client, random| {
        client.create(
            &greeting(),
            &json!({ "metadata": some_greeting(random), "spec": { "text": random.pick(TEXTS) } }),
        );
    }),
    Operation::new("change a greeting", "user", 6, |client, random| {
        client.merge(
            &some_greeting(random).object(&greeting()),
            &json!({ "spec": { "text": random.pick(TEXTS) } }),
        );
    }),
    Operation::new("delete a greeting", "user", 8, |client, random| {
        client.delete(&some_greeting(random).object(&greeting()));
    }),
    Operation::new("edit a ConfigMap", "other controller", 3, |client, random| {
        client.merge(&child(&some_greeting(random)), &json!({ "data": { "text": "theirs" } }));
    }),
    Operation::new("take over a ConfigMap", "other controller", 2, |client, random| {
        client.merge(&child(&some_greeting(random)), &json!({ "metadata": { "labels": { LABEL: null } } }));
    }),
    Operation::new("delete a ConfigMap", "other controller", 6, |client, random| {
        client.delete(&child(&some_greeting(random)));
    }),
    Operation::new("replace a ConfigMap", "other controller", 6, |client, random| {
        let target = child(&some_greeting(random));
        client.delete(&target);
        client.create(&config_map(), &json!({ "metadata": { "namespace": LOBBY, "name": target.name } }));
    }),
];

fn some_greeting(random: &mut Random) -> Name {
    Name::new(random.pick(&["team-a", "team-b"]), random.pick(&["hello", "bye"]))
}

fn is_deployed(server: &ApiServer, greeting: &Value) -> bool {
    let Some(found) = server.object(&child(&Name::of(greeting))) else { return false };
    let is_written = is_ours(found) && found["data"]["text"] == greeting["spec"]["text"];
    let ready = &greeting["status"]["conditions"][0];
    (is_written || !is_ours(found))
        && !is_deleting(greeting)
        && (ready["status"] == "True") == is_written
        && ready["observedGeneration"] == greeting["metadata"]["generation"]
}

fn the_finalizer_outlives_the_child(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let is_held = |it: &&Arc<Value>| finalizer::is_held(it, FINALIZER);
    if change.new.as_ref().is_some_and(|it| is_held(&it)) {
        return Ok(());
    }
    let Some(greeting) = change.old.as_ref().filter(is_held) else { return Ok(()) };
    let was_kept = |it: &&Version| !it.object.as_deref().is_some_and(is_deleting);
    let kept = moment.history.versions(&change.object).iter().rfind(was_kept);
    let target = child(&Name::of(greeting));
    let since = moment.history.versions_since(&target, kept.map_or(Duration::ZERO, |it| it.at));
    let was_ours = |version: &Version| version.object.as_deref().is_some_and(is_ours);
    let is_kept = !since.is_empty() && since.iter().all(was_ours);
    if is_kept { Err(format!("{target} was never deleted")) } else { Ok(()) }
}

fn search(simulation: &Simulation) -> Summary {
    Search { seeds: 0..300, ..Search::default() }.run(simulation, &|_| ())
}

#[test]
fn no_seed_fails() {
    let summary = search(&Simulation::new(&Greetings));
    assert!(summary.failures.is_empty(), "{:#?}", summary.failures);
}
