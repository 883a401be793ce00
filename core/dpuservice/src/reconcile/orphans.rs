//! Removes the orphans of a deleted service: Applications that a request of an earlier leader created too late, or that
//! stayed because another client removed the finalizer.
//!
//! ```text
//!  begin ─▶ Asking (is it really gone?) ─▶ Removing
//! ```

use lockstep_engine::action::{Action, Answer as _, KubeRequest, Outcome, only};
use lockstep_engine::object::Name;
use lockstep_engine::scheduler::{Next, Verdict};
use serde::{Deserialize, Serialize};

use super::verdict::lagging;
use crate::desired::removal::next_removal;
use crate::model::service::service_ref;
use crate::state::Controller;

/// What the removal of orphans waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The service is being read.
    Asking,
    /// These Applications are being removed.
    Removing(Vec<Name>),
}

impl Controller {
    pub(super) fn begin_sweep(&mut self, key: &Name) -> Next<Stage> {
        if self.store.of_service(key).all(|(name, app)| next_removal(name, app).is_none()) {
            return Next::Done(Verdict::Converged);
        }
        let read = Action::Kube(KubeRequest::Get { target: service_ref(key), metadata_only: false });
        Next::Await(vec![read], Stage::Asking)
    }

    pub(super) fn resume_sweep(&mut self, key: &Name, stage: Stage, outcomes: Vec<Outcome>) -> Next<Stage> {
        match stage {
            Stage::Asking => match only(outcomes).found() {
                Ok(None) => self.sweep(key),
                Err(failure) => Next::Done(Verdict::retry("reading the DPUService", &failure)),
                Ok(Some(object)) => {
                    self.absorb_service(key, &object);
                    Next::Done(lagging())
                }
            },
            Stage::Removing(names) => self.swept(key, &names, outcomes),
        }
    }

    fn sweep(&mut self, key: &Name) -> Next<Stage> {
        let writes = self
            .store
            .of_service(key)
            .filter_map(|(name, app)| Some((name.clone(), next_removal(name, app)?)));
        let (names, writes): (Vec<Name>, Vec<Action>) = writes.unzip();
        Next::Await(writes, Stage::Removing(names))
    }

    fn swept(&mut self, key: &Name, names: &[Name], outcomes: Vec<Outcome>) -> Next<Stage> {
        let mut failed = None;
        for (name, outcome) in names.iter().zip(outcomes) {
            match outcome.remaining() {
                Ok(Some(object)) => self.absorb_application(name, &object),
                Ok(None) => self.application_removed(name),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) => Next::Done(Verdict::retry("removing an Application", &failure)),
            None => self.begin_sweep(key),
        }
    }
}
