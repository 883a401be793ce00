//! Runs workers. It is a foreign controller: it reports workers as ready after a while, and delays their deletion.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, Name, generation, is_deleting, precondition};
use lockstep_engine::scheduler::Verdict;
use serde_json::json;

use crate::controller::{Controller, Seen};
use crate::kinds::worker;
use crate::pass::{Pass, Stop};

/// The finalizer of workers that run.
pub const FINALIZER: &str = "museum.example.com/kubelet";
/// How long a worker takes to start and to end.
const PACE: Duration = Duration::from_secs(5);

/// Runs workers.
#[derive(Debug, Clone, Copy)]
pub struct Kubelet;

impl Controller for Kubelet {
    const NAME: &'static str = "kubelet";

    fn watches(&self) -> Vec<Arc<Kind>> {
        vec![worker()]
    }

    fn keys(&self, seen: &Seen<'_>) -> Vec<Name> {
        vec![Name::of(seen.object)]
    }

    fn reconcile(&self, key: &Name, pass: &mut Pass<'_>) -> Result<Verdict, Stop> {
        let target = key.object(&worker());
        let Some(found) = pass.get(&target)? else { return Ok(Verdict::Converged) };
        let is_current = found["status"]["observedGeneration"] == generation(&found);
        if is_current && !is_deleting(&found) {
            pass.memory = 0;
            return Ok(Verdict::Converged);
        }
        if pass.memory == 0 {
            pass.memory = 1;
            return Ok(Verdict::Requeue(PACE));
        }
        pass.memory = 0;
        let write = if is_deleting(&found) {
            finalizer::remove(&target, &found, FINALIZER)
        } else {
            let status = json!({ "ready": true, "observedGeneration": generation(&found) });
            let patch = Arc::new(json!({ "metadata": precondition(&found), "status": status }));
            Some(Action::Kube(KubeRequest::Patch { target, subresource: Some(Subresource::Status), patch }))
        };
        match write {
            Some(write) => pass.write(write).map(|()| Verdict::Converged),
            None => Ok(Verdict::Converged),
        }
    }
}
