//! The cached state of the cluster: everything that watches and answers have shown.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockstep_crds::namespaceclass::AppliedResource;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::cache::Cache;
use lockstep_engine::object::{Kind, ObjectRef, Uid, metadata};
use lockstep_engine::pairs;
use lockstep_engine::refusals::Refusals;
use lockstep_engine::repair_backoff::RepairBackoff;
use lockstep_engine::time::Monotonic;
use lockstep_engine::unconfirmed::Unconfirmed;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::departures::Departures;
use super::drift;
use super::kinds::Kinds;
use super::model::{Binding, Class, Namespace, Resolved, Resource};
use super::ownership::{Ownership, ownership};
use super::resolved_class::ClassResource;

/// A kind must fail this often in a row to be listed, or to be watched after it was listed, before that is reported. It is
/// reported in every namespace that contains the kind. The shell's backoff makes this some seconds.
const ATTEMPTS: u32 = 3;
/// A busy server must put off the list of a kind this often in a row before that is reported: some minutes.
const PUT_OFF: u32 = 10;

/// Everything that watches and answers have shown.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Store {
    /// Namespaces by name; indexed by the class that their label names.
    pub namespaces: Cache<String, Namespace>,
    /// Classes by name.
    pub classes: Cache<String, Class>,
    /// Bindings by namespace; indexed by class.
    pub bindings: Cache<String, Binding>,
    /// The kinds of the three above whose watches were refused.
    #[serde(with = "pairs")]
    pub refused: BTreeMap<Arc<Kind>, Refusals>,
    /// The resources that carry our label, by kind.
    #[serde(with = "pairs")]
    pub resources: BTreeMap<Arc<Kind>, Resources>,
    /// The kinds that the cluster serves, as far as they were discovered.
    pub kinds: Kinds,
    /// The time since which discovery has failed for the kinds of a class, by class.
    pub discovery_failing_since: BTreeMap<String, Monotonic>,
    /// The namespaces whose resources had to be repaired recently.
    pub drift_backoff: BTreeMap<String, RepairBackoff<Arc<ClassResource>>>,
    /// The problems reported as events, by namespace: the uid of the namespace and the text.
    pub reported_events: BTreeMap<String, (Uid, String)>,
    /// Whether the server has refused to let a namespace be annotated, which is reported once.
    pub is_annotating_refused: bool,
    /// The conditions of status writes that ended without an answer: it is not known yet whether they took effect.
    pub unconfirmed: Unconfirmed<ObjectRef>,
    /// The namespaces whose label names a class that does not exist.
    pub unresolved: BTreeSet<String>,
    /// The resolved resources of each class, for one uid and generation of it.
    pub resolved: BTreeMap<String, Resolved>,
    /// The ready namespaces that are being brought to a new generation of a class that limits their number, with that class.
    pub admitted: BTreeMap<String, String>,
    /// Since when namespaces no longer have the class of their binding, while the class holds removals.
    pub leaving: BTreeMap<String, Monotonic>,
    /// The namespaces that no longer have the class of their binding, counted by class.
    pub departures: Departures,
    /// The ready namespaces that wait until they may be, by class.
    pub waiting: BTreeMap<String, BTreeSet<String>>,
    #[serde(skip)]
    fields: Interner,
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

impl Store {
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

    /// Returns the resources that a binding has applied in its namespace, of kinds that are watched.
    pub fn applied_in<'a>(
        &'a self,
        namespace: &'a str,
        binding: &'a Binding,
    ) -> impl Iterator<Item = AppliedResource> + 'a {
        self.resources_in(namespace).filter_map(move |(kind, name, resource)| {
            let is_ours =
                matches!(ownership(resource, binding), Ownership::Owned { .. } | Ownership::Adopted { .. });
            let applied = AppliedResource { api_version: kind.api_version(), kind: kind.kind.clone(), name };
            (is_ours && resource.is_applied()).then_some(applied)
        })
    }

    /// Returns whether a namespace differs from the known one in what a variable of its class reads.
    pub fn reads_differently(&self, name: &str, namespace: &Namespace) -> bool {
        let name = name.to_owned();
        let class = self.bindings.get(&name).and_then(|binding| self.resolved.get(&binding.class));
        class.zip(self.namespaces.get(&name)).is_some_and(|(class, known)| {
            class.content.read_differently(&known.metadata, &namespace.metadata)
        })
    }

    /// Returns whether all kinds that every decision needs have been listed.
    pub fn is_synced(&self) -> bool {
        self.namespaces.is_synced() && self.classes.is_synced() && self.bindings.is_synced()
    }

    /// Reads the metadata of a resource.
    pub fn read_resource(&mut self, object: &Value) -> Resource {
        let fields = drift::our_fields(object).map(|fields| self.fields.intern(&fields.to_string()));
        Resource::read(object, fields)
    }

    /// Stores a resource that a watch has shown. Its fields stay accepted while our fields do not change. Returns whether it
    /// has changed.
    pub fn observe_resource(&mut self, kind: &Arc<Kind>, object: &Value) -> bool {
        let mut resource = self.read_resource(object);
        let key = resource_key(object);
        let Some(resources) = self.resources.get_mut(kind) else { return false };
        let held = resources.cache.get(&key);
        resource.accepted = held.is_some_and(|held| held.accepted && held.has_fields_of(&resource));
        let is_unchanged = held.is_some_and(|held| held.is_same(&resource));
        resources.cache.observe(key, resource) && !is_unchanged
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
        resources.is_missed |= failure.class == ErrorKind::KindNotServed;
        if resources.refused.is_some() {
            return false;
        }
        let is_synced = resources.cache.is_synced();
        let is_refused = match failure.class {
            ErrorKind::Throttled | ErrorKind::Gone => !is_synced && resources.is_put_off_again(),
            _ if is_refusal(&failure) => !is_synced || resources.fails_again(),
            _ => !is_synced && resources.fails_again(),
        };
        if is_refused {
            resources.refused = Some(failure);
        }
        is_refused
    }

    /// Counts a refused watch of a kind that every decision needs. Returns whether it is now to be reported.
    pub fn refuse_own(&mut self, kind: &Arc<Kind>, failure: Failure) -> bool {
        is_refusal(&failure) && self.refused.entry(Arc::clone(kind)).or_default().count(failure)
    }

    /// Returns the kinds that every decision needs and that can't be watched any more, with the server's answers.
    pub fn unwatchable(&self) -> impl Iterator<Item = (&Kind, &Failure)> {
        self.refused.iter().filter_map(|(kind, refusals)| Some((&**kind, refusals.reported()?)))
    }

    /// Returns the kinds that classes need.
    pub fn kinds_in_use(&self) -> BTreeSet<Arc<Kind>> {
        let entries = self.resolved.values().flat_map(|resolved| &resolved.content.entries);
        entries.map(|entry| Arc::clone(&entry.kind)).collect()
    }
}

/// Returns whether the server will give the same answer until its configuration changes.
fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.class, ErrorKind::Forbidden | ErrorKind::KindNotServed | ErrorKind::Invalid)
}

/// Returns the key of a resource in the cache of its kind.
pub fn resource_key(object: &Value) -> (String, String) {
    (metadata(object, "namespace").to_owned(), metadata(object, "name").to_owned())
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
