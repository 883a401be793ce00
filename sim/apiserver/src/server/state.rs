//! The state of the server, below all operations on it.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::ids::Ids;
use super::registry::Registry;
use super::store::Store;
use super::watch::Watches;

/// The server.
#[derive(Debug, Clone)]
pub struct ApiServer {
    /// Copies of a server share it until one of them changes a CRD.
    pub(super) registry: Arc<Registry>,
    pub(super) store: Store,
    pub(super) watches: Watches,
    pub(super) ids: Ids,
    /// The ids of requests, apart from those of objects: reads must not change the objects that follow.
    pub(super) audit_ids: Ids,
    /// The time of the current request or tick.
    pub(super) now: Timestamp,
}

impl ApiServer {
    /// Returns the resource version of the latest change.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// Drops the history: lists and watches from older resource versions are answered with 410.
    pub fn compact(&mut self) {
        self.store.compact();
    }

    /// Finds an object by group, plural name and store key.
    pub(super) fn find(&self, group: &str, plural: &str, key: &str) -> Option<&Arc<Value>> {
        self.store.get(self.registry.get(group, plural)?.table, key)
    }
}
