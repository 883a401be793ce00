//! The reporter under faults.

use std::sync::Arc;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Name, generation};
use lockstep_engine::random::Random;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::History;
use lockstep_sim::invariant::{Invariant, Moment};
use lockstep_sim::{ApiServer, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::{Reporter, condition};
use crate::controller::Controller as _;
use crate::kinds::{self, NAMESPACES, app, belongs_to, owner, some_name, uid, worker};
use crate::kubelet::Kubelet;
use crate::process::{BACKOFF, Process};
use crate::rules::was_always;

/// The condition of another controller.
const AUDITED: &str = "Audited";

impl SystemUnderTest for Reporter {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Process::new(*self, seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "create", "patch", "patch_status", "delete"]
    }

    fn prepare(&self, client: &mut dyn lockstep_sim::Client) {
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
        let audited = |it: &Value| condition(it, AUDITED).cloned();
        let is_allowed = if object.kind == worker() {
            let keeps_scale = |old: &Value, new: &Value| old["spec"]["scale"] == new["spec"]["scale"];
            old.iter().chain(new).all(|it| owner(it).is_some())
                && old.iter().all(|old| new.iter().all(|new| keeps_scale(old, new)))
        } else {
            old.iter()
                .any(|old| new.iter().all(|new| old["spec"] == new["spec"] && audited(old) == audited(new)))
        };
        if is_allowed { Ok(()) } else { Err(format!("the reporter must not change {object} like this")) }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[
            Invariant {
                name: "the_status_describes_its_generation",
                sentence: "A status describes the spec of the generation that it names.",
                holds: the_status_describes_its_generation,
            },
            Invariant {
                name: "ready_apps_were_ready",
                sentence: "An App is reported as ready only if its Worker was ready with the same text.",
                holds: ready_apps_were_ready,
            },
            Invariant {
                name: "ready_apps_stay_ready",
                sentence: "An App is reported as no longer ready only if its Worker was not ready when it was read.",
                holds: ready_apps_stay_ready,
            },
        ]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let (apps, workers) = (world.server.objects(&app()), world.server.objects(&worker()));
        let wrong = apps.iter().filter(|app| !is_reported(app, &workers));
        let wrong = wrong.map(|app| format!("{} is not reported as it is", Name::of(app)));
        let orphans = workers.iter().filter(|it| !apps.iter().any(|app| belongs_to(it, app)));
        orphans.map(|it| format!("{} has no App", Name::of(it))).chain(wrong).collect()
    }
}

