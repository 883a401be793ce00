//! Code that the simulations of the controllers share.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, Name, ObjectRef, annotation, is_deleting};
use lockstep_sim::Client;
use lockstep_sim::cluster::Change;
use lockstep_sim::history::History;
use serde_json::{Value, json};

use crate::kinds::{owner, uid};

/// The finalizer and the annotation of a foreign controller.
pub const FOREIGN: &str = "other.example.com/hold";

/// Returns whether an object had some state at any time since the creation of another one, which is in the state `state`. A
/// controller that reads the first after the second cannot read an older state.
pub fn was_ever(
    history: &History,
    object: &ObjectRef,
    other: &ObjectRef,
    state: &Value,
    test: impl Fn(Option<&Value>) -> bool,
) -> bool {
    let is_same = |object: Option<&Arc<Value>>| object.is_some_and(|object| uid(object) == uid(state));
    let created = history.versions(other).iter().find(|version| is_same(version.object.as_ref()));
    let Some(created) = created else { return true };
    states_since(history, object, created.at).any(test)
}

/// Returns the state that an object had before a time, and those that it has had since. It is none while the object does not exist.
/// A change at that very time may be later than what else happened then, such as a read.
fn states_since<'a>(
    history: &'a History,
    object: &ObjectRef,
    at: Duration,
) -> impl Iterator<Item = Option<&'a Value>> {
    let versions = history.versions(object);
    let before = versions.iter().rposition(|version| version.at < at);
    let since = &versions[before.unwrap_or(0)..];
    // The history of an object begins with its creation.
    before.is_none().then_some(None).into_iter().chain(since.iter().map(|it| it.object.as_deref()))
}

/// Returns whether an object was in some state all the time since a process last read it.
pub fn was_always(
    history: &History,
    process: usize,
    object: &ObjectRef,
    test: impl Fn(Option<&Value>) -> bool,
) -> bool {
    let Some(last) = last_read(history, process, object) else { return false };
    states_since(history, object, last).all(test)
}

/// Returns when a process last read an object. What a process writes later may have been decided then: a request can be slow.
pub fn last_read(history: &History, process: usize, object: &ObjectRef) -> Option<Duration> {
    history.process(process)?.reads.get(object)?.back().copied()
}

/// Returns whether an App no longer needs an object: it is gone, is being deleted, or is another App of the same name.
pub fn is_abandoned(app: Option<&Value>, object: &Value) -> bool {
    app.is_none_or(|app| is_deleting(app) || owner(object) != Some(uid(app)))
}

/// Returns the finalizers of an object that belong to foreign controllers.
pub fn foreign_finalizers(object: Option<&Arc<Value>>) -> Vec<&Value> {
    let all = object.and_then(|object| object["metadata"]["finalizers"].as_array());
    all.into_iter().flatten().filter(|finalizer| **finalizer == FOREIGN).collect()
}

/// Checks that a change adds and removes no foreign finalizer.
pub fn keeps_foreign_finalizers(change: &Change) -> bool {
    foreign_finalizers(change.old.as_ref()) == foreign_finalizers(change.new.as_ref())
}

/// Checks that a change of an object keeps the annotation of a foreign controller.
pub fn keeps_foreign_annotations(change: &Change) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    annotation(old, FOREIGN) == annotation(new, FOREIGN)
}

/// Adds the foreign finalizer to an object.
pub fn hold(client: &mut dyn Client, target: &ObjectRef) {
    let Some(object) = client.server().object(target).filter(|object| !is_deleting(object)) else { return };
    if !finalizer::is_held(object, FOREIGN) {
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.push(json!(FOREIGN));
        client.merge(target, &json!({ "metadata": { "finalizers": finalizers } }));
    }
}

/// Removes the foreign finalizer from an object.
pub fn release(client: &mut dyn Client, target: &ObjectRef) {
    let Some(object) = client.server().object(target) else { return };
    if finalizer::is_held(object, FOREIGN) {
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|finalizer| finalizer != FOREIGN);
        client.merge(target, &json!({ "metadata": { "finalizers": finalizers } }));
    }
}

/// Removes the foreign finalizer from all objects of a kind.
pub fn release_all(client: &mut dyn Client, kind: &Arc<Kind>) {
    for object in client.server().objects(kind) {
        release(client, &Name::of(&object).object(kind));
    }
}
