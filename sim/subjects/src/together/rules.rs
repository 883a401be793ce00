//! What no controller may do to another one, checked at every step.

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_sim::cluster::{Author, Change};
use lockstep_sim::history::Version;
use lockstep_sim::invariant::{Invariant, Moment, is_deletion};
use serde_json::Value;

pub(super) const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: "objects_are_deleted_by_their_creator",
        sentence: "A controller deletes no object that another controller has created.",
        holds: objects_are_deleted_by_their_creator,
    },
    Invariant {
        name: "controllers_do_not_fight",
        sentence: "Two controllers do not restore their own version of an object again and again.",
        holds: controllers_do_not_fight,
    },
];

/// The period in which reverts are counted.
const PERIOD: Duration = Duration::from_mins(10);
/// Maximum number of reverts in it. The backoff of the NamespaceClass operator permits some 22 in its first ten minutes, and it
/// starts again when a process crashes or the class changes.
const REVERTS_MAX: usize = 64;

/// Returns the controller that made a change.
fn controller(moment: &Moment<'_>, author: Author) -> Option<&'static str> {
    match author {
        Author::Process(process) => moment.history.controller(process),
        Author::Client(_) | Author::ControlPlane => None,
    }
}

fn objects_are_deleted_by_their_creator(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, change)) = moment.entry.by_process().filter(|(_, change)| is_deletion(change)) else {
        return Ok(());
    };
    let uid = change.old.as_deref().map(|old| metadata(old, "uid"));
    let is_same = |version: &&Version| version.object.as_deref().map(|object| metadata(object, "uid")) == uid;
    let created = moment.history.versions(&change.object).iter().find(is_same);
    let (creator, deleter) =
        (created.and_then(|created| controller(moment, created.by)), moment.history.controller(process));
    if creator.is_some() && creator != deleter {
        let [creator, deleter] = [creator, deleter].map(Option::unwrap_or_default);
        return Err(format!("{deleter} deleted {}, which {creator} had created", change.object));
    }
    Ok(())
}

fn controllers_do_not_fight(moment: &Moment<'_>) -> Result<(), String> {
    let Some((process, Change { object, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let writer = moment.history.controller(process);
    let recent = recent(moment, object);
    let others: BTreeSet<_> = recent.iter().filter_map(|version| controller(moment, version.by)).collect();
    if !others.iter().any(|other| Some(*other) != writer) {
        return Ok(());
    }
    let mut states: Vec<(Option<&str>, Value)> = recent
        .iter()
        .filter_map(|version| Some((controller(moment, version.by), content(version.object.as_deref()?))))
        .collect();
    states.push((writer, content(new)));
    states.dedup_by(|later, earlier| later.1 == earlier.1);
    let is_revert = |it: &&[(Option<&str>, Value)]| {
        it[0].1 == it[2].1 && it[1].0.is_some() && it[2].0.is_some() && it[1].0 != it[2].0
    };
    let reverts = states.windows(3).filter(is_revert).count();
    if reverts > REVERTS_MAX {
        return Err(format!(
            "{object} was changed back {reverts} times in {PERIOD:?} by {}",
            others.into_iter().collect::<Vec<_>>().join(" and ")
        ));
    }
    Ok(())
}

fn recent<'a>(moment: &'a Moment<'_>, object: &ObjectRef) -> &'a [Version] {
    moment.history.versions_since(object, moment.entry.at.saturating_sub(PERIOD))
}

/// Returns an object without the fields that every write changes.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    if let Some(metadata) = content["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    content
}
