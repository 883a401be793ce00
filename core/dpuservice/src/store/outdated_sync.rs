//! Syncs of an outdated source, which delay the current one.
//!
//! Argo CD runs one operation of an Application at a time, and retries a failed one with the source that it began with.
//! Between two attempts nothing runs. Then the operation is ended at once, and Argo CD begins with the current source. A hook
//! may never end, and its normal duration is unknown: it has [`GRACE`] after the change.

use std::time::Duration;

use lockstep_engine::object::Name;
use lockstep_engine::time::{Monotonic, Now};
use serde::{Deserialize, Serialize};

use crate::model::application::App;

/// The time for which a sync may continue after the source has changed. Hooks such as migrations take minutes.
pub const GRACE: Duration = Duration::from_mins(5);

/// A sync of an outdated source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldUp {
    /// The Application.
    pub application: Name,
    /// When the sync began; this identifies it.
    started_at: String,
    /// The time since which it is known to be outdated.
    since: Monotonic,
}

impl HeldUp {
    /// Returns the outdated sync of an Application, if there is one. The time of a known one is kept.
    pub(super) fn of(name: &Name, app: &App, known: &[Self], now: Now) -> Option<Self> {
        let started_at = app.outdated()?.started_at.clone();
        let is_same = |held: &&Self| held.application == *name && held.started_at == started_at;
        let since = known.iter().find(is_same).map_or(now.monotonic, |held| held.since);
        Some(Self { application: name.clone(), started_at, since })
    }

    /// Returns whether it has to be ended.
    pub(super) fn is_overdue(&self, app: &App, now: Now) -> bool {
        let is_idle = app.outdated().is_some_and(|operation| operation.is_between_attempts);
        is_idle || now.monotonic.since(self.since) >= GRACE
    }

    /// Returns the delay until it is overdue. If it could not be ended, it is retried after the same time.
    pub(super) fn rest(&self, now: Now) -> Duration {
        let rest = GRACE.saturating_sub(now.monotonic.since(self.since));
        if rest.is_zero() { GRACE } else { rest }
    }
}
