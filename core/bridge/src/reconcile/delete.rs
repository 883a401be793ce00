//! The deletion of a hosted cluster: everything that was created for a bridge is deleted before the bridge.
//!
//! ```text
//!  Announcing ─▶ Surveying ─▶ Acting ─▶ Acting … ─▶ Reporting ─▶ again in 10 s
//!                    │
//!                    └─ nothing is left ─▶ Leaving
//! ```
//!
//! Everything is read again each time, so a crash at any point does no harm. If a CRD is gone, its objects count as gone.
//! Objects that do not belong to the bridge are not changed. The garbage collector deletes the Secrets in the bridge's own
//! namespace after the bridge: HyperShift needs them until its cluster is gone.
//!
//! Source: "Finalizer Management".

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockstep_crds::bridge::DPFHCPBridgeStatus;
use lockstep_engine::action::{Action, Answer as _, Class, Failure, KubeRequest, Outcome, only};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::driver::{Next, Verdict};
use lockstep_engine::object::{Name, Uid, is_controlled_by, is_deleting, precondition, text};
use lockstep_engine::recorder::Severity;
use lockstep_engine::time::Now;
use lockstep_engine::{finalizer, write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::controller::Controller;
use crate::desired::secret_copy;
use crate::model::Lookup;
use crate::model::bridge::Bridge;
use crate::model::secret::SecretRole;
use crate::names::{self, FINALIZER, bridge_ref, condition, reason};
use crate::phase::Phase;
use crate::{events, retry, status};

/// The interval at which the remaining objects are read again.
const RECHECK: Duration = Duration::from_secs(10);

/// What a deletion waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The phase is being written.
    Announcing,
    /// The remaining objects are being read.
    Surveying,
    /// One object is being removed; further ones follow.
    Acting(Removal),
    /// The status is being written.
    Reporting(Verdict),
    /// The finalizer is being removed.
    Leaving,
}

/// A removal in progress.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Removal {
    /// The actions to execute, with the objects that they remove.
    steps: VecDeque<(CleanupTarget, Action)>,
    /// The objects that still exist.
    left: Vec<CleanupTarget>,
    failures: Vec<(CleanupTarget, Failure)>,
}

/// The objects to remove, in the order of their removal ("Cleanup Operations").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CleanupTarget {
    /// The HostedCluster.
    HostedCluster,
    /// The NodePool.
    NodePool,
    /// The DPUCluster's reference to the kubeconfig.
    Reference,
    /// The kubeconfig beside the DPUCluster.
    Kubeconfig,
}

impl CleanupTarget {
    const ALL: [Self; 4] = [Self::HostedCluster, Self::NodePool, Self::Reference, Self::Kubeconfig];

    fn title(self, key: &Name) -> String {
        match self {
            Self::HostedCluster => format!("HostedCluster {key}"),
            Self::NodePool => format!("NodePool {key}"),
            Self::Reference => "the DPUCluster's reference to the kubeconfig".to_owned(),
            Self::Kubeconfig => "the DPUCluster's kubeconfig".to_owned(),
        }
    }

    /// Returns whether the removal continues without it if it is forbidden: it is in a namespace of another owner.
    const fn is_optional(self) -> bool {
        matches!(self, Self::Reference | Self::Kubeconfig)
    }
}

impl Controller {
    pub(super) fn begin_removal(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        if !finalizer::is_held(&bridge.metadata, FINALIZER) {
            self.store.memories.remove(key);
            return Next::Done(Verdict::Converged);
        }
        if bridge.status.phase.as_deref() == Some(Phase::Deleting.as_str()) {
            return self.survey(key);
        }
        let status = deleting(bridge, "the hosted cluster is being deleted".to_owned(), now);
        Next::Await(vec![status::write(key, bridge, &status)], Stage::Announcing)
    }

