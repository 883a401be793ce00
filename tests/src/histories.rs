//! Histories of concurrent clients, and their checks.
//!
//! ```text
//!   workload ──► clients ──► API server        calls: linearizability, resource versions, lists
//!                   │             │             watches: content, order, completeness, bookmarks
//!                   └─ calls      └─ watches ──► history ──► check ──► violations
//! ```
//!
//! [`record`] lets clients send requests about a few `ConfigMap`s of one namespace at the same time, while watches are open. A
//! [`History`] has the order in which calls began and ended, and no times. [`check`] is a function of the history alone, so it also
//! judges histories that no server produced.

mod changes;
mod client;
mod figures;
mod floors;
mod history;
mod linearizability;
mod lists;
mod maps;
mod model;
mod record;
mod versions;
mod violation;
mod watcher;
mod watches;
mod workload;

pub use self::figures::Figures;
pub use self::history::{Answer, Call, Data, History, LAST, Request, Start, Stored, Watch, WatchEvent};
pub use self::record::{Plan, record};
pub use self::violation::{Check, Violation};
pub use self::workload::{NAMES, Workload};

use self::changes::Changes;
use self::floors::Floors;

/// Returns everything in a history that a correct API server does not do.
pub fn check(history: &History) -> Vec<Violation> {
    let (changes, mut violations) = Changes::collect(history);
    let floors = Floors::of(history, &changes);
    violations.extend(linearizability::check(history));
    violations.extend(versions::check(history, &changes, &floors));
    violations.extend(lists::check(history, &changes, &floors));
    violations.extend(watches::check(history, &changes, &floors));
    violations
}
