//! A dry run: what controllers would write after a change, computed from a snapshot of a cluster.
//!
//! ```text
//!   snapshot ─▶ API server model ─▶ run until quiet ─▶ changes ─▶ run until quiet ─▶ forecast
//!      ▲                                │                               │
//!      └────────── missing reads ◀──────┴───────────────────────────────┘
//! ```
//!
//! The caller does the I/O. It starts with an empty snapshot, executes the missing reads on the cluster, adds the answers and
//! repeats the dry run until nothing is missing. So a dry run reads what the controllers read, and nothing else. It never
//! requests a write.

mod external;
mod incomplete;
mod quiet;
mod reads;
mod snapshot;
mod write;

use std::rc::Rc;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::action::KubeRequest;
use lockstep_engine::machine::Machine;
use lockstep_engine::wire;

use self::external::RecordedImages;
pub use self::incomplete::Incomplete;
pub use self::quiet::run_until_quiet;
use self::reads::Reads;
pub use self::snapshot::Snapshot;
pub use self::write::{Write, writes};
use crate::cluster::{Author, Cluster, Entry, NoFaults};

/// The author of the planned changes in the journal.
pub const USER: Author = Author::Client("user");

/// Creates the machine of one controller.
pub type Make = Rc<dyn Fn() -> Box<dyn Machine>>;

/// The result of a dry run.
#[derive(Debug)]
pub struct Forecast {
    /// What the controllers would write without the changes, in order.
    pub pending: Vec<Write>,
    /// The planned changes and what follows from them, in order.
    pub writes: Vec<Write>,
    /// Whether the writes came to an end before the dry run did.
    pub is_quiet: bool,
    /// The final state of the cluster.
    pub server: ApiServer,
    /// Everything that happened in the dry run. It contains the values of Secrets.
    pub journal: Vec<Entry>,
}

/// Computes what the controllers would write after the changes, which are writes by a field manager.
pub fn dry_run(
    snapshot: &Snapshot,
    controllers: &[Make],
    changes: &[KubeRequest],
    field_manager: &str,
) -> Result<Forecast, Incomplete> {
    let mut cluster = Cluster::around(snapshot.server(), snapshot.at(), NoFaults);
    cluster.outside = Some(Box::new(RecordedImages::of(snapshot)));
    let mut reads = Reads::new(snapshot);
    reads.owners(&cluster.server);
    for make in controllers {
        let make = Rc::clone(make);
        cluster.start(move || make(), true);
    }
    let was_quiet = run_until_quiet(&mut cluster);
    reads.requests(&cluster.server, &cluster.journal);
    for change in changes {
        reads.kube(&cluster.server, change);
    }
    reads.check()?;
    let mut journal = std::mem::take(&mut cluster.journal);
    let pending = writes(&journal);
    for change in changes {
        request(&mut cluster, change, field_manager)?;
    }
    let is_quiet = run_until_quiet(&mut cluster) && was_quiet;
    reads.requests(&cluster.server, &cluster.journal);
    reads.check()?;
    let writes = writes(&cluster.journal);
    journal.append(&mut cluster.journal);
    Ok(Forecast { pending, writes, is_quiet, server: cluster.server, journal })
}

fn request(
    cluster: &mut Cluster<NoFaults>,
    change: &KubeRequest,
    field_manager: &str,
) -> Result<(), Incomplete> {
    let answer = wire::encode(change, field_manager).and_then(|request| {
        let answer = cluster.request_as(USER, &request.map(Into::into));
        wire::decode(change, answer.status(), None, answer.body())
    });
    match (answer, change.target()) {
        (Err(failure), Some(target)) => Err(Incomplete::Refused { target: target.clone(), failure }),
        _ => Ok(()),
    }
}
