//! The cached state of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockstep_crds::dpuservice::{DPUServiceSpec, DPUServiceStatus};
use lockstep_engine::action::{Class, Failure};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::digest::shortened;
use lockstep_engine::object::{
    self, Name, ObjectRef, annotation, generation, is_deleting, label, metadata, resource_version, text,
};
use lockstep_engine::time::Monotonic;
use lockstep_engine::{finalizer, pairs};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::application::{App, Index};
use super::cluster::{Claim, Found};
use super::names::{self, ARGO_NAMESPACE, CLUSTER, FINALIZER, MANAGED_BY, MANAGER, SERVER};
use super::outdated::HeldUp;
use super::project;
use super::source::Source;

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
    /// The Applications of services.
    pub applications: Cache<Name, App>,
    /// The kinds that can't be watched, and why.
    #[serde(with = "pairs")]
    pub refused: BTreeMap<Source, Failure>,
    /// The stored result of each cluster's reconcile.
    #[serde(with = "pairs")]
    pub found: BTreeMap<Name, Found>,
    /// The clusters whose Secrets are being written.
    #[serde(with = "pairs")]
    pub claims: BTreeMap<Name, Claim>,
    /// Why the last write of the AppProject failed.
    pub project_failure: Option<Failure>,
    /// The Applications of other owners, whose names are taken.
    pub taken: BTreeSet<Name>,
    /// The shared objects that could not be removed, and why.
    #[serde(with = "pairs")]
    pub irremovable: BTreeMap<Name, String>,
    /// When the status of a service was last written.
    #[serde(with = "pairs")]
    pub told: BTreeMap<Name, Monotonic>,
    /// Syncs that delay a change, by service.
    #[serde(with = "pairs")]
    pub held_up: BTreeMap<Name, Vec<HeldUp>>,
    /// The time since which deleted clusters have Applications that are not removed.
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
    /// Its spec, or why that can't be parsed.
    pub spec: Result<DPUServiceSpec, String>,
    /// Its status as last seen.
    pub status: DPUServiceStatus,
    /// Its metadata.
    pub metadata: Arc<Value>,
}

impl Service {
    /// Parses a service.
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

    /// Returns whether it differs at most in its status. The controller's own status write must not enqueue the service.
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
    /// When it was created, in the API's time format.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The Secret of its kubeconfig.
    pub kubeconfig: Option<Name>,
    /// Its phase, as DPF reports it.
    pub phase: String,
    /// Why it is not ready, as DPF reports it.
    pub message: String,
    /// The time since which it is not ready, in the API's time format; at the latest its creation.
    pub unready_since: String,
    version: u64,
    name: String,
}

impl Cluster {
    /// Parses a cluster.
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

    /// Returns whether DPF reports it as ready. Argo CD's report about a cluster that is not ready may be stale.
    pub fn is_ready(&self) -> bool {
        self.phase == "Ready"
    }

    /// Returns whether both have the same relevant fields.
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { version: self.version, ..other.clone() }
    }
}

/// The index values by which DPUClusters are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClusterIndex {
    /// The Secret of their kubeconfig.
    Kubeconfig(Name),
    /// Their name, in any namespace.
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

/// The relevant metadata of a Secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Secret {
    /// Its uid.
    pub uid: String,
    /// Its resource version.
    pub version: u64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The cluster that it defines for Argo CD, if it is one of ours.
    pub cluster: Option<Name>,
    /// The server of that cluster.
    pub server: Option<String>,
}

impl Secret {
    /// Parses a Secret or its metadata.
    pub fn read(object: &Value) -> Self {
        let is_argo = metadata(object, "namespace") == ARGO_NAMESPACE;
        // Only the annotation counts: a label alone does not make another client's Secret ours.
        let cluster = annotated(object, CLUSTER).filter(|_| is_argo);
        Self {
            uid: metadata(object, "uid").to_owned(),
            version: resource_version(object),
            deleting: is_deleting(object),
            server: cluster.as_ref().and_then(|_| annotation(object, SERVER)).map(str::to_owned),
            cluster,
        }
    }

    /// Identifies one version of one Secret.
    pub fn marker(&self) -> String {
        format!("{}/{}", self.uid, self.version)
    }
}

/// The index values by which Argo CD's Secrets of clusters are found.
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
    /// Parses a project.
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

    /// Returns whether both have the same relevant fields.
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

/// Returns the name of the object that another object was created for. The annotation has the full name. If another client
/// has removed it, the labels are used.
pub fn identity(object: &Value, whole: &str, namespace: &str, name: &str) -> Option<Name> {
    let labels = label(object, namespace).zip(label(object, name));
    annotated(object, whole).or_else(|| labels.map(|(namespace, name)| Name::new(namespace, name)))
}

fn annotated(object: &Value, whole: &str) -> Option<Name> {
    let (namespace, name) = annotation(object, whole)?.split_once('/')?;
    Some(Name::new(namespace, name))
}

/// Returns a name as the value of a label.
pub fn label_value(name: &str) -> String {
    shortened(name, 63)
}

impl World {
    /// Returns whether any service is not being deleted. As long as there is one, the shared objects are kept.
    pub fn is_wanted(&self) -> bool {
        self.services.keys_by(&false).next().is_some()
    }

    /// Returns the clusters that services are deployed to.
    pub fn staying(&self) -> impl Iterator<Item = (&Name, &Cluster)> {
        self.clusters.iter().filter(|(_, cluster)| !cluster.deleting)
    }

    /// Returns the cluster, if services are deployed to it.
    pub fn stays(&self, name: &Name) -> Option<&Cluster> {
        self.clusters.get(name).filter(|cluster| !cluster.deleting)
    }

