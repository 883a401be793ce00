//! The cached state of the cluster, trimmed to the fields that decisions need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use lockstep_crds::namespaceclass::{NamespaceClassBindingStatus, NamespaceClassStatus};
use lockstep_engine::action::{Class as FailureClass, Failure};
use lockstep_engine::cache::{Cache, Cached};
use lockstep_engine::object::{
    Kind, ObjectRef, annotation, controller_reference, controller_uid, generation, is_deleting, label,
    metadata, resource_version,
};
use lockstep_engine::pairs;
use lockstep_engine::time::Monotonic;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::drift;
use super::drift_backoff::DriftBackoff;
use super::names::{self, ADOPTED_ANNOTATION, CLASS_LABEL, CONTENT_ANNOTATION, PROBLEM_ANNOTATION};
use super::resolved_class::{ClassResource, Content};

/// A kind must fail this often in a row to be listed, or to be watched after it was listed, before that is reported. It is
/// reported in every namespace that contains the kind. The shell's backoff makes this some seconds.
const ATTEMPTS: u32 = 3;
/// A busy server must put off the list of a kind this often in a row before that is reported: some minutes.
const PUT_OFF: u32 = 10;

/// Everything that watches and answers have shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct World {
    /// Namespaces by name; indexed by the class that their label names.
    pub namespaces: Cache<String, Namespace>,
    /// Classes by name.
    pub classes: Cache<String, Class>,
    /// Bindings by namespace; indexed by class.
    pub bindings: Cache<String, Binding>,
    /// The resources that carry our label, by kind.
    #[serde(with = "pairs")]
    pub resources: BTreeMap<Arc<Kind>, Resources>,
    /// The kinds that the cluster serves, as far as they were discovered.
    pub kinds: Kinds,
    /// The time since which discovery has failed for the kinds of a class, by class.
    pub discovery_failing_since: BTreeMap<String, Monotonic>,
    /// The namespaces whose resources had to be repaired recently.
    pub drift_backoff: BTreeMap<String, DriftBackoff>,
    /// The problems reported as events, by namespace: the uid of the namespace and the text.
    pub reported_events: BTreeMap<String, (String, String)>,
    /// Whether the server has refused to let a namespace be annotated, which is reported once.
    pub is_annotating_refused: bool,
    /// The conditions of status writes that ended without an answer: it is not known yet whether they took effect.
    #[serde(with = "pairs")]
    pub unconfirmed: BTreeMap<ObjectRef, Vec<Condition>>,
    /// The namespaces whose label names a class that does not exist.
    pub unresolved: BTreeSet<String>,
    /// The resolved resources of each class, for one uid and generation of it.
    pub resolved: BTreeMap<String, Resolved>,
    #[serde(skip)]
    fields: Interner,
}

/// The resolved resources of a class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolved {
    /// The class's uid.
    pub uid: String,
    /// The class's generation.
    pub generation: i64,
    /// Its resources.
    pub content: Arc<Content>,
}

impl Resolved {
    /// Returns whether these are the resources of this class, at the same generation.
    pub fn is_of(&self, class: &Value) -> bool {
        metadata(class, "uid") == self.uid && generation(class) == self.generation
    }
}

/// A namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Namespace {
    /// Its uid.
    pub uid: String,
    /// The class that its label names.
    pub class: Option<String>,
    /// Whether it is being deleted: then it is not changed.
    pub terminating: bool,
    /// The problem that its annotation reports.
    pub problem: Option<String>,
    resource_version: u64,
}

impl Namespace {
    /// Reads a namespace or its metadata.
    pub fn read(object: &Value) -> Self {
        Self {
            uid: metadata(object, "uid").to_owned(),
            class: label(object, CLASS_LABEL).filter(|class| !class.is_empty()).map(str::to_owned),
            terminating: is_deleting(object),
            problem: annotation(object, PROBLEM_ANNOTATION).map(str::to_owned),
            resource_version: resource_version(object),
        }
    }

    /// Returns whether all fields that decisions depend on are equal. Other clients may change its labels and annotations
    /// often. If another client removes our annotation, the next resync restores it.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, &self.class, self.terminating) == (&other.uid, &other.class, other.terminating)
    }
}

impl Cached for Namespace {
    type Index = String;

    fn resource_version(&self) -> u64 {
        self.resource_version
    }

