//! The kinds that the cluster serves, by API version, as far as they were discovered.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::action::Failure;
use lockstep_engine::doubts::Doubts;
use lockstep_engine::object::Kind;
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

/// The kinds that the cluster serves, by API version, as far as they were discovered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kinds {
    served: BTreeMap<String, BTreeMap<String, Arc<Kind>>>,
    /// The API versions whose discovery failed.
    failed: BTreeMap<String, Failure>,
    /// The API versions that are said not to be served.
    #[serde(default)]
    unserved: Doubts<String>,
}

impl Kinds {
    /// Returns a kind, if it is known to be served.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        self.served.get(api_version)?.get(kind).cloned()
    }

    /// Stores the kinds that an API version serves, and replaces what was stored before.
    pub fn learn(&mut self, api_version: &str, served: Vec<Arc<Kind>>) {
        let by_name = served.into_iter().map(|kind| (kind.kind.clone(), kind)).collect();
        self.failed.remove(api_version);
        self.unserved.end(&api_version.to_owned());
        self.served.insert(api_version.to_owned(), by_name);
    }

    /// Records the answer that an API version is not served, and so has no kinds.
    pub fn miss(&mut self, api_version: &str, now: Now) {
        self.failed.remove(api_version);
        self.unserved.believes(api_version.to_owned(), now.monotonic);
        self.served.insert(api_version.to_owned(), BTreeMap::new());
    }

    /// Returns whether that answer may not last. Then objects of its kinds may still exist.
    pub fn may_return(&self, api_version: &str) -> bool {
        self.unserved.is_doubted(&api_version.to_owned())
    }

    /// Records that discovery of an API version failed. A failure of the same class as before keeps its message. A changed
    /// message would be reported in every namespace.
    pub fn fail(&mut self, api_version: &str, failure: Failure) {
        if self.failure(api_version).is_none_or(|known| known.class != failure.class) {
            self.failed.insert(api_version.to_owned(), failure);
        }
    }

    /// Returns why the discovery of an API version failed.
    pub fn failure(&self, api_version: &str) -> Option<&Failure> {
        self.failed.get(api_version)
    }

    /// Returns whether an API version was discovered, or its discovery failed.
    pub fn is_discovered(&self, api_version: &str) -> bool {
        self.served.contains_key(api_version) || self.failed.contains_key(api_version)
    }

    /// Removes an API version, because one of its kinds turned out to be gone.
    pub fn forget(&mut self, api_version: &str) {
        self.served.remove(api_version);
    }
}

#[cfg(test)]
mod tests {
    use lockstep_engine::outcome::ErrorKind;

    use super::*;

    #[test]
    fn a_failure_of_another_class_replaces_one_of_discovery() {
        let mut kinds = Kinds::default();
        for (class, message, kept) in [
            (ErrorKind::Unavailable, "a", "a"),
            (ErrorKind::Unavailable, "b", "a"),
            (ErrorKind::Forbidden, "c", "c"),
        ] {
            kinds.fail("v1", Failure::new(class, message));
            assert_eq!(kinds.failure("v1").map(|failure| &*failure.message), Some(kept));
        }
        kinds.learn("v1", Vec::new());
        assert!(kinds.failure("v1").is_none(), "it has succeeded since");
    }
}
