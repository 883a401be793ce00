//! Ends syncs of an outdated source that delay the current one.
//!
//! Argo CD runs one operation of an Application at a time, and retries a failed one with the source that it began with.
//! Between two attempts nothing runs. Then the operation is ended at once, and Argo CD begins with the current source. A hook
//! may never end, and its normal duration is unknown: it has [`GRACE`] after the change.

use std::time::Duration;

use lockstep_engine::object::Name;
use lockstep_engine::recorder::{Occurrence, Severity};
use lockstep_engine::time::{Monotonic, Now};
use serde::{Deserialize, Serialize};

use super::Controller;
use super::application::{App, of_service};
use super::world::{World, service_ref};

/// The time for which a sync may continue after the source has changed. Hooks such as migrations take minutes.
pub const GRACE: Duration = Duration::from_mins(5);

/// A sync of an outdated source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldUp {
    /// The Application.
    application: Name,
    /// When the sync began; this identifies it.
    started_at: String,
    /// The time since which it is known to be outdated.
    since: Monotonic,
}

impl World {
    /// Records which syncs delay a change of a service.
    pub fn note_held_up(&mut self, service: &Name, now: Now) {
        let known = self.held_up.remove(service).unwrap_or_default();
        let held_up = of_service(self, service).filter_map(|(name, app)| {
            let started_at = app.outdated()?.started_at.clone();
            let is_same = |held: &&HeldUp| held.application == *name && held.started_at == started_at;
            let since = known.iter().find(is_same).map_or(now.monotonic, |held| held.since);
            Some(HeldUp { application: name.clone(), started_at, since })
        });
        let held_up: Vec<HeldUp> = held_up.collect();
        if !held_up.is_empty() {
            self.held_up.insert(service.clone(), held_up);
        }
    }

    /// Returns the Applications of a service whose syncs have to be ended, because they delay a change.
    pub fn overdue(&self, service: &Name, now: Now) -> impl Iterator<Item = (&Name, &App)> {
        let held_up = self.held_up.get(service).into_iter().flatten();
        held_up.filter_map(move |held| {
            let app = self.applications.get(&held.application)?;
            let is_idle = app.outdated().is_some_and(|operation| operation.is_between_attempts);
            let is_overdue = is_idle || now.monotonic.since(held.since) >= GRACE;
            is_overdue.then_some((&held.application, app))
        })
    }

    /// Returns the delay until the next of them is overdue. If one could not be ended, it is retried after the same time.
    pub fn next_overdue(&self, service: &Name, now: Now) -> Option<Duration> {
        let rests = self.held_up.get(service)?.iter().map(|held| {
            let rest = GRACE.saturating_sub(now.monotonic.since(held.since));
            if rest.is_zero() { GRACE } else { rest }
        });
        rests.min()
    }
}

impl Controller {
    /// Reports that a sync was ended: its hook stops at its current point. The Application is the one in the server's answer:
    /// the watch may have shown more by then. For a terminating Application no Event is written.
    pub(super) fn report_ended(&mut self, service: &Name, application: &Name, app: &App, now: Now) {
        let world = &self.world;
        let operation = app.report.operation.as_ref().filter(|_| !app.deleting);
        let Some((of, operation)) = world.services.get(service).zip(operation) else { return };
        let cluster = world.title(&app.cluster);
        let note =
            format!("terminated a sync on {cluster} (Application {application}): {}", operation.holds_up());
        let occurrence = Occurrence {
            regarding: service_ref(service),
            uid: of.uid.clone(),
            severity: Severity::Warning,
            reason: "SyncTerminated".to_owned(),
            action: "Reconcile",
            note,
        };
        self.outbox.record(occurrence, now);
    }
}