    fn indexes(&self) -> Vec<String> {
        self.class.clone().into_iter().collect()
    }
}

/// A class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Class {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its status as last seen.
    pub status: NamespaceClassStatus,
    object: Arc<Value>,
}

impl Class {
    /// Reads a class.
    pub fn read(object: &Arc<Value>) -> Self {
        Self {
            uid: metadata(object, "uid").to_owned(),
            generation: generation(object),
            status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
            object: Arc::clone(object),
        }
    }

    /// Returns whether it differs at most in its status. The operator's own status write must not enqueue the class, or two
    /// writers that disagree would enqueue each other without end.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation) == (&other.uid, other.generation)
    }

    /// `spec.resources`.
    pub fn resources(&self) -> &[Value] {
        self.object["spec"]["resources"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the resource version, as a precondition for writing the status.
    pub fn version(&self) -> &str {
        metadata(&self.object, "resourceVersion")
    }
}

impl Cached for Class {
    type Index = ();

    fn resource_version(&self) -> u64 {
        resource_version(&self.object)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

/// A binding.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Binding {
    /// Its uid.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its resource version, as a precondition.
    pub version: String,
    /// The class that it requests.
    pub class: String,
    /// The uid of the namespace that controls it.
    pub controller: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its status as last seen.
    pub status: NamespaceClassBindingStatus,
}

impl Binding {
    /// Returns whether it differs at most in its status, as with [`Class::is_same`].
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.uid, self.generation, self.deleting, &self.controller)
            == (&other.uid, other.generation, other.deleting, &other.controller)
    }

    /// Reads a binding.
    pub fn read(object: &Value) -> Self {
        Self {
            uid: metadata(object, "uid").to_owned(),
            generation: generation(object),
            version: metadata(object, "resourceVersion").to_owned(),
            class: object["spec"]["className"].as_str().unwrap_or_default().to_owned(),
            controller: controller_uid(object).map(str::to_owned),
            deleting: is_deleting(object),
            status: serde_json::from_value(object["status"].clone()).unwrap_or_default(),
        }
    }

    /// Returns whether the status is the result of a pass over the current class.
    pub fn has_applied(&self, resolved: &Resolved) -> bool {
        let status = &self.status;
        (&status.observed_class_name, &status.observed_class_uid, status.observed_class_generation)
            == (&self.class, &resolved.uid, resolved.generation)
    }

    /// Returns the reference by which the binding owns its resources. A binding is named like its namespace.
    pub fn owner_reference(&self, namespace: &str) -> Value {
        controller_reference(&names::binding(), namespace, &self.uid)
    }
}

impl Cached for Binding {
    type Index = String;

    fn resource_version(&self) -> u64 {
        self.version.parse().unwrap_or(0)
    }

    fn indexes(&self) -> Vec<String> {
        vec![self.class.clone()]
    }
}

/// The resources of one kind that carry our label, and the state of their watch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Resources {
    /// By namespace and name.
    pub cache: Cache<(String, String), Resource>,
    /// Why the kind can't be watched, if the API server says so.
    pub refused: Option<Failure>,
    /// Consecutive failures to list the kind, or to watch it after it was listed.
    pub failures: u32,
    /// Consecutive times that a busy server put off its list.
    pub put_off: u32,
    /// Whether the watch did not find the kind and has not listed it since.
    pub is_missed: bool,
    /// When a pass over a namespace last needed the kind.
    pub needed: Monotonic,
}

impl Resources {
    /// Returns whether decisions about this kind can be made.
    pub fn is_settled(&self) -> bool {
        self.cache.is_synced() || self.refused.is_some()
    }

    /// Counts a failure. Returns whether there were enough in a row to report it.
    fn fails_again(&mut self) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures >= ATTEMPTS
    }

    /// Counts a list that was put off. Returns whether there were enough in a row to report it.
    fn is_put_off_again(&mut self) -> bool {
        self.put_off = self.put_off.saturating_add(1);
        self.put_off >= PUT_OFF
    }

    /// Records that all objects have been listed. Returns whether decisions could not be made before.
    pub fn listed(&mut self) -> bool {
        let was_settled = self.cache.is_synced() && self.refused.is_none();
        (self.refused, self.failures, self.put_off, self.is_missed) = (None, 0, 0, false);
        !was_settled
    }
}

