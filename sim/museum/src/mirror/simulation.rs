//! The mirror under faults.

use std::sync::Arc;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::finalizer;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Name, is_deleting, label};
use lockstep_engine::random::Random;
use lockstep_sim::cluster::{Author, Change};
use lockstep_sim::history::{History, Version};
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use lockstep_sim::{ApiServer, Client, Operation, SystemUnderTest, World};
use serde_json::{Value, json};

use super::{FINALIZER, Mirror, SHARED, token};
use crate::controller::Controller as _;
use crate::kinds::{self, APP, NAMESPACES, app, belongs_to, config_map, owner, some_name};
use crate::process::{BACKOFF, Process};
use crate::rules::{
    FOREIGN, hold, is_abandoned, keeps_foreign_annotations, keeps_foreign_finalizers, release, release_all,
    was_ever,
};

impl SystemUnderTest for Mirror {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn machine(&self, seed: u64) -> Box<dyn Machine> {
        Box::new(Process::new(*self, seed))
    }

    fn actions(&self) -> &'static [&'static str] {
        &["get", "create", "patch", "delete"]
    }

    fn prepare(&self, client: &mut dyn Client) {
        kinds::create(client, &app(), &[NAMESPACES[0], NAMESPACES[1], SHARED]);
    }

    fn operations(&self) -> &'static [Operation] {
        OPERATIONS
    }

    fn may_change(&self, change: &Change, _: &ApiServer, _: &History) -> Result<(), String> {
        let Change { object, old, new, .. } = change;
        let is_ours = match &*object.kind.kind {
            "ConfigMap" => old.iter().chain(new).all(|it| owner(it).is_some()),
            _ => old.iter().any(|old| new.iter().all(|new| new["spec"] == old["spec"])),
        };
        let is_allowed = is_ours && keeps_foreign_finalizers(change) && keeps_foreign_annotations(change);
        if is_allowed { Ok(()) } else { Err(format!("the mirror must not change {object} like this")) }
    }

    fn invariants(&self) -> &'static [Invariant] {
        &[
            Invariant {
                name: "a_copy_of_an_app_is_kept",
                sentence: "A copy is deleted only if its App was deleted.",
                holds: a_copy_of_an_app_is_kept,
            },
            Invariant {
                name: "the_finalizer_outlives_the_copy",
                sentence: "The finalizer of an App is removed only after its copy was deleted.",
                holds: the_finalizer_outlives_the_copy,
            },
        ]
    }

    fn backoffs(&self) -> &'static [Backoff] {
        &[BACKOFF]
    }

    fn calm(&self, client: &mut dyn Client) {
        release_all(client, &app());
        release_all(client, &config_map());
    }

    fn differences(&self, world: &World<'_>) -> Vec<String> {
        let apps = world.server.objects(&app());
        let copies = world.server.objects(&config_map());
        let wrong = apps.iter().filter(|app| !is_mirrored(world.server, app, &copies));
        let wrong = wrong.map(|app| format!("{} has no correct copy", Name::of(app)));
        let is_orphan =
            |copy: &&Arc<Value>| owner(copy).is_some() && !apps.iter().any(|app| belongs_to(copy, app));
        let orphans = copies.iter().filter(is_orphan).map(|copy| format!("{} has no App", Name::of(copy)));
        orphans.chain(wrong).collect()
    }
}

