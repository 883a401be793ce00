//! Removes the orphans of a deleted service: Applications that a request of an earlier leader created too late, or that
//! stayed because another client removed the finalizer.
//!
//! ```text
//!  begin ─▶ Asking (is it really gone?) ─▶ Removing
//! ```

use lockstep_engine::action::{Action, Class, Outcome, Success};
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::object::Name;
use serde::{Deserialize, Serialize};

use super::application::{App, next_removal, of_service};
use super::service::{self, wait};
use super::world::{Service, service_ref};
use super::{Controller, lagging};

/// What the removal of orphans waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The service is being read.
    Asking,
    /// These Applications are being removed.
    Removing(Vec<Name>),
}

impl Controller {
    pub(super) fn begin_sweep(&mut self, key: &Name) -> Next<super::Stage> {
        if of_service(&self.world, key).all(|(name, app)| next_removal(name, app).is_none()) {
            return Next::Done(Verdict::Converged);
        }
        let read = Action::Get { target: service_ref(key), metadata_only: false };
        wait(vec![read], service::Stage::Sweeping(Stage::Asking))
    }

    pub(super) fn resume_sweep(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
    ) -> Next<super::Stage> {
        match stage {
            Stage::Asking => match outcomes.into_iter().next() {
                Some(Err(failure)) if failure.class == Class::NotFound => self.sweep(key),
                Some(Err(failure)) => Next::Done(Verdict::retry("reading the DPUService", &failure)),
                Some(Ok(Success::Object(object))) => {
                    let was_wanted = self.world.is_wanted();
                    self.world.services.absorb(key.clone(), Service::read(&object));
                    self.service_changed(was_wanted);
                    Next::Done(lagging())
                }
                _ => Next::Done(lagging()),
            },
            Stage::Removing(names) => self.swept(key, &names, outcomes),
        }
    }

    fn sweep(&mut self, key: &Name) -> Next<super::Stage> {
        let writes = of_service(&self.world, key)
            .filter_map(|(name, app)| Some((name.clone(), next_removal(name, app)?)));
        let (names, writes): (Vec<Name>, Vec<Action>) = writes.unzip();
        wait(writes, service::Stage::Sweeping(Stage::Removing(names)))
    }

    fn swept(&mut self, key: &Name, names: &[Name], outcomes: Vec<Outcome>) -> Next<super::Stage> {
        let mut failed = None;
        for (name, outcome) in names.iter().zip(outcomes) {
            match outcome {
                Ok(Success::Object(object)) => self.absorb_application(name, App::read(&object)),
                Ok(_) => self.application_removed(name),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) => Next::Done(Verdict::retry("removing an Application", &failure)),
            None => self.begin_sweep(key),
        }
    }
}
