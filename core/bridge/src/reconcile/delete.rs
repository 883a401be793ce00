//! The deletion of a hosted cluster: everything that was created for a bridge is deleted before the bridge.
//!
//! ```text
//!  Announcing ─▶ Surveying ─▶ Acting ─▶ Acting … ─▶ Reporting ─▶ again in 10 s
//!                    │
//!                    └─ nothing is left ─▶ Leaving
//! ```
//!
//! The address of a cluster is released only when the cluster is gone: the bridge's own L2Advertisement and IPAddressPool are
//! deleted last.
//!
//! Everything is read again each time, so a crash at any point does no harm. If a CRD is gone for a minute, its objects count as gone.
//! Objects that do not belong to the bridge are not changed. The garbage collector deletes the Secrets in the bridge's own
//! namespace after the bridge: HyperShift needs them until its cluster is gone.
//!
//! Source: "Finalizer Management".

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use lockstep_crds::bridge::DPFHCPBridgeStatus;
use lockstep_engine::action::{Action, Answer as _, ErrorKind, Failure, KubeRequest, Outcome, only};
use lockstep_engine::conditions::{self, Finding, Status};
use lockstep_engine::object::{Name, Uid, is_controlled_by, is_deleting, precondition, text};
use lockstep_engine::recorder::Severity;
use lockstep_engine::scheduler::{Next, Verdict};
use lockstep_engine::time::Now;
use lockstep_engine::{finalizer, write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::controller::Controller;
use crate::desired::secret_copy;
use crate::model::Lookup;
use crate::model::bridge::Bridge;
use crate::model::cleanup_target::CleanupTarget;
use crate::model::secret::SecretRole;
use crate::names::{self, FINALIZER, bridge_ref, condition, reason};
use crate::phase::Phase;
use crate::store::Announced;
use crate::{events, retry, status};

/// The interval at which the remaining objects are read again.
const RECHECK: Duration = Duration::from_secs(10);

/// What a deletion waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Stage {
    /// The phase is being written.
    Announcing,
    /// The remaining objects are being read.
    Surveying(Vec<CleanupTarget>),
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

impl Controller {
    pub(super) fn begin_removal(&mut self, key: &Name, now: Now) -> Next<Stage> {
        self.announce_unconfirmed(key, now);
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
            Stage::Surveying(targets) => self.surveyed(key, targets, outcomes, now),
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
        let targets = CleanupTarget::ALL.into_iter();
        let targets = targets.filter_map(|target| Some((target, target.object(key, bridge)?)));
        let (targets, gets): (Vec<_>, Vec<_>) = targets
            .map(|(cleanup, target)| {
                // The metadata of these objects is enough to know their owner.
                let metadata_only = matches!(
                    cleanup,
                    CleanupTarget::Kubeconfig | CleanupTarget::Advertisement | CleanupTarget::Pool
                );
                (cleanup, Action::Kube(KubeRequest::Get { target, metadata_only }))
            })
            .unzip();
        Next::Await(gets, Stage::Surveying(targets))
    }

    fn surveyed(
        &mut self,
        key: &Name,
        targets: Vec<CleanupTarget>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        let mut removal = Removal::default();
        let memory = self.store.memories.entry(key.clone()).or_default();
        let found =
            targets.into_iter().zip(outcomes.into_iter().map(Outcome::found)).map(|(target, found)| {
                let is_unserved = is_unserved(&found);
                if !is_unserved {
                    memory.unserved.end(&target);
                }
                let is_gone = is_unserved && memory.unserved.believes(target, now.monotonic);
                (target, if is_gone { Ok(None) } else { found })
            });
        let found: Vec<(CleanupTarget, Lookup<Arc<Value>>)> = found.collect();
        // The copies of two bridges can have one name, because namespaces and names contain hyphens. Then the reference is to the
        // copy of the other bridge.
        let copy =
            found.iter().find(|(target, _)| *target == CleanupTarget::Kubeconfig).map(|(_, copy)| copy);
        let copy = copy.cloned().unwrap_or(Ok(None));
        let is_theirs = matches!(&copy, Ok(Some(copy)) if names::is_of_another(copy, key));
        for (target, found) in found {
            if target != CleanupTarget::Reference || !is_theirs {
                removal.plan(target, key, bridge, found);
            }
        }
        if let Err(failure) = copy {
            removal.keep_reference(failure);
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
            target.is_optional() && failure.class == ErrorKind::Forbidden
        };
        let (let_be, failures): (Vec<_>, Vec<_>) = failures.into_iter().partition(is_let_be);
        let left: Vec<CleanupTarget> =
            left.iter().copied().filter(|target| let_be.iter().all(|(other, _)| other != target)).collect();
        let is_brief = self.are_forbidden_briefly(key, &let_be, now);
        let (left, failures, let_be) = if left.is_empty() && failures.is_empty() && is_brief {
            (let_be.iter().map(|(target, _)| *target).collect(), let_be, Vec::new())
        } else {
            (left, failures, let_be)
        };
        let Some(bridge) = self.store.bridges.get(key) else { return Next::Done(Verdict::Converged) };
        if left.is_empty() && failures.is_empty() {
            let leave = finalizer::remove(&bridge_ref(key), &bridge.metadata, FINALIZER);
            for (target, failure) in &let_be {
                let note = format!("{} is left as it is: {}", target.title(key, bridge), failure.message);
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
        let titles: Vec<String> = left.iter().map(|target| target.title(key, bridge)).collect();
        let mut message = format!("waiting for {} to be gone", titles.join(" and "));
        let verdict = match failures.first() {
            None => Verdict::Requeue(RECHECK),
            Some((target, failure)) => {
                message = format!("{} can't be removed: {}", target.title(key, bridge), failure.message);
                retry::after(&message, failure)
            }
        };
        let status = deleting(bridge, message, now);
        if status == bridge.status {
            return Next::Done(verdict);
        }
        Next::Await(vec![status::write(key, bridge, &status)], Stage::Reporting(verdict))
    }

    /// Returns whether some of the removals that are forbidden have not been so for long: a permission can be missing for a moment,
    /// while it is written again.
    fn are_forbidden_briefly(
        &mut self,
        key: &Name,
        forbidden: &[(CleanupTarget, Failure)],
        now: Now,
    ) -> bool {
        let doubts = &mut self.store.memories.entry(key.clone()).or_default().forbidden;
        doubts.keep(|target| forbidden.iter().any(|(other, _)| other == target));
        // Each of them is recorded.
        let brief = forbidden.iter().filter(|(target, _)| !doubts.believes(*target, now.monotonic));
        brief.count() > 0
    }

    fn deletion_status_written(&mut self, key: &Name, outcomes: Vec<Outcome>) -> Result<(), Verdict> {
        self.status_written(key, &[], outcomes)?;
        if let Some(bridge) = self.store.bridges.get(key) {
            // Each message is logged.
            self.store.memories.entry(key.clone()).or_default().announced = Some(Announced::of(bridge));
            events::log_phase(&mut self.outbox, key, bridge);
        }
        Ok(())
    }
}

fn is_unserved(found: &Lookup<Arc<Value>>) -> bool {
    matches!(found, Err(failure) if failure.class == ErrorKind::KindNotServed)
}

impl Removal {
    /// Leaves the DPUCluster as it is: it is not known which bridge's copy it refers to.
    fn keep_reference(&mut self, failure: Failure) {
        let planned = self.steps.len();
        self.steps.retain(|(target, _)| *target != CleanupTarget::Reference);
        if self.steps.len() < planned {
            self.failures.push((CleanupTarget::Reference, failure));
        }
    }

    /// Plans the removal of one object, based on the object that was found.
    fn plan(&mut self, target: CleanupTarget, key: &Name, bridge: &Bridge, found: Lookup<Arc<Value>>) {
        let object = match found {
            Ok(Some(object)) => object,
            Ok(None) => return,
            Err(failure) => {
                self.left.push(target);
                if failure.class == ErrorKind::KindNotServed {
                    return;
                }
                self.failures.push((target, failure));
                return;
            }
        };
        let Some(place) = target.object(key, bridge) else { return };
        let is_ours = match target {
            CleanupTarget::HostedCluster | CleanupTarget::NodePool => is_controlled_by(&object, &bridge.uid),
            CleanupTarget::Reference => {
                let copy = SecretRole::Kubeconfig.copy(key, bridge.dpu_cluster.as_ref());
                text(&object, "/spec/kubeconfig") == copy.as_ref().map(|copy| copy.name.as_str())
            }
            CleanupTarget::Kubeconfig => secret_copy::is_ours(SecretRole::Kubeconfig, key, bridge, &object),
            CleanupTarget::Advertisement | CleanupTarget::Pool => names::is_labelled(&object, key),
        };
        if !is_ours {
            return;
        }
        let has_cluster = self
            .left
            .iter()
            .any(|left| matches!(left, CleanupTarget::HostedCluster | CleanupTarget::NodePool));
        self.left.push(target);
        let step = match target {
            CleanupTarget::Reference => {
                let reference = json!({ "metadata": precondition(&object), "spec": { "kubeconfig": null } });
                let patch = Arc::new(reference);
                Action::Kube(KubeRequest::Patch { target: place, subresource: None, patch })
            }
            _ if is_deleting(&object) => return,
            CleanupTarget::HostedCluster | CleanupTarget::NodePool => Action::Kube(KubeRequest::Delete {
                target: place,
                uid: Uid::of(&object),
                resource_version: None,
            }),
            // The cluster has its address until it is gone.
            CleanupTarget::Advertisement | CleanupTarget::Pool if has_cluster => return,
            CleanupTarget::Kubeconfig | CleanupTarget::Advertisement | CleanupTarget::Pool => {
                write::delete(place, &object)
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