const TEXTS: &[&str] = &["good morning", "good evening", "good night"];
const TOKENS: &[&str] = &["b25l", "dHdv", "dGhyZWU="];
const OPERATIONS: &[Operation] = &[
    Operation::new("create an app", "user", 18, |client, random| {
        let name = some_name(random);
        let metadata = json!({ "namespace": name.namespace, "name": name.name });
        client.create(&app(), &json!({ "metadata": metadata, "spec": { "text": random.pick(TEXTS) } }));
    }),
    Operation::new("change an app", "user", 8, |client, random| {
        let patch = json!({ "spec": { "text": random.pick(TEXTS) } });
        client.merge(&some_name(random).object(&app()), &patch);
    }),
    Operation::new("delete an app", "user", 14, |client, random| {
        client.delete(&some_name(random).object(&app()));
    }),
    Operation::new("set a token", "user", 12, |client, random| {
        let target = token(&some_name(random));
        let data = json!({ "token": random.pick(TOKENS) });
        let metadata = json!({ "namespace": target.namespace, "name": target.name });
        client.create(&target.kind, &json!({ "metadata": metadata, "data": data }));
        client.merge(&target, &json!({ "data": data }));
    }),
    Operation::new("delete a token", "user", 3, |client, random| {
        client.delete(&token(&some_name(random)));
    }),
    Operation::new("hold an app", "other controller", 6, |client, random| {
        if let Some(found) = client.any(&app(), random) {
            hold(client, &Name::of(&found).object(&app()));
        }
    }),
    Operation::new("release an app", "other controller", 4, |client, random| {
        release(client, &some_name(random).object(&app()));
    }),
    Operation::new("hold a copy", "other controller", 8, |client, random| {
        if let Some(copy) = some_copy(client, random) {
            hold(client, &copy.object(&config_map()));
        }
    }),
    Operation::new("release a copy", "other controller", 3, |client, random| {
        if let Some(copy) = some_copy(client, random) {
            release(client, &copy.object(&config_map()));
        }
    }),
    Operation::new("edit a copy", "other controller", 4, |client, random| {
        if let Some(copy) = some_copy(client, random) {
            client.merge(&copy.object(&config_map()), &json!({ "data": { "text": "edited" } }));
        }
    }),
    Operation::new("annotate a copy", "other controller", 6, |client, random| {
        if let Some(copy) = some_copy(client, random) {
            let patch = json!({ "metadata": { "annotations": { FOREIGN: random.pick(TEXTS) } } });
            client.merge(&copy.object(&config_map()), &patch);
        }
    }),
    Operation::new("delete a copy", "other controller", 4, |client, random| {
        if let Some(copy) = some_copy(client, random) {
            client.delete(&copy.object(&config_map()));
        }
    }),
    Operation::new("take a name", "other controller", 3, |client, random| {
        let target = Mirror(None).copy(&some_name(random));
        let metadata = json!({ "namespace": SHARED, "name": target.name });
        client.create(&target.kind, &json!({ "metadata": metadata, "data": { "theirs": "yes" } }));
    }),
];

/// Returns one of the copies, whatever the names of the controller are.
fn some_copy(client: &mut dyn Client, random: &mut Random) -> Option<Name> {
    let copies = client.server().objects(&config_map());
    let copies: Vec<Name> = copies.iter().filter(|it| owner(it).is_some()).map(|it| Name::of(it)).collect();
    copies.get(usize::try_from(random.below(copies.len() as u64)).ok()?).cloned()
}

fn is_mirrored(server: &ApiServer, app: &Value, copies: &[Arc<Value>]) -> bool {
    let key = Name::of(app);
    let token = server.object(&token(&key)).map_or("", |it| it["data"]["token"].as_str().unwrap_or_default());
    let data = json!({ "text": app["spec"]["text"], "token": token });
    let own: Vec<_> = copies.iter().filter(|copy| belongs_to(copy, app)).collect();
    let is_blocked = || server.object(&Mirror(None).copy(&key)).is_some_and(|it| owner(it).is_none());
    !is_deleting(app)
        && match own[..] {
            [copy] => copy["data"] == data,
            [] => is_blocked(),
            _ => false,
        }
}

fn a_copy_of_an_app_is_kept(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    let Some(copy) = change.old.as_ref().filter(|it| is_deletion(change) && owner(it).is_some()) else {
        return Ok(());
    };
    let Some((namespace, name)) = label(copy, APP).and_then(|label| label.split_once('.')) else {
        return Ok(());
    };
    let app = Name::new(namespace, name).object(&app());
    let was_abandoned = was_ever(moment.history, &app, &change.object, copy, |app| is_abandoned(app, copy));
    if was_abandoned { Ok(()) } else { Err(format!("{app} was never deleted")) }
}

fn the_finalizer_outlives_the_copy(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change)) = moment.entry.by_process() else { return Ok(()) };
    let is_held = |it: &&Arc<Value>| finalizer::is_held(it, FINALIZER);
    if change.new.as_ref().is_some_and(|it| is_held(&it)) {
        return Ok(());
    }
    let Some(app) = change.old.as_ref().filter(is_held) else { return Ok(()) };
    let was_deleting = |it: &&Version| it.object.as_deref().is_some_and(is_deleting);
    let versions = moment.history.versions(&change.object).iter().rev();
    let deleted = versions.take_while(was_deleting).last().map_or(moment.entry.at, |it| it.at);
    let target = Mirror(None).copy(&Name::of(app));
    let is_ours = |it: &&Version| it.object.as_deref().is_some_and(|it| belongs_to(it, app));
    let created = moment.history.versions(&target).iter().rev().take_while(is_ours).last();
    // Of a copy that another process creates after the deletion of the App, it may not know. That process deletes it later.
    let is_kept = created.is_some_and(|it| it.at <= deleted || it.by == Author::Process(process));
    if is_kept { Err(format!("{target} was never deleted")) } else { Ok(()) }
}
