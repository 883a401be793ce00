//! The changes of an object in each version in which managers own its fields.

use std::collections::BTreeMap;

use super::compare::Changes;
use super::set::Set;
use super::versioned::Versioned;
use super::versions::Versions;

/// What differs between two objects in one version, without the fields that the endpoint never changes.
#[derive(Debug)]
pub(super) struct Difference {
    pub(super) removed: Set,
    /// Modified and added fields.
    pub(super) set: Set,
}

impl Difference {
    fn between(old: &Versioned<'_>, new: &Versioned<'_>) -> Self {
        let reset = Set::of(old.reset);
        let Changes { removed, modified, added } =
            Changes::between(old.root(), &old.object, &new.object).ignoring(&reset);
        Self { removed, set: modified.union(&added) }
    }
}

/// The differences between two objects, by version. Versions other than that of the request are compared on demand.
pub(super) struct Differences<'a> {
    old: Versioned<'a>,
    new: Versioned<'a>,
    versions: &'a dyn Versions,
    own: Difference,
    others: BTreeMap<String, Option<Difference>>,
}

impl<'a> Differences<'a> {
    pub(super) fn between(old: Versioned<'a>, new: Versioned<'a>, versions: &'a dyn Versions) -> Self {
        let own = Difference::between(&old, &new);
        Self { old, new, versions, own, others: BTreeMap::new() }
    }

    /// Returns the difference in the version of the request.
    pub(super) fn own(&self) -> &Difference {
        &self.own
    }

    /// Compares the objects in a version, unless that was done before.
    ///
    /// # Errors
    /// If an object does not match the type of the version.
    pub(super) fn compare(&mut self, api_version: &str) -> Result<(), String> {
        if self.old.api_version == api_version || self.others.contains_key(api_version) {
            return Ok(());
        }
        let convert = |which: &str, object: &Versioned<'a>| {
            let converted = object.to(api_version, self.versions);
            converted.map_err(|why| format!("failed to convert {which} object: {why}"))
        };
        let pair = convert("old", &self.old)?.zip(convert("new", &self.new)?);
        let difference = pair.map(|(old, new)| Difference::between(&old, &new));
        self.others.insert(api_version.to_owned(), difference);
        Ok(())
    }

    /// Returns the difference in a version that was compared, or none if there is no such version.
    pub(super) fn in_version(&self, api_version: &str) -> Option<&Difference> {
        if self.old.api_version == api_version {
            return Some(&self.own);
        }
        self.others.get(api_version)?.as_ref()
    }
}