    pub(super) fn resume_removal(
        &mut self,
        key: &Name,
        stage: Stage,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        match stage {
            Stage::Announcing => match self.deletion_status_written(key, outcomes) {
                Ok(()) => self.survey(key),
                Err(verdict) => Next::Done(verdict),
            },
            Stage::Surveying => self.surveyed(key, outcomes, now),
            Stage::Acting(removal) => self.removed(key, removal, outcomes, now),
            Stage::Reporting(verdict) => Next::Done(
                self.deletion_status_written(key, outcomes).map_or_else(|retry| retry, |()| verdict),
            ),
            Stage::Leaving => match only(outcomes).found() {
                Ok(_) => {
                    self.store.memories.remove(key);
                    Next::Done(Verdict::Converged)
                }
                Err(failure) => Next::Done(Verdict::retry("taking the finalizer out", &failure)),
            },
        }
    }

    fn survey(&self, key: &Name) -> Next<Stage> {
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        let mut targets = vec![key.object(&names::hosted_cluster()), key.object(&names::node_pool())];
        if let Some(dpu_cluster) = &bridge.dpu_cluster {
            targets.push(dpu_cluster.object(&names::dpu_cluster()));
        }
        if let Some(copy) = SecretRole::Kubeconfig.copy(key, bridge.dpu_cluster.as_ref()) {
            targets.push(copy.object(&names::secret()));
        }
        let gets = targets.into_iter().map(|target| {
            // The metadata of a Secret is enough to know its owner.
            let metadata_only = *target.kind == *names::secret();
            Action::Kube(KubeRequest::Get { target, metadata_only })
        });
        Next::Await(gets.collect(), Stage::Surveying)
    }

    fn surveyed(&mut self, key: &Name, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        let mut removal = Removal::default();
        for (target, outcome) in CleanupTarget::ALL.into_iter().zip(outcomes) {
            removal.plan(target, key, bridge, outcome.found());
        }
        self.remove_next(key, removal, now)
    }

    fn remove_next(&mut self, key: &Name, mut removal: Removal, now: Now) -> Next<Stage> {
        if let Some((_, action)) = removal.steps.front() {
            return Next::Await(vec![action.clone()], Stage::Acting(removal));
        }
        let left = std::mem::take(&mut removal.left);
        self.sum_up(key, &left, removal.failures, now)
    }

    fn removed(&mut self, key: &Name, mut removal: Removal, outcomes: Vec<Outcome>, now: Now) -> Next<Stage> {
        if let Some((target, _)) = removal.steps.pop_front() {
            match only(outcomes).remaining() {
                // It is still being deleted.
                Ok(Some(_)) if target != CleanupTarget::Reference => {}
                Ok(_) => removal.left.retain(|left| *left != target),
                // It existed a moment ago. So it is read once more before it counts as gone.
                Err(failure) if failure.is_absence() => {}
                Err(failure) => removal.failures.push((target, failure)),
            }
        }
        self.remove_next(key, removal, now)
    }

    /// Removes the finalizer if nothing is left; otherwise reports what the deletion waits for.
    fn sum_up(
        &mut self,
        key: &Name,
        left: &[CleanupTarget],
        failures: Vec<(CleanupTarget, Failure)>,
        now: Now,
    ) -> Next<Stage> {
        let is_let_be = |(target, failure): &(CleanupTarget, Failure)| {
            target.is_optional() && failure.class == Class::Forbidden
        };
        let (let_be, failures): (Vec<_>, Vec<_>) = failures.into_iter().partition(is_let_be);
        let left: Vec<CleanupTarget> =
            left.iter().copied().filter(|target| let_be.iter().all(|(other, _)| other != target)).collect();
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        if left.is_empty() && failures.is_empty() {
            let leave = finalizer::remove(&bridge_ref(key), &bridge.metadata, FINALIZER);
            for (target, failure) in &let_be {
                let note = format!("{} is left as it is: {}", target.title(key), failure.message);
                events::record(
                    &mut self.outbox,
                    key,
                    bridge,
                    (Severity::Warning, "CleanupForbidden", note),
                    now,
                );
            }
            return match leave {
                Some(leave) => Next::Await(vec![leave], Stage::Leaving),
                None => Next::Done(Verdict::Converged),
            };
        }
        let titles: Vec<String> = left.iter().map(|target| target.title(key)).collect();
        let mut message = format!("waiting for {} to be gone", titles.join(" and "));
        let verdict = match failures.first() {
            None => Verdict::Requeue(RECHECK),
            Some((target, failure)) => {
                message = format!("{} can't be removed: {}", target.title(key), failure.message);
                retry::after(&message, failure)
            }
        };
        let status = deleting(bridge, message, now);
        if status == bridge.status {
            return Next::Done(verdict);
        }
        Next::Await(vec![status::write(key, bridge, &status)], Stage::Reporting(verdict))
    }

