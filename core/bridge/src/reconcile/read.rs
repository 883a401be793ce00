//! Reads that no watch replaces: the content of Secrets, objects before they are created, the registry's answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_engine::action::{Action, Answer as _, KubeRequest, Outcome, ResolveImage};
use lockstep_engine::image::ImageReference;
use lockstep_engine::machine::Note;
use lockstep_engine::object::{Name, ObjectRef};
use lockstep_engine::time::Now;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::progress::ReconcileProgress;
use crate::checks::{dpucluster, prerequisites, release_image};
use crate::controller::Controller;
use crate::desired::secret_copy::{self, CopyComparison};
use crate::model::Lookup;
use crate::model::encryption_key::{self, Measured};
use crate::model::image::Checked;
use crate::model::managed_object::{ManagedObject, Written};
use crate::model::namespace::NamespaceState;
use crate::model::secret::{SecretRole, Verified, marker};
use crate::model::source::Source;
use crate::snapshot::{BridgeSnapshot, KeyState, OwnedObject, SecretState};
use crate::{metrics, names};

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
    /// The size of the key for etcd.
    EncryptionKey,
    /// The namespace of the control plane.
    Namespace,
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
    /// Returns what has to be read, with the requests; `None` if the bridge can't be parsed.
    pub(super) fn plan_reads(
        &mut self,
        key: &Name,
        progress: &ReconcileProgress,
        now: Now,
    ) -> Option<(Vec<Read>, Vec<Action>)> {
        let reads = progress.with_snapshot(&self.store, key, now, reads);
        self.log_validation(key, reads.as_ref().is_some_and(|(reads, _)| reads.contains(&Read::DpuCluster)));
        if reads.is_none() {
            self.measure(key, progress, now);
        }
        reads
    }

    /// Logs that a DPUCluster is about to be validated ("Logging").
    fn log_validation(&mut self, key: &Name, is_read: bool) {
        let Some(bridge) = self.store.bridges.get(key).filter(|bridge| bridge.dpu_cluster.is_some()) else {
            return;
        };
        let objects = dpucluster::objects(key, bridge);
        let message = "Validating DPUCluster existence".to_owned();
        self.outbox.notes.push(Note::Log { debug: false, message, objects: objects.clone() });
        if is_read {
            let message = "Fetching DPUCluster from API".to_owned();
            self.outbox.notes.push(Note::Log { debug: true, message, objects });
        }
    }

    /// Records metrics and logs of the DPUCluster's validation, once in a pass.
    fn measure(&mut self, key: &Name, progress: &ReconcileProgress, now: Now) {
        let Some(bridge) = self.store.bridges.get(key) else { return };
        let lookup = progress.dpu_cluster(&self.store, bridge);
        let result = dpucluster::result(bridge, &lookup);
        let lines = dpucluster::log(key, bridge, &lookup);
        self.outbox.notes.extend(lines);
        self.outbox.notes.extend(metrics::validated(result, now.monotonic.since(progress.began)));
    }

    /// Stores the answers to the reads. Returns the copies to write and the query of the registry, with the requests.
    pub(super) fn plan_copies(
        &mut self,
        key: &Name,
        progress: &mut ReconcileProgress,
        reads: Vec<Read>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) -> (Vec<PendingCopy>, Vec<Action>) {
        let mut secrets: Vec<(SecretRole, Arc<Value>)> = Vec::new();
        let mut copies: Vec<(SecretRole, Lookup<Arc<Value>>)> = Vec::new();
        for (read, outcome) in reads.into_iter().zip(outcomes) {
            let found = outcome.found();
            match read {
                Read::DpuCluster => {
                    let trimmed = |object: Arc<Value>| Source::DpuClusters.trim(&object).unwrap_or_default();
                    progress.dpu_cluster = Some(found.map(|object| object.map(trimmed)));
                }
                Read::OwnedObject(source) => match found {
                    Ok(Some(object)) => self.absorb(key, source, &object),
                    Ok(None) => {}
                    Err(failure) => progress.failures.push((object_of(source), failure)),
                },
                Read::Secret(role) => match found {
                    Ok(Some(object)) => {
                        self.absorb(key, Source::Secrets, &object);
                        secrets.push((role, object));
                    }
                    Ok(None) => {}
                    Err(failure) => progress.failures.push((ManagedObject::Secret(role), failure)),
                },
                Read::Copy(role) => copies.push((role, found)),
                Read::Namespace => {
                    progress.namespace = Some(found.map(|object| NamespaceState::of(object.as_deref())));
                }
                Read::EncryptionKey => {
                    let measured = found.as_ref().ok().and_then(Option::as_deref).map(Measured::new);
                    self.store.memories.entry(key.clone()).or_default().key = measured;
                    match found {
                        Ok(Some(object)) => self.absorb(key, Source::Secrets, &object),
                        Ok(None) => {}
                        Err(failure) => progress.failures.push((ManagedObject::EncryptionKey, failure)),
                    }
                }
            }
        }
        self.measure(key, progress, now);
        let may_copy =
            progress.with_snapshot(&self.store, key, now, prerequisites::needs_copies).unwrap_or_default();
        let mut actions = Vec::new();
        let mut handed = Vec::new();
        for (role, secret) in secrets {
            let copy = copies.iter().find(|(of, _)| *of == role).map(|(_, copy)| copy);
            // A Secret may have been read only for its credentials.
            if let Some(copy) = copy {
                match copy {
                    Err(failure) => progress.failures.push((ManagedObject::Secret(role), failure.clone())),
                    Ok(copy) => {
                        if let Some(write) = self.compare(key, role, &secret, copy.as_deref(), may_copy) {
                            actions.push(write);
                            handed.push(PendingCopy::Secret(role, marked(&secret)));
                        }
                    }
                }
            }
            if role == SecretRole::Pull
                && let Some((ask, image)) = self.ask_registry(key, progress, &secret, now)
            {
                actions.push(ask);
                handed.push(PendingCopy::Image(image, marker(&secret)));
            }
        }
        (handed, actions)
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
        let bridge = self.store.bridges.get(key)?;
        let problem = match secret_copy::examine(role, key, bridge, secret, copy)? {
            CopyComparison::Differs(write) => return may_copy.then_some(write),
            CopyComparison::Bad(problem) => Some(problem),
            CopyComparison::Same => None,
        };
        if let Some(copy) = copy {
            self.absorb(key, Source::Secrets, copy);
        }
        let verified = Verified::new(secret, copy, problem);
        self.store.memories.entry(key.clone()).or_default().secrets.insert(role, verified);
        None
    }

    fn ask_registry(
        &mut self,
        key: &Name,
        progress: &ReconcileProgress,
        secret: &Value,
        now: Now,
    ) -> Option<(Action, String)> {
        let config = secret_copy::docker_config(secret)?;
        progress.with_snapshot(&self.store, key, now, |snapshot| {
            let image = snapshot.spec.ocp_release_image.clone();
            is_image_due(snapshot).then(|| {
                let reference = ImageReference::parse(&image).ok();
                let credentials = reference.and_then(|reference| config.credentials_for(&reference));
                (Action::Registry(ResolveImage { image: image.clone(), credentials }), image)
            })
        })?
    }

    /// Stores the answers to the copies and the query of the registry.
    pub(super) fn store_copies(
        &mut self,
        key: &Name,
        progress: &mut ReconcileProgress,
        handed: Vec<PendingCopy>,
        outcomes: Vec<Outcome>,
        now: Now,
    ) {
        for (handed, outcome) in handed.into_iter().zip(outcomes) {
            let memory = self.store.memories.entry(key.clone()).or_default();
            match handed {
                PendingCopy::Secret(role, source) => match outcome.object() {
                    Ok(copy) => {
                        memory.secrets.insert(role, Verified::new(&source, Some(&copy), None));
                        progress.repaired.push(Written::copy(role, &source));
                        self.absorb(key, Source::Secrets, &copy);
                    }
                    Err(failure) => {
                        progress.refused.push(Written::copy(role, &source));
                        progress.failures.push((ManagedObject::Secret(role), failure));
                    }
                },
                PendingCopy::Image(image, secret) => {
                    let before = memory.image.take();
                    let checked = Checked::take(before, &image, secret, outcome.image(), now.monotonic);
                    memory.image = Some(checked);
                }
            }
        }
    }
}

