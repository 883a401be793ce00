//! The changes that an actor has not seen yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::server::registry::Resource;
use crate::server::state::ApiServer;
use crate::server::store::{Change, Prefix, Store, TableId};

/// The position of an actor in the log.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    seen: u64,
    tables: BTreeMap<TableId, u64>,
}

/// The changes of one table.
pub(super) enum TableUpdate {
    /// Single changes.
    Changes(Vec<Change>),
    /// The history was compacted: this is the whole state.
    Relist(Vec<Change>),
}

impl Cursor {
    /// Returns the changes since the last call in the resources that `wants` selects.
    pub(super) fn poll(
        &mut self,
        server: &ApiServer,
        wants: impl Fn(&Resource) -> bool,
    ) -> Vec<(Arc<Resource>, TableUpdate)> {
        let revision = server.store.revision();
        if std::mem::replace(&mut self.seen, revision) == revision {
            return Vec::new();
        }
        let mut updates = Vec::new();
        for resource in server.registry.all().filter(|resource| wants(resource)) {
            let table = resource.table;
            let cursor = self.tables.entry(table).or_default();
            if server.store.changed(table) <= *cursor {
                continue;
            }
            let item = match server.store.since(table, *cursor) {
                Ok(changes) => TableUpdate::Changes(changes.cloned().collect()),
                Err(_) => TableUpdate::Relist(state(&server.store, table)),
            };
            *cursor = revision;
            updates.push((Arc::clone(resource), item));
        }
        updates
    }
}

/// Returns the current objects of a table, as if each had just been stored.
fn state(store: &Store, table: TableId) -> Vec<Change> {
    let all = Prefix::namespace("");
    store
        .list(table, &all, None)
        .map(|(key, object)| Change {
            revision: store.revision(),
            key: Arc::clone(key),
            old: None,
            object: Arc::clone(object),
            deleted: false,
        })
        .collect()
}

/// Returns the time after a delay.
pub(super) fn after(now: Timestamp, delay: SignedDuration) -> Timestamp {
    now.saturating_add(delay).expect("a signed duration is no calendar unit")
}