    fn deletion_status_written(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Result<(), Verdict> {
        self.status_written(key, outcomes)?;
        if let Some(bridge) = self.store.bridges.get(key) {
            events::log_phase(&mut self.outbox, key, bridge);
        }
        Ok(())
    }
}

impl Removal {
    /// Plans the removal of one object, based on the object that was found.
    fn plan(&mut self, target: CleanupTarget, key: &Name, bridge: &Bridge, found: Lookup<Arc<Value>>) {
        let object = match found {
            Ok(Some(object)) => object,
            Ok(None) => return,
            Err(failure) => {
                self.left.push(target);
                self.failures.push((target, failure));
                return;
            }
        };
        let copy = SecretRole::Kubeconfig.copy(key, bridge.dpu_cluster.as_ref());
        let is_ours = match target {
            CleanupTarget::HostedCluster | CleanupTarget::NodePool => is_controlled_by(&object, &bridge.uid),
            CleanupTarget::Reference => {
                text(&object, "/spec/kubeconfig") == copy.as_ref().map(|copy| copy.name.as_str())
            }
            CleanupTarget::Kubeconfig => secret_copy::is_ours(SecretRole::Kubeconfig, key, bridge, &object),
        };
        if !is_ours {
            return;
        }
        self.left.push(target);
        let uid = Uid::of(&object);
        let step = match target {
            CleanupTarget::Reference => {
                let Some(name) = &bridge.dpu_cluster else { return };
                let reference = json!({ "metadata": precondition(&object), "spec": { "kubeconfig": null } });
                let patch = Arc::new(reference);
                Action::Kube(KubeRequest::Patch {
                    target: name.object(&names::dpu_cluster()),
                    subresource: None,
                    patch,
                })
            }
            _ if is_deleting(&object) => return,
            CleanupTarget::HostedCluster => Action::Kube(KubeRequest::Delete {
                target: key.object(&names::hosted_cluster()),
                uid,
                resource_version: None,
            }),
            CleanupTarget::NodePool => Action::Kube(KubeRequest::Delete {
                target: key.object(&names::node_pool()),
                uid,
                resource_version: None,
            }),
            CleanupTarget::Kubeconfig => {
                let Some(copy) = copy else { return };
                write::delete(copy.object(&names::secret()), &object)
            }
        };
        self.steps.push_back((target, step));
    }
}

/// Returns the status of a bridge that is being deleted.
fn deleting(bridge: &Bridge, message: String, now: Now) -> DPFHCPBridgeStatus {
    let mut status = bridge.status.clone();
    status.phase = Some(Phase::Deleting.as_str().to_owned());
    status.observed_generation = bridge.generation;
    let finding = Finding {
        condition: condition::READY,
        status: Status::False,
        reason: reason::WAITING_FOR_CONTROL_PLANE,
        message: message.clone(),
    };
    conditions::set(&mut status.conditions, finding, bridge.generation, now);
    status.message = Some(message);
    status
}
