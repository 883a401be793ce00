//! What the controller knows of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockstep_crds::dpuservice::{DPUServiceSpec, DPUServiceStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::application::{App, Index};
use super::cluster::{Claim, Found};
use super::names::{self, ARGO_NAMESPACE, CLUSTER, FINALIZER, MANAGED_BY, MANAGER, SERVER};
use super::outdated::HeldUp;
use super::project;
use super::source::Source;
use crate::digest::shortened;
use crate::engine::action::{Class, Failure};
use crate::engine::cache::{Cache, Cached};
use crate::engine::{finalizer, pairs};
use crate::object::{
    self, Name, ObjectRef, annotation, generation, is_deleting, label, metadata, resource_version, text,
};
use crate::time::Monotonic;

/// Everything that watches and answers have shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct World {
    /// The services.
    pub services: Cache<Name, Service>,
    /// The DPUClusters.
    pub clusters: Cache<Name, Cluster>,
    /// Secrets, by their metadata.
    pub secrets: Cache<Name, Secret>,
    /// The AppProject, if there is one.
    pub projects: Cache<Name, Project>,
    /// The Applications that were made for services.
    pub applications: Cache<Name, App>,
    /// What can't be watched, and why.
    #[serde(with = "pairs")]
    pub refused: BTreeMap<Source, Failure>,
    /// What was found out about each cluster.
    #[serde(with = "pairs")]
    pub found: BTreeMap<Name, Found>,
    /// The clusters whose Secrets are being written.
    #[serde(with = "pairs")]
    pub claims: BTreeMap<Name, Claim>,
    /// Why the AppProject could not be written last.
    pub project_failure: Option<Failure>,
    /// The Applications of others, whose names are taken.
    pub taken: BTreeSet<Name>,
    /// What of all that services share could not be removed, and why.
    #[serde(with = "pairs")]
    pub irremovable: BTreeMap<Name, String>,
    /// When the status of a service was last written.
    #[serde(with = "pairs")]
    pub told: BTreeMap<Name, Monotonic>,
    /// Syncs that hold up a change, by service.
    #[serde(with = "pairs")]
    pub held_up: BTreeMap<Name, Vec<HeldUp>>,
    /// Since when clusters that are gone hold Applications that don't go.
    #[serde(with = "pairs")]
    pub stuck: BTreeMap<Name, Monotonic>,
}

/// A service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What it asks for, or why that can't be read.
    pub spec: Result<DPUServiceSpec, String>,
    /// Its status as last seen.
    pub status: DPUServiceStatus,
    /// Its metadata.
    pub metadata: Arc<Value>,
}

impl Service {
    /// Reads a service.
    pub fn read(object: &Value) -> Self {
        let mut trimmed = object["metadata"].clone();
        if let Some(trimmed) = trimmed.as_object_mut() {
            trimmed.remove("managedFields");
        }
        Self {
            uid: metadata(object, "uid").to_owned(),
            generation: generation(object),
            deleting: is_deleting(object),
            spec: object::read(object, "spec"),
            status: object::read(object, "status").unwrap_or_default(),
            metadata: Arc::new(serde_json::json!({ "metadata": trimmed })),
        }
    }

    /// Whether it differs in its status at most. Who writes a status must not be woken by it.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation, self.deleting) == (&other.uid, other.generation, other.deleting)
            && finalizer::is_held(&self.metadata, FINALIZER) == finalizer::is_held(&other.metadata, FINALIZER)
    }
}

impl Cached for Service {
    /// Whether it is being deleted.
    type Index = bool;

    fn resource_version(&self) -> u64 {
        resource_version(&self.metadata)
    }

    fn indexes(&self) -> Vec<bool> {
        vec![self.deleting]
    }
}

/// A cluster of DPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its uid.
    pub uid: String,
    /// When it was created, as the API writes times.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The Secret of its kubeconfig.
    pub kubeconfig: Option<Name>,
    /// What DPF says of it.
    pub phase: String,
    /// Why it is not ready, as DPF says.
    pub message: String,
    /// Since when it is not, as the API writes times; since its creation at the latest.
    pub unready_since: String,
    version: u64,
    name: String,
}

