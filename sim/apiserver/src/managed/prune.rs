//! Removes what a manager applied before and no longer applies.

use std::collections::BTreeMap;

use serde_json::Value;

use super::entries::{Entries, Entry};
use super::merge::remove;
use super::set::Set;
use super::typed::fields;
use super::versioned::Versioned;
use super::versions::Versions;

/// Returns a merged object without the fields of the manager's last entry that neither another entry nor its new one has.
///
/// # Errors
/// If the object does not match the type of a version in which a manager owns fields.
pub(super) fn pruned<'a>(
    combined: &Versioned<'a>,
    owners: &Entries,
    last: &Entry,
    versions: &'a dyn Versions,
) -> Result<Value, String> {
    let in_last = |which: &str, object: &Versioned<'a>| {
        let converted = object.to(&last.api_version, versions);
        converted.map_err(|why| format!("failed to convert {which} object to last applied version: {why}"))
    };
    let Some(merged) = in_last("merged", combined)? else {
        return Ok(combined.object.clone().into_owned());
    };
    let removed = without(&merged, &named(&merged, &last.set));
    let owned = with_owned(&merged, removed, owners, versions)
        .map_err(|why| format!("failed add back owned items: {why}"))?;
    let owned = in_last("pruned", &owned).map_err(|why| format!("failed add back dangling items: {why}"))?;
    // Restores what the manager never owned, too.
    let kept = owned.as_ref().map(all).unwrap_or_default();
    let gone = all(&merged).difference(&kept).intersection(&named(&merged, &last.set));
    let result = without(&merged, &gone).to(&combined.api_version, versions)?;
    Ok(result.map_or_else(|| combined.object.clone(), |result| result.object).into_owned())
}

/// Restores what any manager owns, in each version in which one does.
fn with_owned<'a>(
    merged: &Versioned<'a>,
    mut pruned: Versioned<'a>,
    owners: &Entries,
    versions: &'a dyn Versions,
) -> Result<Versioned<'a>, String> {
    let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
    for entry in owners.values() {
        by_version.entry(&entry.api_version).or_default().merge(&entry.set);
    }
    let last = merged.api_version.clone();
    let first = by_version.remove(&*last).map(|owned| (&*last, owned));
    let mut merged = merged.clone();
    for (version, owned) in first.into_iter().chain(by_version) {
        let convert = |which: &str, object: &Versioned<'a>| {
            let converted = object.to(version, versions);
            converted.map_err(|why| format!("failed to convert {which} object at version {version}: {why}"))
        };
        let Some((converted, left)) = convert("merged", &merged)?.zip(convert("pruned", &pruned)?) else {
            continue;
        };
        let kept = all(&left).union(&named(&converted, &owned));
        pruned = without(&converted, &all(&converted).difference(&kept));
        merged = converted;
    }
    Ok(pruned)
}

/// Returns the fields of an object, and the declared ones above them.
fn all(object: &Versioned<'_>) -> Set {
    named(object, &fields(object.root(), &object.object))
}

fn named(object: &Versioned<'_>, set: &Set) -> Set {
    set.with_named_fields(Some(object.root()))
}

fn without<'a>(object: &Versioned<'a>, gone: &Set) -> Versioned<'a> {
    object.with(remove(object.root(), &object.object, gone, 0).unwrap_or(Value::Null))
}
