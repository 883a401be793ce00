//! The thread that adds the steps of a controller to its feed.

use std::sync::Mutex;
use std::sync::mpsc::Receiver;

use lockstep_engine::recording::learn::SecretTracker;
use lockstep_runtime::live::Update;
use tokio::sync::watch;

use super::feed::{Feed, lock};

/// The maximum number of updates that are added while the feed is locked.
const BATCH: usize = 256;

/// Adds all updates until they end.
pub(super) fn collect(
    updates: &Receiver<Update>,
    mut tracker: SecretTracker,
    feed: &Mutex<Feed>,
    changes: &watch::Sender<()>,
) {
    while let Ok(first) = updates.recv() {
        let mut feed = lock(feed);
        for update in std::iter::once(first).chain(updates.try_iter()).take(BATCH) {
            match update {
                Update::Step(step) => {
                    // What is secret is known before the step can be shown.
                    if let Some(update) = tracker.learn(&step.event) {
                        feed.redactor = update.redactor;
                    }
                    feed.step(*step);
                }
                Update::Workload(workload) => feed.measured(workload),
            }
        }
        drop(feed);
        changes.send_replace(());
    }
    lock(feed).end();
    changes.send_replace(());
}
