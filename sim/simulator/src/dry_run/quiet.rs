//! Runs a cluster until nothing changes any more.

use std::time::Duration;

use crate::cluster::{Cluster, Entry, FaultModel, What};

/// How long nothing may change before the cluster counts as quiet. It is longer than a resync and than every delay of a
/// controller.
const QUIET: Duration = Duration::from_mins(15);
/// Maximum time until the cluster is quiet.
const LONGEST: Duration = Duration::from_hours(2);
/// Maximum number of steps; more mean an endless loop.
const STEPS_MAX: usize = 1_000_000;

/// Runs a cluster until nothing has changed for 15 minutes. Returns whether that was so within two hours. Kubernetes Events are
/// no changes.
pub fn run_until_quiet<W: FaultModel>(cluster: &mut Cluster<W>) -> bool {
    let latest = cluster.elapsed() + LONGEST;
    let mut end = cluster.elapsed() + QUIET;
    let (mut seen, mut steps) = (cluster.journal.len(), 0);
    while steps < STEPS_MAX && cluster.step(end.min(latest)) {
        if cluster.journal[seen..].iter().any(is_change) {
            end = cluster.elapsed() + QUIET;
        }
        seen = cluster.journal.len();
        steps += 1;
    }
    cluster.advance(end.min(latest).saturating_sub(cluster.elapsed()));
    end <= latest && steps < STEPS_MAX
}

fn is_change(entry: &Entry) -> bool {
    matches!(&entry.what, What::Changed(change) if change.object.kind.kind != "Event")
}
