//! Reads that no watch replaces: the content of Secrets, objects before they are created, the registry's answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_engine::action::{Action, Class, Failure, Outcome, Success};
use lockstep_engine::driver::Next;
use lockstep_engine::image::ImageReference;
use lockstep_engine::machine::Note;
use lockstep_engine::object::Name;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ManagedObject, ReconcileProgress, Stage, wait};
use crate::dpucluster::Lookup;
use crate::image::Checked;
use crate::secrets::{self, CopyComparison, SecretRole, SecretState, Verified};
use crate::source::Source;
use crate::view::BridgeSnapshot;
use crate::{Controller, kubeconfig, names, prerequisites};

/// An object to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Read {
    /// The DPUCluster.
    DpuCluster,
    /// The HostedCluster or NodePool.
    OwnedObject(Source),
    /// A Secret.
    Secret(SecretRole),
    /// Its copy.
    Copy(SecretRole),
}

/// A copy to write or a query, with the version of its source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PendingCopy {
    /// A Secret.
    Secret(SecretRole, Arc<Value>),
    /// The query whether the image exists.
    Image(String, String),
}

impl Controller {
    pub(super) fn look(&mut self, key: &Name, now: Now) -> Next<Stage> {
        let pass = ReconcileProgress { began: now.monotonic, ..ReconcileProgress::default() };
        let reads = self.with_view(key, &pass, now, |view| {
            let mut reads = BTreeSet::new();
            let refusal = view.world.refusal(Source::DpuClusters).map(|failure| failure.class);
            if view.bridge.dpu_cluster.is_some() && refusal.is_some_and(|class| class != Class::NotFound) {
                reads.insert(Read::DpuCluster);
            }
            for source in [Source::HostedClusters, Source::NodePools] {
                if let Ok(None) = view.world.find(source, view.key) {
                    reads.insert(Read::OwnedObject(source));
                }
            }
            for role in SecretRole::ALL {
                let is_wanted = role != SecretRole::Kubeconfig
                    || (kubeconfig::is_made(view) && kubeconfig::of_others(view).is_none());
                let copy = role.copy(view.key, view.bridge.dpu_cluster.as_ref());
                if is_wanted && copy.is_some() && view.secret(role) == SecretState::Unread {
                    reads.extend([Read::Secret(role), Read::Copy(role)]);
                }
            }
            if is_image_due(view) {
                reads.insert(Read::Secret(SecretRole::Pull));
            }
            let get = |target| Action::Get { target, metadata_only: false };
            let gets = reads.into_iter().filter_map(|read| Some((read, get(target(view, read)?))));
            gets.unzip::<Read, Action, Vec<Read>, Vec<Action>>()
        });
        self.log_validation(key, reads.as_ref().is_some_and(|(reads, _)| reads.contains(&Read::DpuCluster)));
        let Some((reads, gets)) = reads else {
            self.measure(key, &pass, now);
            return self.report(key, pass, now);
        };
        wait(gets, Stage::Looking(pass, reads))
    }

    /// Logs that a DPUCluster is about to be validated ("Logging").
    fn log_validation(&mut self, key: &Name, is_read: bool) {
        let Some(name) = self.world.bridges.get(key).and_then(|bridge| bridge.dpu_cluster.as_ref()) else {
            return;
        };
        let message = format!("Validating DPUCluster existence: DPFHCPBridge {key}, DPUCluster {name}");
        let fetching = format!("Fetching DPUCluster from API: {name}");
        self.outbox.notes.push(Note::Log { debug: false, message });
        if is_read {
            self.outbox.notes.push(Note::Log { debug: true, message: fetching });
        }
    }

    pub(super) fn looked(
        &mut self,
        key: &Name,
        mut pass: ReconcileProgress,
        reads: Vec<Read>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        let mut secrets: Vec<(SecretRole, Arc<Value>)> = Vec::new();
        let mut copies: Vec<(SecretRole, Lookup<Arc<Value>>)> = Vec::new();
        for (read, outcome) in reads.into_iter().zip(outcomes) {
            let found = lookup(outcome);
            match read {
                Read::DpuCluster => {
                    let trimmed = |object: Arc<Value>| Source::DpuClusters.trim(&object).unwrap_or_default();
                    pass.dpu_cluster = Some(found.map(|object| object.map(trimmed)));
                }
                Read::OwnedObject(source) => match found {
                    Ok(Some(object)) => self.absorb(key, source, &object),
                    Ok(None) => {}
                    Err(failure) => pass.failures.push((part_of(source), failure)),
                },
                Read::Secret(role) => match found {
                    Ok(Some(object)) => {
                        self.absorb(key, Source::Secrets, &object);
                        secrets.push((role, object));
                    }
                    Ok(None) => {}
                    Err(failure) => pass.failures.push((ManagedObject::Secret(role), failure)),
                },
                Read::Copy(role) => copies.push((role, found)),
            }
        }
        self.measure(key, &pass, now);
        let has_dpu_cluster =
            self.with_view(key, &pass, now, |view| view.dpu_cluster().is_some()).unwrap_or_default();
        let mut actions = Vec::new();
        let mut handed = Vec::new();
        for (role, secret) in secrets {
            let copy = copies.iter().find(|(of, _)| *of == role).map(|(_, copy)| copy);
            // A Secret may have been read only for its credentials.
            if let Some(copy) = copy {
                match copy {
                    Err(failure) => pass.failures.push((ManagedObject::Secret(role), failure.clone())),
                    Ok(copy) => {
                        if let Some(write) =
                            self.compare(key, role, &secret, copy.as_deref(), has_dpu_cluster)
                        {
                            actions.push(write);
                            handed.push(PendingCopy::Secret(role, marked(&secret)));
                        }
                    }
                }
            }
            if role == SecretRole::Pull
                && let Some((ask, image)) = self.ask_registry(key, &pass, &secret, now)
            {
                actions.push(ask);
                handed.push(PendingCopy::Image(image, secrets::marker(&secret)));
            }
        }
        wait(actions, Stage::Copying(pass, handed))
    }