    /// Returns whether every cluster has been reconciled since the process began: only then the permitted servers are known.
    pub fn is_judged(&self) -> bool {
        self.staying()
            .all(|(name, cluster)| self.found.get(name).is_some_and(|found| found.uid == cluster.uid))
    }

    /// Returns the Secret that defines a cluster for Argo CD.
    pub fn argo_secret(&self, cluster: &Name) -> Option<(&Name, &Secret)> {
        let names = self.secrets.keys_by(&SecretIndex::Cluster(cluster.clone()));
        let mut secrets = names.filter_map(|name| Some((name, self.secrets.get(name)?)));
        secrets.find(|(_, secret)| !secret.deleting)
    }

    /// Returns the clusters that have a Secret for Argo CD.
    pub fn told_clusters(&self) -> impl Iterator<Item = &Name> {
        self.secrets.keys_by(&SecretIndex::Any).filter_map(|name| self.secrets.get(name)?.cluster.as_ref())
    }

    /// Returns the servers in Secrets for Argo CD.
    pub fn told_servers(&self) -> impl Iterator<Item = &str> {
        let names = self.secrets.keys_by(&SecretIndex::Any);
        names.filter_map(|name| self.secrets.get(name)?.server.as_deref())
    }

    /// Returns the clusters whose Secret for Argo CD names a server.
    pub fn clusters_with_server(&self, server: &str) -> impl Iterator<Item = &Name> {
        let names = self.secrets.keys_by(&SecretIndex::Server(server.to_owned()));
        names.filter_map(|name| self.secrets.get(name)?.cluster.as_ref())
    }

    /// Returns whether any shared object exists that the last service has to remove. A project that is being deleted is left
    /// to Argo CD.
    pub fn holds_shared(&self) -> bool {
        let is_kept = |project: &Project| project.is_ours && !project.deleting;
        self.told_clusters().next().is_some() || self.project().is_some_and(is_kept)
    }

    /// Returns the terminating Applications that name a server which is no longer their cluster's.
    pub fn on_stale_server<'a>(
        &'a self,
        among: &Index,
    ) -> impl Iterator<Item = (&'a Name, &'a App)> + use<'a> {
        let apps = self.applications.keys_by(among);
        let apps = apps.filter_map(|name| Some((name, self.applications.get(name)?)));
        apps.filter(|(_, app)| self.is_stray(app))
    }

    /// Returns whether an Application is one of these.
    pub fn is_stray(&self, app: &App) -> bool {
        let is_elsewhere = |server| app.server() != Some(server);
        app.deleting
            && self.clusters.get(&app.cluster).is_some()
            && self.server(&app.cluster).is_some_and(is_elsewhere)
    }

    /// Returns the AppProject.
    pub fn project(&self) -> Option<&Project> {
        self.projects.get(&Name::new(ARGO_NAMESPACE, names::PROJECT))
    }

    /// Returns the server of a cluster, from its kubeconfig when it was last usable. If another cluster owns that server, or
    /// none is known, it is the server in the Secret for Argo CD.
    pub fn server(&self, cluster: &Name) -> Option<&str> {
        let said = self.found.get(cluster).filter(|found| found.rival.is_none());
        said.and_then(|found| found.server.as_deref())
            .or_else(|| self.argo_secret(cluster)?.1.server.as_deref())
    }

    /// Returns the title of a cluster in a status: its name, with its namespace if several clusters have that name.
    pub fn title(&self, cluster: &Name) -> String {
        let mut named = self.clusters.keys_by(&ClusterIndex::Named(cluster.name.clone()));
        if named.any(|other| other != cluster) { cluster.to_string() } else { cluster.name.clone() }
    }

    /// Returns whether a cluster is older than another, and so has precedence.
    pub fn is_older(&self, cluster: &Name, other: &Name) -> bool {
        let created = |name: &Name| self.clusters.get(name).map(|cluster| cluster.created.clone());
        (created(cluster), cluster) < (created(other), other)
    }

    /// Returns whether a cluster no longer exists. If DPUClusters are not served, there are none. If they can't be watched
    /// for another reason, that is not known.
    pub fn is_gone(&self, cluster: &Name) -> bool {
        match self.refused.get(&Source::Clusters) {
            Some(failure) => failure.class == Class::NotFound,
            None => self.clusters.get(cluster).is_none(),
        }
    }

    /// Returns a kind that can't be watched, with the reason.
    pub fn unwatchable_kind(&self) -> Option<(Source, &Failure)> {
        self.refused.iter().map(|(source, failure)| (*source, failure)).next()
    }

    /// Returns whether all kinds that decisions need have been listed, or can't be.
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

    /// Records that a watch failed. A kind that can't be listed at all is reported, and not waited for. Returns whether this
    /// changed the recorded state.
    pub fn refuse(&mut self, source: Source, failure: Failure) -> bool {
        let is_refusal = matches!(failure.class, Class::Forbidden | Class::NotFound);
        if !is_refusal || self.refused.get(&source).is_some_and(|before| before.class == failure.class) {
            return false;
        }
        // If the kind is not served, there are no objects of it. If DPF is gone, its clusters may still exist.
        match (source, failure.class) {
            (Source::Applications, Class::NotFound) => self.applications = Cache::default(),
            (Source::Projects, Class::NotFound) => self.projects = Cache::default(),
            _ => {}
        }
        self.refused.insert(source, failure);
        true
    }
}

/// Returns the reference of the service itself.
pub fn service_ref(name: &Name) -> ObjectRef {
    name.object(&names::service())
}