impl Cluster {
    /// Reads a cluster.
    pub fn read(object: &Value) -> Self {
        let conditions = || object["status"]["conditions"].as_array().into_iter().flatten();
        let mut unmet = conditions().filter(|condition| condition["status"] == "False");
        let message = unmet.find_map(|condition| text(condition, "/message"));
        let mut unready = conditions().filter(|it| it["type"] == "Ready" && it["status"] != "True");
        let since = unready.find_map(|condition| text(condition, "/lastTransitionTime"));
        let (secret, created) = (text(object, "/spec/kubeconfig"), metadata(object, "creationTimestamp"));
        Self {
            uid: metadata(object, "uid").to_owned(),
            created: created.to_owned(),
            unready_since: since.unwrap_or(created).to_owned(),
            deleting: is_deleting(object),
            kubeconfig: secret.map(|secret| Name::new(metadata(object, "namespace"), secret)),
            phase: text(object, "/status/phase").unwrap_or("Pending").to_owned(),
            message: message.unwrap_or_default().to_owned(),
            version: resource_version(object),
            name: metadata(object, "name").to_owned(),
        }
    }

    /// Whether DPF calls it ready. What Argo CD says of one that is not may be stale.
    pub fn is_ready(&self) -> bool {
        self.phase == "Ready"
    }

    /// Whether two readings mean the same.
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { version: self.version, ..other.clone() }
    }
}

/// What DPUClusters are found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterIndex {
    /// The Secret of their kubeconfig.
    Kubeconfig(Name),
    /// Their name, in whatever namespace.
    Named(String),
}

impl Cached for Cluster {
    type Index = ClusterIndex;

    fn resource_version(&self) -> u64 {
        self.version
    }

    fn indexes(&self) -> Vec<ClusterIndex> {
        let kubeconfig = self.kubeconfig.iter().cloned().map(ClusterIndex::Kubeconfig);
        kubeconfig.chain([ClusterIndex::Named(self.name.clone())]).collect()
    }
}

/// A Secret, as far as its metadata tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Secret {
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub version: u64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The cluster that it tells Argo CD of, if it is one of ours.
    pub cluster: Option<Name>,
    /// The server of that cluster.
    pub server: Option<String>,
}

impl Secret {
    /// Reads a Secret or its metadata.
    pub fn read(object: &Value) -> Self {
        let is_argo = metadata(object, "namespace") == ARGO_NAMESPACE;
        // By the annotation alone: whoever labels a Secret of theirs does not make it ours.
        let cluster = annotated(object, CLUSTER).filter(|_| is_argo);
        Self {
            uid: metadata(object, "uid").to_owned(),
            version: resource_version(object),
            deleting: is_deleting(object),
            server: cluster.as_ref().and_then(|_| annotation(object, SERVER)).map(str::to_owned),
            cluster,
        }
    }

    /// One version of one Secret.
    pub fn marker(&self) -> String {
        format!("{}/{}", self.uid, self.version)
    }
}

/// What the Secrets are found by that tell Argo CD of clusters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretIndex {
    /// Any cluster.
    Any,
    /// The cluster.
    Cluster(Name),
    /// The cluster's server.
    Server(String),
}

impl Cached for Secret {
    type Index = SecretIndex;

    fn resource_version(&self) -> u64 {
        self.version
    }

    fn indexes(&self) -> Vec<SecretIndex> {
        let Some(cluster) = &self.cluster else { return Vec::new() };
        let server = self.server.clone().map(SecretIndex::Server);
        [SecretIndex::Any, SecretIndex::Cluster(cluster.clone())].into_iter().chain(server).collect()
    }
}

/// The AppProject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Its uid.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is ours.
    pub is_ours: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its spec.
    pub spec: Arc<Value>,
    /// The servers that it permits.
    pub servers: BTreeSet<String>,
    version: u64,
}