    /// Compares a Secret with its copy, and stores the result. Returns the write that is needed.
    fn compare(
        &mut self,
        key: &Name,
        role: SecretRole,
        secret: &Value,
        copy: Option<&Value>,
        may_copy: bool,
    ) -> Option<Action> {
        let bridge = self.world.bridges.get(key)?;
        let complaint = match secrets::examine(role, key, bridge, secret, copy)? {
            CopyComparison::Differs(write) => return may_copy.then_some(write),
            CopyComparison::Bad(complaint) => Some(complaint),
            CopyComparison::Same => None,
        };
        if let Some(copy) = copy {
            self.absorb(key, Source::Secrets, copy);
        }
        let verified = Verified::new(secret, copy, complaint);
        self.world.memories.entry(key.clone()).or_default().secrets.insert(role, verified);
        None
    }

    fn ask_registry(
        &mut self,
        key: &Name,
        pass: &ReconcileProgress,
        secret: &Value,
        now: Now,
    ) -> Option<(Action, String)> {
        let config = secrets::docker_config(secret)?;
        self.with_view(key, pass, now, |view| {
            let image = view.spec.ocp_release_image.clone();
            is_image_due(view).then(|| {
                let reference = ImageReference::parse(&image).ok();
                let credentials = reference.and_then(|reference| config.credentials_for(&reference));
                (Action::ResolveImage { image: image.clone(), credentials }, image)
            })
        })?
    }

    pub(super) fn copied(
        &mut self,
        key: &Name,
        mut pass: ReconcileProgress,
        handed: Vec<PendingCopy>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> Next<Stage> {
        for (handed, outcome) in handed.into_iter().zip(outcomes) {
            let memory = self.world.memories.entry(key.clone()).or_default();
            match (handed, outcome) {
                (PendingCopy::Secret(role, source), Ok(Success::Object(copy))) => {
                    memory.secrets.insert(role, Verified::new(&source, Some(&copy), None));
                    self.absorb(key, Source::Secrets, &copy);
                }
                (PendingCopy::Secret(role, _), Err(failure)) => {
                    pass.failures.push((ManagedObject::Secret(role), failure));
                }
                (PendingCopy::Secret(..), Ok(_)) => {}
                (PendingCopy::Image(image, secret), outcome) => {
                    let answer = match outcome {
                        Ok(Success::Image(found)) => Ok(found),
                        Ok(_) => Err(Failure::new(Class::Unknown, "the answer is about no image")),
                        Err(failure) => Err(failure),
                    };
                    let before = memory.image.take();
                    memory.image = Some(Checked::take(before, &image, secret, answer, now.monotonic));
                }
            }
        }
        self.act(key, pass, now)
    }
}

/// Returns whether the registry has to be queried.
fn is_image_due(view: &BridgeSnapshot<'_>) -> bool {
    if !prerequisites::image_matters(view) {
        return false;
    }
    let source = SecretRole::Pull.source(view.key, view.spec);
    let Ok(Some(secret)) = view.world.find(Source::Secrets, &source) else { return false };
    let due = view.checked_image().map(|checked| checked.due(&secrets::marker(secret)));
    due.is_none_or(|due| due <= view.now.monotonic)
}

/// Returns the object of a read.
fn target(view: &BridgeSnapshot<'_>, read: Read) -> Option<ObjectRef> {
    let secret = names::secret();
    Some(match read {
        Read::DpuCluster => view.bridge.dpu_cluster.as_ref()?.object(&names::dpu_cluster()),
        Read::OwnedObject(source) => view.key.object(&source.kind()),
        Read::Secret(role) => role.source(view.key, view.spec).object(&secret),
        Read::Copy(role) => role.copy(view.key, view.bridge.dpu_cluster.as_ref())?.object(&secret),
    })
}

/// Returns the result of a read.
pub fn lookup(outcome: Outcome) -> Lookup<Arc<Value>> {
    match outcome {
        Ok(Success::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(Failure::new(Class::Unknown, "the server's answer is no object")),
        Err(failure) if failure.class == Class::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the metadata of a Secret that identifies its version.
fn marked(secret: &Value) -> Arc<Value> {
    let metadata = &secret["metadata"];
    Arc::new(
        json!({ "metadata": { "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] } }),
    )
}

fn part_of(source: Source) -> ManagedObject {
    if source == Source::NodePools { ManagedObject::NodePool } else { ManagedObject::HostedCluster }
}