/// The metadata of a resource in a namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resource {
    /// Its uid.
    pub uid: String,
    /// Its resource version, as a precondition.
    pub version: String,
    /// The uid of its controller.
    pub controller: Option<String>,
    /// The uids of all bindings that own it.
    pub bindings: Vec<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The value of its content annotation.
    #[serde(rename = "namespaceclass.akuity.io/content")]
    content: Option<String>,
    /// The uid of the binding that adopted it, if it existed before.
    adopted: Option<String>,
    /// Our entry in its managed fields, as JSON. Equal texts of all namespaces share one allocation.
    fields: Option<Arc<str>>,
    /// Whether `fields` is the server's answer to our apply of `content`.
    accepted: bool,
}

impl Resource {
    /// Returns whether we ever applied it. A copy that another client made of it has our label and our owner, but not this.
    pub fn is_applied(&self) -> bool {
        self.fields.is_some()
    }

    /// Returns whether it existed before this binding adopted it.
    pub fn is_adopted_by(&self, binding: &Binding) -> bool {
        self.adopted.as_ref() == Some(&binding.uid)
    }

    /// Returns whether we created it, as far as its metadata shows: only we have an entry like ours in the managed fields.
    pub fn is_created(&self) -> bool {
        self.is_applied() && self.content.is_some() && self.adopted.is_none()
    }

    /// Returns whether all fields that decisions depend on are equal. The status of a `ResourceQuota` changes with every pod:
    /// that must not enqueue a waiting key.
    fn is_same(&self, other: &Self) -> bool {
        (
            &self.uid,
            &self.controller,
            &self.bindings,
            self.deleting,
            &self.content,
            &self.adopted,
            &self.fields,
        ) == (
            &other.uid,
            &other.controller,
            &other.bindings,
            other.deleting,
            &other.content,
            &other.adopted,
            &other.fields,
        )
    }

    /// Returns whether our fields are the same in both.
    fn has_fields_of(&self, other: &Self) -> bool {
        (&self.uid, &self.content, &self.fields) == (&other.uid, &other.content, &other.fields)
    }

    /// Returns whether it still is as the apply of the entry left it.
    pub fn is_intact(&self, entry: &ClassResource) -> bool {
        let Some(fields) = &self.fields else { return false };
        self.content.as_deref() == Some(&entry.content)
            && (self.accepted
                || serde_json::from_str(fields).is_ok_and(|fields| drift::covers(&fields, entry.template())))
    }
}

impl Cached for Resource {
    type Index = ();

