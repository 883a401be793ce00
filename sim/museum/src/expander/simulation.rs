//! The expander under faults.

use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::Name;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::History;
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use lockstep_sim::{ApiServer, Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::{Expander, number};
use crate::controller::Controller as _;
use crate::kinds::{self, NAMESPACES, app, app_of, belongs_to, index, owner, some_name, template, volume};
use crate::process::{BACKOFF, Process};
use crate::rules::{is_abandoned, was_ever};

impl SystemUnderTest for Expander {
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
        kinds::create(client, &app(), &NAMESPACES);
        kinds::create(client, &template(), &[]);
        kinds::create(client, &volume(), &[]);
    }

    fn operations(&self) -> &'static [Operation] {
        OPERATIONS
    }

    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        let Change { object, old, new, .. } = change;
        let is_ours = object.kind != app() && old.iter().chain(new).all(|it| owner(it).is_some());
        let shrinks = match (old, new) {
            (Some(old), Some(new)) => object.kind == volume() && number(new, "size") < number(old, "size"),
            _ => false,
        };
        if is_ours && !shrinks {
            Ok(())
        } else {
            Err(format!("the expander must not change {object} like this"))
        }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[Invariant {
            name: "what_an_app_wants_is_kept",
            sentence: "A Template or Volume is deleted only if its App no longer wanted it.",
            holds: what_an_app_wants_is_kept,
        }]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let apps = world.server.objects(&app());
        let (templates, volumes) = (world.server.objects(&template()), world.server.objects(&volume()));
        let mut found = Vec::new();
        for app in &apps {
            let (name, wanted) = (Name::of(app), number(app, "replicas"));
            let own = templates.iter().filter(|it| belongs_to(it, app));
            if own.filter(|it| it["spec"] == app["spec"]).count() != 1 {
                found.push(format!("{name} has no Template of its size"));
            }
            let own = || volumes.iter().filter(|it| belongs_to(it, app));
            let is_right =
                |at: u64| own().any(|it| index(it) == Some(at) && it["spec"]["size"] == app["spec"]["size"]);
            if own().count() as u64 != wanted || !(0..wanted).all(is_right) {
                found.push(format!("{name} has Volumes of another number or size"));
            }
        }
        let all = templates.iter().chain(&volumes);
        let orphans = all.filter(|it| !apps.iter().any(|app| belongs_to(it, app)));
        found.extend(orphans.map(|it| format!("{} has no App", Name::of(it))));
        found
    }
}

const OPERATIONS: &[Operation] = &[
    Operation::new("create an app", "user", 8, |client, random| {
        let name = some_name(random);
        let metadata = json!({ "namespace": name.namespace, "name": name.name });
        let spec = json!({ "replicas": 1 + random.below(3), "size": 1 });
        client.create(&app(), &json!({ "metadata": metadata, "spec": spec }));
    }),
    Operation::new("scale an app", "user", 6, |client, random| {
        let patch = json!({ "spec": { "replicas": random.below(4) } });
        client.merge(&some_name(random).object(&app()), &patch);
    }),
    Operation::new("grow an app", "user", 8, |client, random| {
        let target = some_name(random).object(&app());
        let Some(size) = client.server().object(&target).map(|app| number(app, "size")) else { return };
        client.merge(&target, &json!({ "spec": { "size": size + 1 } }));
    }),
    Operation::new("delete an app", "user", 3, |client, random| {
        client.delete(&some_name(random).object(&app()));
    }),
];

fn what_an_app_wants_is_kept(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let Some(old) = change.old.as_ref().filter(|_| is_deletion(change)) else { return Ok(()) };
    let Some(app) = app_of(old).map(|app| app.object(&kinds::app())) else { return Ok(()) };
    let is_unwanted = |app: &Value| {
        if change.object.kind == volume() {
            index(old).is_some_and(|at| number(app, "replicas") <= at)
        } else {
            number(app, "size") != number(old, "size")
        }
    };
    let was_unwanted = was_ever(moment.history, &app, &change.object, old, |app| {
        is_abandoned(app, old) || app.is_some_and(is_unwanted)
    });
    if was_unwanted { Ok(()) } else { Err(format!("{} was wanted all the time", change.object)) }
}
