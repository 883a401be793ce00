//! The other processes of a control plane: clients with delays of their own.

use jiff::Timestamp;

use super::state::ApiServer;

mod accounts;
mod cursor;
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
