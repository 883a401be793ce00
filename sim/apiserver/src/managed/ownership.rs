//! The changes of ownership when an object changes.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use super::differences::Differences;
use super::entries::{Entries, Entry};
use super::manager::Manager;
use super::path::Step;
use super::reconcile::reconciled;
use super::set::Set;
use super::versioned::Versioned;
use super::versions::Versions;
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

/// Returns the fields that no entry ever lists.
pub(super) fn never_owned() -> &'static Set {
    &NEVER_OWNED
}

/// Returns an entry without the fields that are never owned; none if it would be empty.
pub(super) fn strip(mut entry: Entry) -> Option<Entry> {
    entry.set = entry.set.difference(&NEVER_OWNED);
    (!entry.set.is_empty()).then_some(entry)
}

/// Why the owners can't be determined.
pub(super) enum Refusal {
    /// Other managers own fields that would change.
    Conflicts(Vec<Conflict>),
    /// The object does not match the type of a version in which a manager owns fields.
    Mismatch(String),
}

/// Adapts the entries to the types of an object, and removes those of versions that do not exist.
pub(super) fn reconcile<'a>(
    live: &Versioned<'a>,
    entries: &mut Entries,
    versions: &'a dyn Versions,
) -> Result<(), String> {
    let mut kept = Entries::new();
    for (id, mut entry) in std::mem::take(entries) {
        let schema = if live.api_version == entry.api_version {
            live.schema
        } else {
            match live.to(&entry.api_version, versions)? {
                Some(converted) => converted.schema,
                None => continue,
            }
        };
        if let Some(set) = reconciled(schema.root(), &entry.set) {
            entry.set = set;
        }
        kept.insert(id, entry);
    }
    *entries = kept;
    Ok(())
}

/// Removes changed fields from all entries except the writer's. Without force, it refuses if another manager owns any of them.
pub(super) fn disown(
    entries: &mut Entries,
    differences: &mut Differences<'_>,
    writer: &str,
    force: bool,
) -> Result<(), Refusal> {
    let mut conflicts = Vec::new();
    for (_, entry) in entries.iter().filter(|(id, _)| *id != writer) {
        differences.compare(&entry.api_version).map_err(Refusal::Mismatch)?;
        if let (false, Some(difference)) = (force, differences.in_version(&entry.api_version)) {
            let lost = entry.set.intersection(&difference.set);
            conflicts.extend(lost.paths().into_iter().map(|path| Conflict { owner: entry.clone(), path }));
        }
    }
    if !conflicts.is_empty() {
        return Err(Refusal::Conflicts(conflicts));
    }
    for (_, entry) in entries.iter_mut().filter(|(id, _)| *id != writer) {
        let Some(difference) = differences.in_version(&entry.api_version) else {
            entry.set = Set::default();
            continue;
        };
        let lost = entry.set.intersection(&difference.set);
        for gone in [&lost, &difference.removed] {
            if !gone.is_empty() {
                entry.set = entry.set.difference(gone);
            }
        }
    }
    entries.retain(|_, entry| !entry.set.is_empty());
    Ok(())
}

/// Records an update from `old` to `new`.
///
/// # Errors
/// If an object does not match the type of a version in which a manager owns fields.
pub(super) fn update<'a>(
    schema: &'a Schema,
    old: &'a Value,
    new: &'a Value,
    entries: &mut Entries,
    manager: Manager<'a>,
) -> Result<(), String> {
    let typed = |object| Versioned::of_request(schema, Cow::Borrowed(object), manager);
    let (old, new) = (typed(old), typed(new));
    reconcile(&old, entries, manager.versions)?;
    let mut differences = Differences::between(old, new, manager.versions);
    // Updates can't conflict: they become the owner of what they change.
    if let Err(Refusal::Mismatch(why)) = disown(entries, &mut differences, "", true) {
        return Err(why);
    }
    let entry = Entry {
        manager: if manager.name.is_empty() { "unknown".to_owned() } else { manager.name.to_owned() },
        applies: false,
        api_version: manager.api_version.to_owned(),
        subresource: manager.subresource.unwrap_or_default().to_owned(),
        time: Some(manager.time.to_owned()),
        set: differences.own().set.clone(),
    };
    if let Some(mut entry) = strip(entry) {
        let id = entry.id();
        if let Some(previous) = entries.get(&id) {
            entry.set.merge(&previous.set);
        }
        entries.insert(id, entry);
    }
    cap(entries);
    Ok(())
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
