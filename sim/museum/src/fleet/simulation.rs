//! The fleet under faults.

use std::sync::Arc;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Kind, Name, ObjectRef, metadata};
use lockstep_engine::random::Random;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::History;
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use lockstep_sim::{ApiServer, Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::{CLUSTER, CLUSTERS, Fleet, cluster};
use crate::controller::Controller as _;
use crate::kinds::{self, NAMESPACES, app, app_of, belongs_to, owner, secret, some_name, worker};
use crate::process::{BACKOFF, Process};
use crate::rules::{is_abandoned, was_ever};

impl SystemUnderTest for Fleet {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Process::new(*self, seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "list", "create", "patch", "delete"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        kinds::create(client, &app(), &[NAMESPACES[0], NAMESPACES[1], CLUSTERS]);
        kinds::create(client, &worker(), &[]);
        for name in ["east", "west"] {
            register(client, name);
        }
    }

    fn operations(&self) -> &'static [Operation] {
        OPERATIONS
    }

    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        let Change { object, old, new, .. } = change;
        let is_allowed = object.kind == worker() && old.iter().chain(new).all(|it| owner(it).is_some());
        if is_allowed { Ok(()) } else { Err(format!("the fleet must not change {object} like this")) }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[Invariant {
            name: "a_worker_of_a_cluster_is_kept",
            sentence: "A Worker is deleted only if its App or its cluster was deleted.",
            holds: a_worker_of_a_cluster_is_kept,
        }]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    fn calm(&self, client: &mut dyn Client) {
        client.permit_all_watches(&watched());
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let (apps, workers) = (world.server.objects(&app()), world.server.objects(&worker()));
        let clusters = world.server.objects(&secret());
        let clusters = clusters.iter().filter(|it| metadata(it, "namespace") == CLUSTERS);
        let clusters: Vec<&str> = clusters.map(|it| metadata(it, "name")).collect();
        let mut found = Vec::new();
        for app in &apps {
            for name in &clusters {
                let own = workers.iter().filter(|it| belongs_to(it, app) && cluster(it) == *name);
                let own: Vec<&Arc<Value>> = own.collect();
                let is_right = matches!(own[..], [it] if it["spec"]["text"] == app["spec"]["text"]);
                if !is_right {
                    found.push(format!("{} has {} workers for {name}", Name::of(app), own.len()));
                }
            }
        }
        let is_extra = |it: &&Arc<Value>| {
            !clusters.contains(&cluster(it)) || !apps.iter().any(|app| belongs_to(it, app))
        };
        found.extend(workers.iter().filter(is_extra).map(|it| format!("{} is not needed", Name::of(it))));
        found
    }
}

const TEXTS: &[&str] = &["one", "two", "three"];
const OPERATIONS: &[Operation] = &[
    Operation::new("create an app", "user", 10, |client, random| {
        let name = some_name(random);
        let metadata = json!({ "namespace": name.namespace, "name": name.name });
        client.create(&app(), &json!({ "metadata": metadata, "spec": { "text": random.pick(TEXTS) } }));
    }),
    Operation::new("change an app", "user", 4, |client, random| {
        let patch = json!({ "spec": { "text": random.pick(TEXTS) } });
        client.merge(&some_name(random).object(&app()), &patch);
    }),
    Operation::new("delete an app", "user", 5, |client, random| {
        client.delete(&some_name(random).object(&app()));
    }),
    Operation::new("register a cluster", "user", 6, |client, random| {
        register(client, some_cluster(random));
    }),
    Operation::new("delete a cluster", "user", 5, |client, random| {
        client.delete(&ObjectRef::namespaced(&secret(), CLUSTERS, some_cluster(random)));
    }),
    Operation::new("revoke a permission", "administrator", 3, |client, random| {
        client.forbid_a_watch(&watched(), random);
    }),
    Operation::new("grant permissions", "administrator", 4, |client, _| {
        client.permit_all_watches(&watched());
    }),
    Operation::new("delete a worker", "other controller", 4, |client, random| {
        if let Some(found) = client.any(&worker(), random) {
            client.delete(&Name::of(&found).object(&worker()));
        }
    }),
];

/// Returns the kinds that may not be watched at times.
fn watched() -> [Arc<Kind>; 3] {
    [app(), secret(), worker()]
}

fn some_cluster(random: &mut Random) -> &'static str {
    random.pick(&["east", "north", "west"])
}

fn register(client: &mut dyn Client, name: &str) {
    let metadata = json!({ "namespace": CLUSTERS, "name": name, "labels": { CLUSTER: "registered" } });
    client.create(&secret(), &json!({ "metadata": metadata }));
}

fn a_worker_of_a_cluster_is_kept(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let Some(old) = change.old.as_ref().filter(|_| is_deletion(change)) else { return Ok(()) };
    let Some(app) = app_of(old).map(|app| app.object(&kinds::app())) else { return Ok(()) };
    let registration = ObjectRef::namespaced(&secret(), CLUSTERS, cluster(old));
    let (object, history) = (&change.object, moment.history);
    let was_unneeded = was_ever(history, &app, object, old, |app| is_abandoned(app, old))
        || was_ever(history, &registration, object, old, |secret| secret.is_none());
    if was_unneeded { Ok(()) } else { Err(format!("{object} was needed all the time")) }
}
