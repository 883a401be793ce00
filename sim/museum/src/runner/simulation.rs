//! The runner under faults.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Name, is_deleting};
use lockstep_engine::random::Random;
use lockstep_sim::cluster::{Author, Change};
use lockstep_sim::history::History;
use lockstep_sim::invariant::{Invariant, Moment};
use lockstep_sim::{ApiServer, Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::{Runner, has_status, is_current};
use crate::controller::Controller as _;
use crate::kinds::{self, NAMESPACES, app, app_of, owner, some_name, worker};
use crate::kubelet::Kubelet;
use crate::process::{BACKOFF, Process};
use crate::rules::{last_read, was_always};

/// Longer than the request of a process that has crashed is in transit.
const TRANSIT_MAX: Duration = Duration::from_secs(35);

impl SystemUnderTest for Runner {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Process::new(*self, seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "create", "patch_status", "delete"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        kinds::create(client, &app(), &NAMESPACES);
        kinds::create(client, &worker(), &[]);
    }

    fn operations(&self) -> &'static [Operation] {
        OPERATIONS
    }

    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        vec![Box::new(Process::new(Kubelet, seed))]
    }

    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        let Change { object, old, new, .. } = change;
        let is_allowed = if object.kind == worker() {
            old.iter().chain(new).all(|it| owner(it).is_some())
        } else {
            old.iter().any(|old| new.iter().all(|new| old["spec"] == new["spec"]))
        };
        if is_allowed { Ok(()) } else { Err(format!("the runner must not change {object} like this")) }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[
            Invariant {
                name: "what_is_done_is_not_run_again",
                sentence: "No Worker is created for a generation that the status reports as done.",
                holds: what_is_done_is_not_run_again,
            },
            Invariant {
                name: "a_finished_worker_is_not_replaced",
                sentence: "The controller does not delete a finished Worker and run its generation again.",
                holds: a_finished_worker_is_not_replaced,
            },
        ]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let (apps, workers) = (world.server.objects(&app()), world.server.objects(&worker()));
        let waiting = apps.iter().filter(|app| !has_status(app, "done"));
        let waiting = waiting.map(|app| format!("{} is not done", Name::of(app)));
        let extra = workers.iter().filter(|it| !apps.iter().any(|app| is_current(it, app)));
        extra.map(|it| format!("{} is not needed", Name::of(it))).chain(waiting).collect()
    }
}

const OPERATIONS: &[Operation] = &[
    Operation::new("create an app", "user", 10, |client, random| {
        let name = some_name(random);
        let metadata = json!({ "namespace": name.namespace, "name": name.name });
        client.create(&app(), &json!({ "metadata": metadata, "spec": { "text": some_text(random) } }));
    }),
    Operation::new("change an app", "user", 10, |client, random| {
        change(client, random, |text| json!({ "spec": { "text": text } }));
    }),
    Operation::new("label an app", "user", 5, |client, random| {
        change(client, random, |text| json!({ "metadata": { "labels": { "team": text } } }));
    }),
    Operation::new("delete an app", "user", 2, |client, random| {
        client.delete(&some_name(random).object(&app()));
    }),
    Operation::new("delete finished workers", "other controller", 12, |client, _| {
        for found in client.server().objects(&worker()) {
            if found["status"]["ready"] == true {
                client.delete(&Name::of(&found).object(&worker()));
            }
        }
    }),
];

/// Changes one of the Apps.
fn change(client: &mut dyn Client, random: &mut Random, patch: fn(&str) -> Value) {
    if let Some(found) = client.any(&app(), random) {
        client.merge(&Name::of(&found).object(&app()), &patch(some_text(random)));
    }
}

fn some_text(random: &mut Random) -> &'static str {
    random.pick(&["one", "two", "three"])
}

fn what_is_done_is_not_run_again(moment: &Moment<'_>) -> Result<(), String> {
    let (Some((process, _)), Some(created)) = (moment.entry.by_process(), creation(moment)) else {
        return Ok(());
    };
    let Some(app) = app_of(created).map(|app| app.object(&kinds::app())) else { return Ok(()) };
    let was_done = |app: Option<&Value>| {
        app.is_some_and(|app| is_current(created, app) && has_status(app, "done") && !is_deleting(app))
    };
    let versions = moment.history.versions(&app).iter();
    let done = versions.rev().take_while(|version| was_done(version.object.as_deref())).last();
    let is_old = done.is_some_and(|done| done.at + TRANSIT_MAX < moment.entry.at);
    if is_old && was_always(moment.history, process, &app, was_done) {
        Err(format!("{app} was done when it was read"))
    } else {
        Ok(())
    }
}

fn a_finished_worker_is_not_replaced(moment: &Moment<'_>) -> Result<(), String> {
    let (Some((process, _)), Some(created)) = (moment.entry.by_process(), creation(moment)) else {
        return Ok(());
    };
    let app = app_of(created).map(|app| app.object(&kinds::app()));
    let Some(read) = app.and_then(|app| last_read(moment.history, process, &app)) else { return Ok(()) };
    let generation = |it: &Value| (owner(it).map(str::to_owned), it["spec"]["generation"].clone());
    let is_same = |it: &Arc<Value>| generation(it) == generation(created);
    let versions = moment.history.versions(&Name::of(created).object(&worker())).iter();
    let mut versions = versions.filter(|version| version.object.as_ref().is_some_and(is_same));
    let deleted = versions.find(|version| version.object.as_deref().is_some_and(is_deleting));
    let finished = deleted.filter(|it| it.object.iter().any(|it| it["status"]["ready"] == true));
    // A process that still considers itself the leader may have sent the creation before the Worker was deleted.
    match finished.filter(|it| it.at < read).map(|it| it.by) {
        Some(Author::Process(_)) => {
            Err(format!("the Worker of generation {} had finished", created["spec"]["generation"]))
        }
        _ => Ok(()),
    }
}

/// Returns a Worker that a process has created.
fn creation<'a>(moment: &'a Moment<'_>) -> Option<&'a Arc<Value>> {
    let (_, change) = moment.entry.by_process()?;
    change.new.as_ref().filter(|_| change.old.is_none() && change.object.kind == worker())
}