impl Project {
    /// Reads a project.
    pub fn read(object: &Value) -> Self {
        let finalizers = object["metadata"]["finalizers"].clone();
        Self {
            uid: metadata(object, "uid").to_owned(),
            deleting: is_deleting(object),
            is_ours: label(object, MANAGED_BY) == Some(MANAGER),
            finalizers: serde_json::from_value(finalizers).unwrap_or_default(),
            servers: project::servers_of(&object["spec"]),
            spec: Arc::new(object["spec"].clone()),
            version: resource_version(object),
        }
    }

    /// Whether two readings mean the same.
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { version: self.version, ..other.clone() }
    }
}

impl Cached for Project {
    type Index = ();

    fn resource_version(&self) -> u64 {
        self.version
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

/// Whom an object was made for: the annotation tells the full name. Where somebody has taken it away, the labels do.
pub fn identity(object: &Value, whole: &str, namespace: &str, name: &str) -> Option<Name> {
    let labels = label(object, namespace).zip(label(object, name));
    annotated(object, whole).or_else(|| labels.map(|(namespace, name)| Name::new(namespace, name)))
}

fn annotated(object: &Value, whole: &str) -> Option<Name> {
    let (namespace, name) = annotation(object, whole)?.split_once('/')?;
    Some(Name::new(namespace, name))
}

/// A name as the value of a label.
pub fn label_value(name: &str) -> String {
    shortened(name, 63)
}

impl World {
    /// Whether any service is there to stay. As long as there is one, what all services share is kept.
    pub fn is_wanted(&self) -> bool {
        self.services.keys_by(&false).next().is_some()
    }

    /// The clusters that services belong on.
    pub fn staying(&self) -> impl Iterator<Item = (&Name, &Cluster)> {
        self.clusters.iter().filter(|(_, cluster)| !cluster.deleting)
    }

    /// The cluster, if services belong on it.
    pub fn stays(&self, name: &Name) -> Option<&Cluster> {
        self.clusters.get(name).filter(|cluster| !cluster.deleting)
    }

    /// Whether every cluster has been looked at since the process began: only then it is known what is permitted.
    pub fn is_judged(&self) -> bool {
        self.staying()
            .all(|(name, cluster)| self.found.get(name).is_some_and(|found| found.uid == cluster.uid))
    }

    /// The Secret that tells Argo CD of a cluster.
    pub fn argo_secret(&self, cluster: &Name) -> Option<(&Name, &Secret)> {
        let names = self.secrets.keys_by(&SecretIndex::Cluster(cluster.clone()));
        let mut secrets = names.filter_map(|name| Some((name, self.secrets.get(name)?)));
        secrets.find(|(_, secret)| !secret.deleting)
    }

    /// The clusters that Argo CD is told of.
    pub fn told_clusters(&self) -> impl Iterator<Item = &Name> {
        self.secrets.keys_by(&SecretIndex::Any).filter_map(|name| self.secrets.get(name)?.cluster.as_ref())
    }

    /// The servers that Argo CD is told of.
    pub fn told_servers(&self) -> impl Iterator<Item = &str> {
        let names = self.secrets.keys_by(&SecretIndex::Any);
        names.filter_map(|name| self.secrets.get(name)?.server.as_deref())
    }

    /// The clusters that Argo CD knows by a server.
    pub fn clusters_with_server(&self, server: &str) -> impl Iterator<Item = &Name> {
        let names = self.secrets.keys_by(&SecretIndex::Server(server.to_owned()));
        names.filter_map(|name| self.secrets.get(name)?.cluster.as_ref())
    }

    /// Whether anything is there that all services share, and that the last of them has to take along. A project that
    /// is being deleted is Argo CD's business.
    pub fn holds_shared(&self) -> bool {
        let is_kept = |project: &Project| project.is_ours && !project.deleting;
        self.told_clusters().next().is_some() || self.project().is_some_and(is_kept)
    }

    /// Of these Applications those that are being removed, and name a server that is not their cluster's any more.
    pub fn on_stale_server<'a>(
        &'a self,
        among: &Index,
    ) -> impl Iterator<Item = (&'a Name, &'a App)> + use<'a> {
        let apps = self.applications.keys_by(among);
        let apps = apps.filter_map(|name| Some((name, self.applications.get(name)?)));
        apps.filter(|(_, app)| self.is_stray(app))
    }