    fn resource_version(&self) -> u64 {
        self.version.parse().unwrap_or(0)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

impl World {
    /// Returns the resources in a namespace, of kinds that are watched.
    pub fn resources_in<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<Kind>, String, &'a Resource)> {
        self.resources.iter().flat_map(move |(kind, resources)| {
            let from = resources.cache.starting_at((namespace.to_owned(), String::new()));
            let here = from.take_while(move |((place, _), _)| place == namespace);
            here.map(move |((_, name), resource)| (kind, name.clone(), resource))
        })
    }

    /// Returns whether all kinds that every decision needs have been listed.
    pub fn is_synced(&self) -> bool {
        self.namespaces.is_synced() && self.classes.is_synced() && self.bindings.is_synced()
    }

    /// Reads the metadata of a resource.
    pub fn read_resource(&mut self, object: &Value) -> Resource {
        let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        let binding = names::binding();
        let bindings = owners
            .iter()
            .filter(|owner| owner["kind"] == binding.kind && owner["apiVersion"] == binding.api_version())
            .filter_map(|owner| owner["uid"].as_str().map(str::to_owned));
        Resource {
            uid: metadata(object, "uid").to_owned(),
            version: metadata(object, "resourceVersion").to_owned(),
            controller: controller_uid(object).map(str::to_owned),
            bindings: bindings.collect(),
            deleting: is_deleting(object),
            content: annotation(object, CONTENT_ANNOTATION).map(str::to_owned),
            adopted: annotation(object, ADOPTED_ANNOTATION).map(str::to_owned),
            fields: drift::our_fields(object).map(|fields| self.fields.intern(&fields.to_string())),
            accepted: false,
        }
    }

    /// Stores a resource that a watch has shown. Its fields stay accepted while our fields do not change. Returns whether it
    /// has changed.
    pub fn observe_resource(&mut self, kind: &Arc<Kind>, object: &Value) -> bool {
        let mut resource = self.read_resource(object);
        let key = resource_key(object);
        let Some(resources) = self.resources.get_mut(kind) else { return false };
        let held = resources.cache.get(&key);
        resource.accepted = held.is_some_and(|held| held.accepted && held.has_fields_of(&resource));
        let is_told = held.is_some_and(|held| held.is_same(&resource));
        resources.cache.observe(key, resource) && !is_told
    }

    /// Stores the answer to an apply of ours: the server accepted what we sent, in whatever form it stores it.
    pub fn absorb_applied(&mut self, kind: &Arc<Kind>, object: &Value) {
        let mut resource = self.read_resource(object);
        resource.accepted = true;
        let key = resource_key(object);
        let Some(resources) = self.resources.get_mut(kind) else { return };
        // The watch may have shown this before the answer arrived, and newer statuses since.
        resources.cache.amend(&key, |held| held.accepted |= held.has_fields_of(&resource));
        resources.cache.absorb(key, resource);
    }

    /// Records that a watch failed. If the server refuses a kind that is not listed yet, decisions no longer wait for it. The
    /// same applies to repeated refusals of a listed kind, and to repeated failures of its first list. A kind that can't be
    /// watched must be reported, and not waited for. A single failure of a server is not reported. Returns whether this
    /// failure settled the kind.
    pub fn refuse(&mut self, kind: &Arc<Kind>, failure: Failure) -> bool {
        let Some(resources) = self.resources.get_mut(kind) else { return false };
        resources.is_missed |= failure.class == FailureClass::NotFound;
        if resources.refused.is_some() {
            return false;
        }
        let is_synced = resources.cache.is_synced();
        let is_refused = match failure.class {
            FailureClass::Throttled | FailureClass::Gone => !is_synced && resources.is_put_off_again(),
            FailureClass::Forbidden | FailureClass::NotFound | FailureClass::Invalid => {
                !is_synced || resources.fails_again()
            }
            _ => !is_synced && resources.fails_again(),
        };
        if is_refused {
            resources.refused = Some(failure);
        }
        is_refused
    }

    /// Returns the kinds that classes need.
    pub fn kinds_in_use(&self) -> BTreeSet<Arc<Kind>> {
        let entries = self.resolved.values().flat_map(|resolved| &resolved.content.entries);
        entries.map(|entry| Arc::clone(&entry.kind)).collect()
    }
}

/// Returns the key of a resource in the cache of its kind.
pub fn resource_key(object: &Value) -> (String, String) {
    (metadata(object, "namespace").to_owned(), metadata(object, "name").to_owned())
}

/// The kinds that the cluster serves, by API version, as far as they were discovered.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Kinds {
    served: BTreeMap<String, BTreeMap<String, Arc<Kind>>>,
    /// The API versions whose discovery failed.
    failed: BTreeMap<String, Failure>,
}

impl Kinds {
    /// Returns a kind, if it is known to be served.
    pub fn find(&self, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
        self.served.get(api_version)?.get(kind).cloned()
    }

    /// Stores the kinds that an API version serves, and replaces what was stored before.
    pub fn learn(&mut self, api_version: &str, served: Vec<Arc<Kind>>) {
        let by_name = served.into_iter().map(|kind| (kind.kind.clone(), kind)).collect();
        self.failed.remove(api_version);
        self.served.insert(api_version.to_owned(), by_name);
    }

    /// Records that discovery of an API version failed. A failure of the same class as before keeps its message. A changed
    /// message would be reported in every namespace.
    pub fn fail(&mut self, api_version: &str, failure: Failure) {
        if self.failure(api_version).is_none_or(|known| known.class != failure.class) {
            self.failed.insert(api_version.to_owned(), failure);
        }
    }

    /// Returns why the discovery of an API version failed.
    pub fn failure(&self, api_version: &str) -> Option<&Failure> {
        self.failed.get(api_version)
    }

    /// Removes an API version, because one of its kinds turned out to be gone.
    pub fn forget(&mut self, api_version: &str) {
        self.served.remove(api_version);
    }
}

/// Stores equal texts once.
#[derive(Debug, Clone, Default)]
struct Interner {
    texts: BTreeSet<Arc<str>>,
    swept_at: usize,
}

impl Interner {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(kept) = self.texts.get(text) {
            return Arc::clone(kept);
        }
        if self.texts.len() >= 64 + 2 * self.swept_at {
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.swept_at = self.texts.len();
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}
