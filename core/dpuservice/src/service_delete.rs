//! The deletion of a service: its Applications are removed first. With the last service, the shared objects follow. Then the
//! finalizer of the service is removed.
//!
//! ```text
//!  begin ─▶ Removing ─▶ Reporting ─▶ again, when an object is gone
//!    │
//!    └─ none is known ─▶ Surveying ─┬─ others stay ────────────────────▶ Leaving
//!                                   └─ the last one ─▶ AppProject and Secrets are gone ─▶ Leaving
//! ```
//!
//! When the cache contains no Applications any more, they are listed: a stale cache must not end the deletion of the service
//! before theirs.
//!
//! Source: "Reconcile deletion if needed"; decisions on shared objects.

use std::time::Duration;

use lockstep_engine::action::{Action, Class, Outcome, Success};
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::finalizer;
use lockstep_engine::object::Name;
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::application::{self, App, next_removal, of_service};
use super::names::{FINALIZER, SERVICE_NAME, SERVICE_NAMESPACE};
use super::service::{self, wait};
use super::world::{Service, service_ref};
use super::{Controller, lagging, status};

/// The interval at which the remaining objects are checked again.
const RECHECK: Duration = Duration::from_secs(30);

/// What a deletion waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The Applications are being listed.
    Surveying,
    /// These Applications are being removed.
    Removing(Vec<Name>),
    /// The finalizer is being removed.
    Leaving,
}

fn wait_for(actions: Vec<Action>, stage: Stage) -> Next<super::Stage> {
    wait(actions, service::Stage::Removing(stage))
}

impl Controller {
    pub(super) fn begin_removal(&mut self, key: &Name, now: Now) -> Next<super::Stage> {
        let is_held = self
            .world
            .services
            .get(key)
            .is_some_and(|service| finalizer::is_held(&service.metadata, FINALIZER));
        if !is_held {
            return Next::Done(Verdict::Converged);
        }
        let left: Vec<(Name, App)> =
            of_service(&self.world, key).map(|(name, app)| (name.clone(), app.clone())).collect();
        if !left.is_empty() {
            return self.remove_applications(key, &left, now);
        }
        let survey = application::survey(application::selector([SERVICE_NAMESPACE, SERVICE_NAME], key));
        wait_for(vec![survey], Stage::Surveying)
    }

    pub(super) fn resume_removal(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        match stage {
            Stage::Surveying => self.removal_surveyed(key, outcomes, now),
            Stage::Removing(names) => self.applications_removed(key, &names, outcomes, now),
            Stage::Leaving => self.left(key, outcomes),
        }
    }

    fn removal_surveyed(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<super::Stage> {
        let found = match application::surveyed(outcomes.into_iter().next()) {
            Ok(found) => found,
            Err(Some(failure)) => {
                let verdict = Verdict::retry("listing Applications", &failure);
                return self.report_removal(key, &[], Some((verdict, failure.message)), now);
            }
            Err(None) => return Next::Done(lagging()),
        };
        let left: Vec<(Name, App)> = found.into_iter().filter(|(_, app)| app.service == *key).collect();
        if left.is_empty() {
            return self.leave_shared(key, now);
        }
        self.remove_applications(key, &left, now)
    }

    fn remove_applications(&mut self, key: &Name, left: &[(Name, App)], now: Now) -> Next<super::Stage> {
        let writes = left.iter().filter_map(|(name, app)| Some((name.clone(), next_removal(name, app)?)));
        let (names, writes): (Vec<Name>, Vec<Action>) = writes.unzip();
        if writes.is_empty() {
            return self.report_removal(key, left, None, now);
        }
        wait_for(writes, Stage::Removing(names))
    }

    fn applications_removed(
        &mut self,
        key: &Name,
        names: &[Name],
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<super::Stage> {
        let mut left = Vec::new();
        let mut failed = None;
        for (name, outcome) in names.iter().zip(outcomes) {
            match outcome {
                Ok(Success::Object(object)) => {
                    let app = App::read(&object);
                    left.extend(app.clone().map(|app| (name.clone(), app)));
                    self.absorb_application(name, app);
                }
                Ok(_) => self.application_removed(name),
                // It existed a moment ago. The watch shows when it is gone.
                Err(failure) if failure.class == Class::NotFound => return Next::Done(lagging()),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) => {
                let verdict = Verdict::retry("removing Applications", &failure);
                self.report_removal(key, &left, Some((verdict, failure.message)), now)
            }
            // They were deleted at once.
            None if left.is_empty() => self.begin_removal(key, now),
            None => self.remove_applications(key, &left, now),
        }
    }

    /// With the last service the shared objects are deleted.
    fn leave_shared(&mut self, key: &Name, now: Now) -> Next<super::Stage> {
        let Some(service) = self.world.services.get(key) else { return Next::Done(Verdict::Converged) };
        if !self.world.is_wanted() && self.world.holds_shared() {
            let (wanted, changed) = status::awaiting_shared(&self.world, service, now);
            // Each deletion enqueues the next key. This covers changes in between, and must not shorten the backoff of
            // failures.
            if wanted != service.status {
                self.wake_shared();
            }
            return self.write_status(key, &wanted, Verdict::Requeue(RECHECK), changed, now);
        }
        match finalizer::remove(&service_ref(key), &service.metadata, FINALIZER) {
            Some(leave) => wait_for(vec![leave], Stage::Leaving),
            None => Next::Done(Verdict::Converged),
        }
    }

    fn report_removal(
        &mut self,
        key: &Name,
        left: &[(Name, App)],
        failed: Option<(Verdict, String)>,
        now: Now,
    ) -> Next<super::Stage> {
        let Some(service) = self.world.services.get(key) else { return Next::Done(Verdict::Converged) };
        let (verdict, failure) = match failed {
            Some((verdict, failure)) => (verdict, Some(failure)),
            None => (Verdict::Requeue(RECHECK), None),
        };
        let (wanted, changed) =
            status::awaiting_applications(&self.world, service, left, failure.as_deref(), now);
        self.write_status(key, &wanted, verdict, changed, now)
    }

    fn left(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Next<super::Stage> {
        match outcomes.into_iter().next() {
            Some(Ok(Success::Object(object))) => {
                self.world.services.absorb(key.clone(), Service::read(&object));
                Next::Done(Verdict::Converged)
            }
            // Another client has removed it.
            Some(Err(failure)) if failure.class == Class::NotFound => Next::Done(Verdict::Converged),
            Some(Err(failure)) => Next::Done(Verdict::retry("taking the finalizer out", &failure)),
            _ => Next::Done(lagging()),
        }
    }
}