/// Returns what has to be read, with the requests.
fn reads(snapshot: &BridgeSnapshot<'_>) -> (Vec<Read>, Vec<Action>) {
    let mut reads = BTreeSet::new();
    if snapshot.bridge.dpu_cluster.is_some() && snapshot.refusal(Source::DpuClusters).is_some() {
        reads.insert(Read::DpuCluster);
    }
    for source in [Source::HostedClusters, Source::NodePools] {
        if let Ok(None) = snapshot.store.find(source, snapshot.key) {
            reads.insert(Read::OwnedObject(source));
        }
    }
    for role in SecretRole::ALL {
        let is_wanted = role != SecretRole::Kubeconfig
            || (snapshot.has_kubeconfig() && snapshot.foreign_kubeconfig().is_none());
        let copy = role.copy(snapshot.key, snapshot.bridge.dpu_cluster.as_ref());
        let is_unread = snapshot.secret(role) == SecretState::Unread && snapshot.copy_due(role).is_none();
        if is_wanted && copy.is_some() && is_unread {
            reads.extend([Read::Secret(role), Read::Copy(role)]);
        }
    }
    if is_image_due(snapshot) {
        reads.insert(Read::Secret(SecretRole::Pull));
    }
    // A HostedCluster must not be created with a key that has gone without notice.
    let is_new = matches!(snapshot.hosted_cluster(), OwnedObject::Absent);
    let is_read = |state| state == KeyState::Unread || (is_new && state == KeyState::Usable);
    if snapshot.encryption_key().is_some_and(is_read) {
        reads.insert(Read::EncryptionKey);
    }
    if is_new {
        reads.insert(Read::Namespace);
    }
    let get = |read, target| {
        Action::Kube(match read {
            Read::EncryptionKey => KubeRequest::GetLengths { target },
            Read::DpuCluster | Read::OwnedObject(_) | Read::Secret(_) | Read::Copy(_) | Read::Namespace => {
                KubeRequest::Get { target, metadata_only: false }
            }
        })
    };
    let gets = reads.into_iter().filter_map(|read| Some((read, get(read, target(snapshot, read)?))));
    gets.unzip::<Read, Action, Vec<Read>, Vec<Action>>()
}

