//! Syncs of what is not wanted any more, which hold up what is.
//!
//! Argo CD has one operation of an Application under way at a time, and tries one that fails again with the source that it began with.
//! Between two attempts nothing runs: then the operation is ended at once, and Argo CD begins with what is wanted. A hook may
//! never end, and it can't be known how long one may take: it has [`GRACE`] after the change.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Controller;
use super::application::{App, of_service};
use super::world::{World, service_ref};
use crate::engine::recorder::{Occurrence, Severity};
use crate::object::Name;
use crate::time::{Monotonic, Now};

/// How long a sync may go on after something else is wanted. Hooks such as migrations take minutes.
pub const GRACE: Duration = Duration::from_mins(5);

/// A sync of what is not wanted any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldUp {
    /// The Application.
    application: Name,
    /// When the sync began, by which it is known.
    started_at: String,
    /// Since when it is known that something else is wanted.
    since: Monotonic,
}

impl World {
    /// Notes which syncs hold up a change of a service.
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

    /// The Applications of a service whose syncs are to be ended, because they hold up a change.
    pub fn overdue(&self, service: &Name, now: Now) -> impl Iterator<Item = (&Name, &App)> {
        let held_up = self.held_up.get(service).into_iter().flatten();
        held_up.filter_map(move |held| {
            let app = self.applications.get(&held.application)?;
            let is_idle = app.outdated().is_some_and(|operation| operation.is_between_attempts);
            let is_overdue = is_idle || now.monotonic.since(held.since) >= GRACE;
            is_overdue.then_some((&held.application, app))
        })
    }

    /// When the next of them will have. What could not be ended is tried again as long after.
    pub fn next_overdue(&self, service: &Name, now: Now) -> Option<Duration> {
        let rests = self.held_up.get(service)?.iter().map(|held| {
            let rest = GRACE.saturating_sub(now.monotonic.since(held.since));
            if rest.is_zero() { GRACE } else { rest }
        });
        rests.min()
    }
}

impl Controller {
    /// Reports that a sync is ended: its hook is stopped wherever it is. The Application is as the server has answered: the watch may
    /// have shown more by then. One that is removed is not worth an Event.
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
