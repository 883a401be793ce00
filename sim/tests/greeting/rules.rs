//! What the greeter may change, and what must hold of it at every step.

use std::sync::Arc;

use lockstep_engine::object::{is_deleting, metadata};
use lockstep_sim::cluster::{Author, Change, What};
use lockstep_sim::history::Version;
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use serde_json::Value;

use super::controller::{FINALIZER, LOBBY, is_ours};
use super::desired::{child_of, ready};

pub(crate) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "the_finalizer_outlives_the_child",
        sentence: "The finalizer of a deleted greeting goes only after its ConfigMap was seen gone.",
        holds: the_finalizer_outlives_the_child,
    },
    Invariant {
        name: "ready_means_hanging",
        sentence: "Ready is true for a generation only if the text of that generation hung in the lobby.",
        holds: ready_means_hanging,
    },
];

/// The greeter may make `ConfigMaps` in the lobby, change and delete those that it made, and write the status and its
/// finalizer of greetings.
pub(crate) fn may_change(change: &Change) -> Result<(), String> {
    let Change { object, old, new, .. } = change;
    let allowed = match (&*object.kind.kind, old.as_deref(), new.as_deref()) {
        ("Greeting", Some(old), Some(new)) => {
            old["spec"] == new["spec"]
                && old["metadata"]["labels"] == new["metadata"]["labels"]
                && !is_deletion(change)
        }
        // The last finalizer went.
        ("Greeting", Some(old), None) => is_deleting(old),
        ("ConfigMap", old, new) => {
            let theirs = [old, new].into_iter().flatten().any(|config_map| !is_ours(config_map));
            object.namespace.as_deref() == Some(LOBBY) && !theirs
        }
        _ => false,
    };
    if allowed { Ok(()) } else { Err(format!("{object}: the greeter has no business with it")) }
}

/// A change of a greeting by a process.
fn changed_greeting<'a>(moment: &Moment<'a>) -> Option<(&'a Change, &'a Value)> {
    let What::Changed(change) = &moment.entry.what else { return None };
    let ours = matches!(change.by, Author::Process(_)) && change.object.kind.kind == "Greeting";
    Some((change, change.old.as_deref().filter(|_| ours)?))
}

fn is_held(greeting: &Value) -> bool {
    lockstep_engine::finalizer::is_held(greeting, FINALIZER)
}

fn the_finalizer_outlives_the_child(moment: &Moment<'_>) -> Result<(), String> {
    let Some((change, old)) = changed_greeting(moment) else { return Ok(()) };
    if !is_held(old) || change.new.as_deref().is_some_and(is_held) {
        return Ok(());
    }
    let is_going = |version: &&Version| {
        let greeting = version.object.as_deref();
        greeting.is_some_and(|it| is_deleting(it) && metadata(it, "uid") == metadata(old, "uid"))
    };
    let Some(deleted) = moment.history.versions(&change.object).iter().find(is_going) else {
        return Err(format!("the finalizer of {} was taken out, and nobody has deleted it", change.object));
    };
    let target = child_of(&change.object);
    let hung = |version: &Version| version.object.as_deref().is_some_and(is_ours);
    let since = since(moment.history.versions(&target), deleted.at);
    if !since.is_empty() && since.iter().all(hung) {
        return Err(format!("the finalizer of {} was taken out, and {target} never was gone", change.object));
    }
    Ok(())
}

/// The states of an object from a time on: the one that it had then, and those that came after.
fn since(versions: &[Version], at: std::time::Duration) -> &[Version] {
    &versions[versions.iter().rposition(|version| version.at <= at).unwrap_or(0)..]
}

fn ready_means_hanging(moment: &Moment<'_>) -> Result<(), String> {
    let Some((change, old)) = changed_greeting(moment) else { return Ok(()) };
    let Some(new) = change.new.as_deref() else { return Ok(()) };
    let claim = |greeting: &Value| {
        ready(greeting)
            .filter(|ready| ready["status"] == "True")
            .map(|ready| ready["observedGeneration"].clone())
    };
    let Some(generation) = claim(new).filter(|claimed| claim(old).as_ref() != Some(claimed)) else {
        return Ok(());
    };
    let is_claimed = |version: &&Version| {
        let metadata = version.object.as_deref().map(|greeting| &greeting["metadata"]);
        metadata.is_some_and(|it| it["generation"] == generation && it["uid"] == new["metadata"]["uid"])
    };
    let versions = moment.history.versions(&change.object);
    let Some((at, text)) = versions.iter().find(is_claimed).and_then(|version| {
        let greeting: &Arc<Value> = version.object.as_ref()?;
        Some((version.at, &greeting["spec"]["text"]))
    }) else {
        return Err(format!("{} tells of generation {generation}, which never was", change.object));
    };
    let target = child_of(&change.object);
    let says = |version: &Version| {
        version.object.as_deref().is_some_and(|child| is_ours(child) && child["data"]["text"] == *text)
    };
    if since(moment.history.versions(&target), at).iter().any(says) {
        return Ok(());
    }
    Err(format!("{} says that it is ready, and {target} never said {text}", change.object))
}