const TEXTS: &[&str] = &["one", "two", "three"];
const OPERATIONS: &[Operation] = &[
    Operation::new("create an app", "user", 10, |client, random| {
        let name = some_name(random);
        let metadata = json!({ "namespace": name.namespace, "name": name.name });
        client.create(&app(), &json!({ "metadata": metadata, "spec": some_spec(random) }));
    }),
    Operation::new("change an app", "user", 10, |client, random| {
        let patch = json!({ "spec": some_spec(random) });
        client.merge(&some_name(random).object(&app()), &patch);
    }),
    Operation::new("delete an app", "user", 4, |client, random| {
        client.delete(&some_name(random).object(&app()));
    }),
    Operation::new("recreate an app", "user", 5, |client, random| {
        let target = some_name(random).object(&app());
        client.delete(&target);
        let metadata = json!({ "namespace": target.namespace, "name": target.name });
        client.create(&app(), &json!({ "metadata": metadata, "spec": some_spec(random) }));
    }),
    Operation::new("audit an app", "other controller", 6, |client, random| {
        let target = some_name(random).object(&app());
        let Some(found) = client.server().object(&target) else { return };
        let others = found["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions: Vec<Value> = others.filter(|it| it["type"] != AUDITED).cloned().collect();
        conditions.push(json!({ "type": AUDITED, "status": random.pick(&["True", "False"]) }));
        client.merge_status(&target, &json!({ "conditions": conditions }));
    }),
    Operation::new("scale a worker", "other controller", 4, |client, random| {
        let patch = json!({ "spec": { "scale": 1 + random.below(4) } });
        client.merge(&some_name(random).object(&worker()), &patch);
    }),
    Operation::new("delete a worker", "other controller", 6, |client, random| {
        if let Some(found) = client.any(&worker(), random) {
            client.delete(&Name::of(&found).object(&worker()));
        }
    }),
];

fn some_spec(random: &mut Random) -> Value {
    let items = random.pick(&[&["a", "b", "c"], &["c", "a", "d"], &["d", "c", "b"]]);
    json!({ "text": random.pick(TEXTS), "items": items })
}

fn is_reported(app: &Value, workers: &[Arc<Value>]) -> bool {
    let sorted = |items: &Value| {
        let mut items = items.as_array().cloned().unwrap_or_default();
        items.sort_by_key(ToString::to_string);
        items
    };
    let status = &app["status"];
    workers.iter().any(|it| belongs_to(it, app) && it["spec"]["text"] == app["spec"]["text"])
        && status["observedGeneration"] == generation(app)
        && status["text"] == app["spec"]["text"]
        && sorted(&status["items"]) == sorted(&app["spec"]["items"])
        && condition(app, "Ready").is_some_and(|it| it["status"] == "True")
}

/// Returns an App after a process has changed its status.
fn reported<'a>(moment: &'a Moment<'_>) -> Option<&'a Arc<Value>> {
    let (_, change) = moment.entry.by_process()?;
    let (old, new) = (change.old.as_ref()?, change.new.as_ref()?);
    (change.object.kind == app() && old["status"] != new["status"]).then_some(new)
}

fn the_status_describes_its_generation(moment: &Moment<'_>) -> Result<(), String> {
    let Some(new) = reported(moment).filter(|app| app["status"]["text"].is_string()) else { return Ok(()) };
    let versions = moment.history.versions(&Name::of(new).object(&app())).iter();
    let mut versions = versions.filter_map(|version| version.object.as_deref());
    let described =
        versions.find(|it| uid(it) == uid(new) && new["status"]["observedGeneration"] == generation(it));
    match described {
        Some(described) if described["spec"]["text"] != new["status"]["text"] => {
            let text = &described["spec"]["text"];
            Err(format!("generation {} has the text {text}", generation(described)))
        }
        _ => Ok(()),
    }
}

fn ready_apps_were_ready(moment: &Moment<'_>) -> Result<(), String> {
    let Some(new) = reported(moment) else { return Ok(()) };
    if condition(new, "Ready").is_none_or(|it| it["status"] != "True") {
        return Ok(());
    }
    let versions = moment.history.versions(&Name::of(new).object(&worker())).iter();
    let mut versions = versions.filter_map(|version| version.object.as_deref());
    let was_ready = versions.any(|it| is_ready(it, new));
    if was_ready {
        Ok(())
    } else {
        Err(format!("no Worker was ready with the text {}", new["status"]["text"]))
    }
}

/// Returns whether a Worker is ready, with the text that the status of its App names.
fn is_ready(worker: &Value, app: &Value) -> bool {
    belongs_to(worker, app)
        && worker["spec"]["text"] == app["status"]["text"]
        && worker["status"]["ready"] == true
        && worker["status"]["observedGeneration"] == generation(worker)
}

fn ready_apps_stay_ready(moment: &Moment<'_>) -> Result<(), String> {
    let (Some((process, change)), Some(new)) = (moment.entry.by_process(), reported(moment)) else {
        return Ok(());
    };
    let says = |app: &Value, status: &str| condition(app, "Ready").is_some_and(|it| it["status"] == status);
    if !change.old.iter().any(|old| says(old, "True")) || !says(new, "False") {
        return Ok(());
    }
    let worker = Name::of(new).object(&worker());
    let was_ready = |it: Option<&Value>| it.is_some_and(|it| is_ready(it, new));
    if was_always(moment.history, process, &worker, was_ready) {
        Err(format!("{worker} was ready when it was read"))
    } else {
        Ok(())
    }
}
