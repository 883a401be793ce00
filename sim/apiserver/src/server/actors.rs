//! The other processes of a control plane: clients with delays of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::ApiServer;
use super::registry::Resource;
use super::store::{Change, TableId};

mod accounts;
mod garbage;
mod namespaces;
mod protection;

pub use self::accounts::Accounts;
pub use self::garbage::GarbageCollector;
pub use self::namespaces::NamespaceController;
pub use self::protection::StorageProtection;

/// The actors of a whole control plane.
#[derive(Debug, Clone, Default)]
pub struct Actors {
    /// Deletes objects with missing owners.
    pub garbage: GarbageCollector,
    /// Empties namespaces that are being deleted.
    pub namespaces: NamespaceController,
    /// Releases volumes and claims that are no longer in use.
    pub protection: StorageProtection,
    /// Creates the default objects of namespaces, if enabled.
    pub accounts: Option<Accounts>,
}

impl Actors {
    /// Returns all actors, with the one for the default objects of namespaces.
    pub fn with_accounts() -> Self {
        Self { accounts: Some(Accounts::default()), ..Self::default() }
    }

    /// Runs the due work of each actor; returns whether one of them wrote something.
    pub fn tick(&mut self, server: &mut ApiServer, now: Timestamp) -> bool {
        let before = server.revision();
        self.garbage.tick(server, now);
        self.namespaces.tick(server, now);
        self.protection.tick(server, now);
        if let Some(accounts) = &mut self.accounts {
            accounts.tick(server, now);
        }
        server.revision() != before
    }

    /// Returns when the next work is due, if nothing changes until then.
    pub fn next_due(&self) -> Option<Timestamp> {
        let accounts = self.accounts.iter().filter_map(Accounts::next_due);
        self.garbage.next_due().into_iter().chain(self.namespaces.next_due()).chain(accounts).min()
    }
}

/// The position of an actor in the log.
#[derive(Debug, Clone, Default)]
struct Cursor {
    seen: u64,
    tables: BTreeMap<TableId, u64>,
}

/// The changes of one table.
enum News {
    /// Single changes.
    Changes(Vec<Change>),
    /// The history was compacted: this is the whole state.
    Relist(Vec<Change>),
}

impl Cursor {
    /// Returns the changes since the last call in the resources that `wants` selects.
    fn news(&mut self, server: &ApiServer, wants: impl Fn(&Resource) -> bool) -> Vec<(Arc<Resource>, News)> {
        let revision = server.store.revision();
        if std::mem::replace(&mut self.seen, revision) == revision {
            return Vec::new();
        }
        let mut news = Vec::new();
        for resource in server.registry.all().filter(|resource| wants(resource)) {
            let table = resource.table;
            let cursor = self.tables.entry(table).or_default();
            if server.store.changed(table) <= *cursor {
                continue;
            }
            let item = match server.store.since(table, *cursor) {
                Ok(changes) => News::Changes(changes.cloned().collect()),
                Err(_) => News::Relist(server.state(table)),
            };
            *cursor = revision;
            news.push((Arc::clone(resource), item));
        }
        news
    }
}

impl ApiServer {
    /// Returns the current objects of a table, as if each had just been stored.
    fn state(&self, table: TableId) -> Vec<Change> {
        let all = super::store::Prefix::namespace("");
        self.store
            .list(table, &all, None)
            .map(|(key, object)| Change {
                revision: self.store.revision(),
                key: Arc::clone(key),
                old: None,
                object: Arc::clone(object),
                deleted: false,
            })
            .collect()
    }
}

/// Returns the time after a delay.
fn after(now: Timestamp, delay: SignedDuration) -> Timestamp {
    now.saturating_add(delay).expect("a signed duration is no calendar unit")
}
