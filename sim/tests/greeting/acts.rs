//! What users and another controller do.

use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_engine::random::Random;
use lockstep_sim::history::reference;
use lockstep_sim::{Client, Operation};
use serde_json::{Value, json};

use super::controller::{LABEL, LOBBY, child, config_map_kind, greeting_kind, is_ours};

pub(crate) const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
const NAMES: [&str; 2] = ["hello", "bye"];

pub(crate) const ACTS: &[Operation] = &[
    Operation::new("write a greeting", "user", 10, write),
    Operation::new("change a greeting", "user", 6, change),
    Operation::new("delete a greeting", "user", 8, delete),
    Operation::new("edit what hangs", "other controller", 3, edit_hanging),
    Operation::new("delete what hangs", "other controller", 4, delete_hanging),
    Operation::new("delete what hangs and hang its own", "other controller", 4, replace_hanging),
    Operation::new("take over what hangs", "other controller", 2, take_over_hanging),
    Operation::new("hang its own", "other controller", 3, hang_own),
    Operation::new("take its own down", "other controller", 4, delete_own),
];

fn text(random: &mut Random) -> Value {
    random.pick(&["good morning", "good evening", "good night"]).into()
}

fn write(hand: &mut dyn Client, random: &mut Random) {
    let metadata = json!({ "namespace": random.pick(&NAMESPACES), "name": random.pick(&NAMES) });
    hand.create(&greeting_kind(), &json!({ "metadata": metadata, "spec": { "text": text(random) } }));
}

fn some_greeting(hand: &dyn Client, random: &mut Random) -> Option<ObjectRef> {
    hand.any(&greeting_kind(), random).map(|greeting| reference(&greeting_kind(), &greeting))
}

fn change(hand: &mut dyn Client, random: &mut Random) {
    if let Some(greeting) = some_greeting(hand, random) {
        hand.merge(&greeting, &json!({ "spec": { "text": text(random) } }));
    }
}

fn delete(hand: &mut dyn Client, random: &mut Random) {
    if let Some(greeting) = some_greeting(hand, random) {
        hand.delete(&greeting);
    }
}

/// A `ConfigMap` of the lobby: one that the greeter made, or one of somebody else's.
fn some_child(hand: &dyn Client, random: &mut Random, ours: bool) -> Option<ObjectRef> {
    let found = hand.any(&config_map_kind(), random)?;
    let wanted = metadata(&found, "namespace") == LOBBY && is_ours(&found) == ours;
    wanted.then(|| reference(&config_map_kind(), &found))
}

fn edit_hanging(hand: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_child(hand, random, true) {
        hand.merge(&target, &json!({ "data": { "text": "theirs" } }));
    }
}

fn delete_hanging(hand: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_child(hand, random, true) {
        hand.delete(&target);
    }
}

fn replace_hanging(hand: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_child(hand, random, true) {
        hand.delete(&target);
        hang(hand, &target);
    }
}

fn take_over_hanging(hand: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_child(hand, random, true) {
        hand.merge(&target, &json!({ "metadata": { "labels": { LABEL: null } } }));
    }
}

fn hang_own(hand: &mut dyn Client, random: &mut Random) {
    let target = child(random.pick(&NAMESPACES), random.pick(&NAMES));
    hang(hand, &target);
}

fn hang(hand: &mut dyn Client, target: &ObjectRef) {
    let metadata = json!({ "namespace": target.namespace, "name": target.name });
    hand.create(&target.kind, &json!({ "metadata": metadata, "data": { "text": "theirs" } }));
}

fn delete_own(hand: &mut dyn Client, random: &mut Random) {
    if let Some(target) = some_child(hand, random, false) {
        hand.delete(&target);
    }
}
