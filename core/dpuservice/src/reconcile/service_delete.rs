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

use std::collections::BTreeSet;
use std::time::Duration;

use lockstep_engine::action::{Action, Answer as _, Outcome, only};
use lockstep_engine::finalizer;
use lockstep_engine::object::Name;
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};

use super::status_writer::Reporting;
use super::survey::{selector, survey, surveyed};
use super::verdict::lagging;
use crate::desired::removal::next_removal;
use crate::model::application::App;
use crate::model::service::service_ref;
use crate::names::{FINALIZER, SERVICE_NAME, SERVICE_NAMESPACE};
use crate::state::Controller;
use crate::status::deletion::{waiting_for_applications, waiting_for_shared};

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

/// What the pass of a deletion continues with.
#[derive(Debug)]
pub(super) enum Step {
    /// A stage of the deletion.
    Deletion(Stage),
    /// A write of the status.
    Status(Reporting),
}

fn wait(actions: Vec<Action>, stage: Stage) -> Next<Step> {
    Next::Await(actions, Step::Deletion(stage))
}

impl Controller {
    pub(super) fn begin_removal(&mut self, key: &Name, now: Now) -> Next<Step> {
        let is_held = self
            .store
            .services
            .get(key)
            .is_some_and(|service| finalizer::is_held(&service.metadata, FINALIZER));
        if !is_held {
            return Next::Done(Verdict::Converged);
        }
        let left: Vec<(Name, App)> =
            self.store.of_service(key).map(|(name, app)| (name.clone(), app.clone())).collect();
        if !left.is_empty() {
            return self.remove_applications(key, &left, now);
        }
        let survey = survey(selector([SERVICE_NAMESPACE, SERVICE_NAME], key), true);
        wait(vec![survey], Stage::Surveying)
    }

    pub(super) fn resume_removal(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Step> {
        match stage {
            Stage::Surveying => self.removal_surveyed(key, outcomes, now),
            Stage::Removing(names) => self.applications_removed(key, &names, outcomes, now),
            Stage::Leaving => self.left(key, outcomes),
        }
    }

    fn removal_surveyed(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Step> {
        let found = match surveyed(&self.store, only(outcomes)) {
            Ok(found) => found,
            Err(failure) => {
                let verdict = Verdict::retry("listing Applications", &failure);
                return self.report_removal(key, BTreeSet::new(), Some((verdict, failure.message)), now);
            }
        };
        let left: Vec<(Name, App)> = found.into_iter().filter(|(_, app)| app.service == *key).collect();
        if left.is_empty() {
            return self.leave_shared(key, now);
        }
        self.remove_applications(key, &left, now)
    }

    fn remove_applications(&mut self, key: &Name, left: &[(Name, App)], now: Now) -> Next<Step> {
        let writes = left.iter().filter_map(|(name, app)| Some((name.clone(), next_removal(name, app)?)));
        let (names, writes): (Vec<Name>, Vec<Action>) = writes.unzip();
        if writes.is_empty() {
            let left = left.iter().map(|(name, _)| name.clone()).collect();
            return self.report_removal(key, left, None, now);
        }
        wait(writes, Stage::Removing(names))
    }

    fn applications_removed(
        &mut self,
        key: &Name,
        names: &[Name],
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Step> {
        let mut left = Vec::new();
        let mut failed = Vec::new();
        for (name, outcome) in names.iter().zip(outcomes) {
            match outcome.remaining() {
                Ok(Some(object)) => {
                    left.extend(App::read(&object).map(|app| (name.clone(), app)));
                    self.absorb_application(name, &object);
                }
                Ok(None) => self.application_removed(name),
                // It existed a moment ago. The watch shows when it is gone.
                Err(failure) if failure.is_absence() => return Next::Done(lagging()),
                Err(failure) => failed.push((name.clone(), failure)),
            }
        }
        match failed.first() {
            Some((name, failure)) => {
                let verdict = Verdict::retry("removing Applications", failure);
                let message = format!("{}: {}", name.name, failure.message);
                let left = left.into_iter().map(|(name, _)| name);
                let left = left.chain(failed.into_iter().map(|(name, _)| name)).collect();
                self.report_removal(key, left, Some((verdict, message)), now)
            }
            // They were deleted at once.
            None if left.is_empty() => self.begin_removal(key, now),
            None => self.remove_applications(key, &left, now),
        }
    }

    /// With the last service the shared objects are deleted.
    fn leave_shared(&mut self, key: &Name, now: Now) -> Next<Step> {
        let Some(service) = self.store.services.get(key) else { return Next::Done(Verdict::Converged) };
        if !self.store.is_wanted() && self.store.holds_shared() {
            let (wanted, changed) = waiting_for_shared(&self.store, service, now);
            // Each deletion enqueues the next key. This covers changes in between, and must not shorten the backoff of
            // failures.
            if wanted != service.status {
                self.wake_shared();
            }
            return self
                .write_status(key, &wanted, Verdict::Requeue(RECHECK), changed, now)
                .map(Step::Status);
        }
        match finalizer::remove(&service_ref(key), &service.metadata, FINALIZER) {
            Some(leave) => wait(vec![leave], Stage::Leaving),
            None => Next::Done(Verdict::Converged),
        }
    }

    /// Reports which Applications are left: these, which a survey or an answer has shown, and those of the cache. A batch of writes
    /// concerns only some of them.
    fn report_removal(
        &mut self,
        key: &Name,
        mut left: BTreeSet<Name>,
        failed: Option<(Verdict, String)>,
        now: Now,
    ) -> Next<Step> {
        let Some(service) = self.store.services.get(key) else { return Next::Done(Verdict::Converged) };
        left.extend(self.store.of_service(key).map(|(name, _)| name.clone()));
        let (verdict, failure) = match failed {
            Some((verdict, failure)) => (verdict, Some(failure)),
            None => (Verdict::Requeue(RECHECK), None),
        };
        let (wanted, changed) =
            waiting_for_applications(&self.store, service, &left, failure.as_deref(), now);
        self.write_status(key, &wanted, verdict, changed, now).map(Step::Status)
    }

    fn left(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Next<Step> {
        match only(outcomes).found() {
            Ok(Some(object)) => {
                self.confirm_service(key, &object);
                Next::Done(Verdict::Converged)
            }
            // Another client has removed it.
            Ok(None) => Next::Done(Verdict::Converged),
            Err(failure) => Next::Done(Verdict::retry("taking the finalizer out", &failure)),
        }
    }
}
