//! The verdict of a pass that has to begin again.

use lockstep_engine::scheduler::Verdict;

/// Returns the verdict that an answer contradicts the cache.
pub(crate) fn lagging() -> Verdict {
    Verdict::because("the cache lags behind the cluster")
}