/// Returns whether the registry has to be queried.
fn is_image_due(snapshot: &BridgeSnapshot<'_>) -> bool {
    if !release_image::image_matters(snapshot) {
        return false;
    }
    let source = SecretRole::Pull.source(snapshot.key, snapshot.spec);
    let Ok(Some(secret)) = snapshot.store.find(Source::Secrets, &source) else { return false };
    let due = snapshot.checked_image().map(|checked| checked.due(&marker(secret)));
    due.is_none_or(|due| due <= snapshot.now.monotonic)
}

/// Returns the object of a read.
fn target(snapshot: &BridgeSnapshot<'_>, read: Read) -> Option<ObjectRef> {
    let secret = names::secret();
    Some(match read {
        Read::DpuCluster => snapshot.bridge.dpu_cluster.as_ref()?.object(&names::dpu_cluster()),
        Read::OwnedObject(source) => snapshot.key.object(&source.kind()),
        Read::Secret(role) => role.source(snapshot.key, snapshot.spec).object(&secret),
        Read::Copy(role) => role.copy(snapshot.key, snapshot.bridge.dpu_cluster.as_ref())?.object(&secret),
        Read::EncryptionKey => encryption_key::secret(snapshot.key).object(&secret),
        Read::Namespace => {
            ObjectRef::cluster(&names::namespace(), &names::control_plane_namespace(snapshot.key))
        }
    })
}

/// Returns the metadata of a Secret that identifies its version.
fn marked(secret: &Value) -> Arc<Value> {
    let metadata = &secret["metadata"];
    Arc::new(
        json!({ "metadata": { "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"] } }),
    )
}

fn object_of(source: Source) -> ManagedObject {
    if source == Source::NodePools { ManagedObject::NodePool } else { ManagedObject::HostedCluster }
}