    /// Whether an Application is one of these.
    pub fn is_stray(&self, app: &App) -> bool {
        let is_elsewhere = |server| app.server() != Some(server);
        app.deleting
            && self.clusters.get(&app.cluster).is_some()
            && self.server(&app.cluster).is_some_and(is_elsewhere)
    }

    /// The one AppProject.
    pub fn project(&self) -> Option<&Project> {
        self.projects.get(&Name::new(ARGO_NAMESPACE, names::PROJECT))
    }

    /// The server of a cluster, as its kubeconfig said when it could last be used. Where that is another cluster's, or nothing
    /// is known any more, the one that Argo CD knows it by.
    pub fn server(&self, cluster: &Name) -> Option<&str> {
        let said = self.found.get(cluster).filter(|found| found.rival.is_none());
        said.and_then(|found| found.server.as_deref())
            .or_else(|| self.argo_secret(cluster)?.1.server.as_deref())
    }

    /// How a cluster is called in a status: by its name, with its namespace where several have that name.
    pub fn title(&self, cluster: &Name) -> String {
        let mut named = self.clusters.keys_by(&ClusterIndex::Named(cluster.name.clone()));
        if named.any(|other| other != cluster) { cluster.to_string() } else { cluster.name.clone() }
    }

    /// Whether a cluster came before another, and so has the better right.
    pub fn is_older(&self, cluster: &Name, other: &Name) -> bool {
        let created = |name: &Name| self.clusters.get(name).map(|cluster| cluster.created.clone());
        (created(cluster), cluster) < (created(other), other)
    }

    /// Whether a cluster exists no more. Where DPUClusters are not served there is none of them; where they can't be watched for
    /// another reason, that is not known.
    pub fn is_gone(&self, cluster: &Name) -> bool {
        match self.refused.get(&Source::Clusters) {
            Some(failure) => failure.class == Class::NotFound,
            None => self.clusters.get(cluster).is_none(),
        }
    }

    /// What can't be seen of what decisions start from.
    pub fn unwatchable_kind(&self) -> Option<(Source, &Failure)> {
        self.refused.iter().map(|(source, failure)| (*source, failure)).next()
    }

    /// Whether everything has been listed that decisions start from, or can't be.
    pub fn is_synced(&self) -> bool {
        let synced = [
            (Source::Services, self.services.is_synced()),
            (Source::Clusters, self.clusters.is_synced()),
            (Source::Secrets, self.secrets.is_synced()),
            (Source::Projects, self.projects.is_synced()),
            (Source::Applications, self.applications.is_synced()),
        ];
        synced.iter().all(|(source, is_synced)| {
            *is_synced || (*source != Source::Services && self.refused.contains_key(source))
        })
    }

    /// A watch failed. What can't be listed at all must be told, not waited for. Returns whether that was news.
    pub fn refuse(&mut self, source: Source, failure: Failure) -> bool {
        let is_refusal = matches!(failure.class, Class::Forbidden | Class::NotFound);
        if !is_refusal || self.refused.get(&source).is_some_and(|before| before.class == failure.class) {
            return false;
        }
        // Without the kind there are no objects of it. That DPF is gone does not mean that its clusters are.
        match (source, failure.class) {
            (Source::Applications, Class::NotFound) => self.applications = Cache::default(),
            (Source::Projects, Class::NotFound) => self.projects = Cache::default(),
            _ => {}
        }
        self.refused.insert(source, failure);
        true
    }
}

/// The service itself, as an object.
pub fn service_ref(name: &Name) -> ObjectRef {
    name.object(&names::service())
}
