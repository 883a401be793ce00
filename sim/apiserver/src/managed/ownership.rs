//! The changes of ownership when an object changes.

use std::sync::LazyLock;

use serde_json::Value;

use super::compare::Changes;
use super::entries::{Entries, Entry};
use super::manager::Manager;
use super::path::Step;
use super::set::Set;
use crate::schema::Schema;

/// Maximum number of update entries of an object.
const UPDATE_ENTRIES_MAX: usize = 10;
/// The manager of the fields of merged old entries.
const ANCIENT: &str = "ancient-changes";

/// A field that another manager owns.
pub(super) struct Conflict {
    pub(super) owner: Entry,
    pub(super) path: Vec<Step>,
}

/// The fields that no entry ever lists.
static NEVER_OWNED: LazyLock<Set> = LazyLock::new(|| {
    Set::of(&[
        "apiVersion",
        "kind",
        "metadata",
        "metadata.clusterName",
        "metadata.creationTimestamp",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.name",
        "metadata.namespace",
        "metadata.resourceVersion",
        "metadata.selfLink",
        "metadata.uid",
    ])
});

/// Returns an entry without the fields that are never owned; none if it would be empty.
pub(super) fn strip(mut entry: Entry) -> Option<Entry> {
    entry.set = entry.set.difference(&NEVER_OWNED);
    (!entry.set.is_empty()).then_some(entry)
}

/// Removes changed fields from all entries except the writer's. Without force, it refuses if another manager owns any of them.
pub(super) fn disown(
    entries: &mut Entries,
    changes: &Changes,
    writer: &str,
    force: bool,
) -> Result<(), Vec<Conflict>> {
    let touched = changes.modified.union(&changes.added);
    let others = |entry: &(&String, &mut Entry)| entry.0 != writer;
    if !force {
        let mut conflicts = Vec::new();
        for (_, entry) in entries.iter_mut().filter(others) {
            let lost = entry.set.intersection(&touched);
            conflicts.extend(lost.paths().into_iter().map(|path| Conflict { owner: entry.clone(), path }));
        }
        if !conflicts.is_empty() {
            return Err(conflicts);
        }
    }
    for (_, entry) in entries.iter_mut().filter(others) {
        let lost = entry.set.intersection(&touched);
        for gone in [&lost, &changes.removed] {
            if !gone.is_empty() {
                entry.set = entry.set.difference(gone);
            }
        }
    }
    entries.retain(|_, entry| !entry.set.is_empty());
    Ok(())
}

/// Records an update from `old` to `new`.
pub(super) fn update(schema: &Schema, old: &Value, new: &Value, entries: &mut Entries, manager: Manager<'_>) {
    let reset = Set::of(manager.reset);
    let changes = Changes::between(schema.root(), old, new).ignoring(&reset);
    // Updates can't conflict: they become the owner of what they change.
    if disown(entries, &changes, "", true).is_err() {
        return;
    }
    let entry = Entry {
        manager: if manager.name.is_empty() { "unknown".to_owned() } else { manager.name.to_owned() },
        applies: false,
        api_version: manager.api_version.to_owned(),
        subresource: manager.subresource.unwrap_or_default().to_owned(),
        time: Some(manager.time.to_owned()),
        set: changes.modified.union(&changes.added).without(&reset),
    };
    if let Some(mut entry) = strip(entry) {
        let id = entry.id();
        if let Some(previous) = entries.get(&id) {
            entry.set.merge(&previous.set);
        }
        entries.insert(id, entry);
    }
    cap(entries);
}

/// Merges the oldest update entries, by version, until the limit is met.
fn cap(entries: &mut Entries) {
    let mut count = entries.values().filter(|entry| !entry.applies).count();
    if count <= UPDATE_ENTRIES_MAX {
        return;
    }
    let mut updaters: Vec<(i64, String)> = entries
        .iter()
        .filter(|(_, entry)| !entry.applies)
        .map(|(id, entry)| (entry.seconds(), id.clone()))
        .collect();
    updaters.sort();
    let mut first_of_version: Vec<(String, String)> = Vec::new();
    for (_, id) in updaters {
        if count <= UPDATE_ENTRIES_MAX {
            return;
        }
        let Some(entry) = entries.get(&id).cloned() else { continue };
        let Some((_, first)) = first_of_version.iter().find(|(version, _)| *version == entry.api_version)
        else {
            first_of_version.push((entry.api_version.clone(), id));
            continue;
        };
        let bucket = Entry { manager: ANCIENT.to_owned(), subresource: String::new(), ..entry.clone() };
        let bucket_id = bucket.id();
        let merged = match entries.remove(&bucket_id) {
            Some(old) => Some(old.set),
            None => entries.remove(first).map(|first| first.set),
        };
        entries.remove(&id);
        let set = entry.set.union(&merged.unwrap_or_default());
        entries.insert(bucket_id, Entry { set, ..bucket });
        count -= 1;
    }
}
