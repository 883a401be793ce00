//! The scaler under faults.

use std::sync::Arc;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Name, is_deleting};
use lockstep_sim::cluster::Change;
use lockstep_sim::history::History;
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use lockstep_sim::{ApiServer, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::{Bug, Scaler, replicas};
use crate::controller::Controller as _;
use crate::kinds::{self, NAMESPACES, app, app_of, belongs_to, index, owner, some_name, uid, volume, worker};
use crate::kubelet::Kubelet;
use crate::process::{BACKOFF, Process};
use crate::rules::{is_abandoned, was_ever};

impl SystemUnderTest for Scaler {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Process::new(*self, seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "list", "create", "delete"]
    }

    fn prepare(&self, client: &mut dyn lockstep_sim::Client) {
        kinds::create(client, &app(), &NAMESPACES);
        kinds::create(client, &volume(), &[]);
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
        let is_allowed = object.kind != app() && old.iter().chain(new).all(|it| owner(it).is_some());
        if is_allowed { Ok(()) } else { Err(format!("the scaler must not change {object} like this")) }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[
            Invariant {
                name: "wanted_volumes_are_kept",
                sentence: "A Volume is deleted only if its App no longer wanted it.",
                holds: wanted_volumes_are_kept,
            },
            Invariant {
                name: "no_more_workers_than_ever_wanted",
                sentence: "An App never has more Workers than it has ever wanted.",
                holds: no_more_workers_than_ever_wanted,
            },
        ]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let apps = world.server.objects(&app());
        let (workers, volumes) = (world.server.objects(&worker()), world.server.objects(&volume()));
        let has_volumes = self.0 != Some(Bug::CountsStaleWorkers);
        let mut found = Vec::new();
        for app in &apps {
            let count =
                |objects: &[Arc<Value>]| objects.iter().filter(|it| belongs_to(it, app)).count() as u64;
            let (name, wanted) = (Name::of(app), replicas(app));
            if count(&workers) != wanted {
                found.push(format!("{name} has {} Workers and wants {wanted}", count(&workers)));
            }
            if has_volumes && count(&volumes) != wanted {
                found.push(format!("{name} has {} Volumes and wants {wanted}", count(&volumes)));
            }
        }
        let all = workers.iter().chain(&volumes);
        let orphans = all.filter(|it| !apps.iter().any(|app| belongs_to(it, app)));
        found.extend(orphans.map(|it| format!("{} has no App", Name::of(it))));
        found
    }
}

const OPERATIONS: &[Operation] = &[
    Operation::new("create an app", "user", 8, |client, random| {
        let name = some_name(random);
        let metadata = json!({ "namespace": name.namespace, "name": name.name });
        let spec = json!({ "replicas": 1 + random.below(3) });
        client.create(&app(), &json!({ "metadata": metadata, "spec": spec }));
    }),
    Operation::new("scale an app", "user", 14, |client, random| {
        let patch = json!({ "spec": { "replicas": random.below(4) } });
        client.merge(&some_name(random).object(&app()), &patch);
    }),
    Operation::new("delete an app", "user", 3, |client, random| {
        client.delete(&some_name(random).object(&app()));
    }),
];

fn wanted_volumes_are_kept(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let is_volume = change.object.kind == volume();
    let Some(old) = change.old.as_ref().filter(|_| is_volume && is_deletion(change)) else { return Ok(()) };
    let Some(app) = app_of(old).map(|app| app.object(&kinds::app())) else { return Ok(()) };
    let was_unwanted = was_ever(moment.history, &app, &change.object, old, |app| {
        is_abandoned(app, old) || app.is_some_and(|app| index(old).is_some_and(|at| replicas(app) <= at))
    });
    if was_unwanted { Ok(()) } else { Err(format!("{} was wanted all the time", change.object)) }
}

fn no_more_workers_than_ever_wanted(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let Some(created) = change.new.as_ref().filter(|_| change.old.is_none()) else { return Ok(()) };
    let Some(app) = app_of(created).filter(|_| change.object.kind == worker()) else { return Ok(()) };
    let workers = moment.server.objects(&worker());
    let running = workers.iter().filter(|it| owner(it) == owner(created) && !is_deleting(it)).count() as u64;
    let versions = moment.history.versions(&app.object(&kinds::app())).iter();
    let versions = versions.filter_map(|version| version.object.as_deref());
    let most = versions.filter(|app| owner(created) == Some(uid(app))).map(replicas).max();
    match most {
        Some(most) if running > most => Err(format!("{app} has {running} Workers and wanted {most} at most")),
        _ => Ok(()),
    }
}
