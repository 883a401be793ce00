//! The registry of resources: the built-in ones and those of CRDs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, OnceLock};

use lockstep_engine::object::Kind;
use serde_json::Value;

use super::status::Qualified;
use super::store::TableId;
use super::{events, meta};
use crate::builtin::{self, autoscaling};
use crate::schema::Schema;

/// One resource with all its versions.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) table: TableId,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) versions: Vec<Version>,
    /// The revision of the last change of the resource's definition. Objects stored before may have fields that were removed
    /// since.
    pub(crate) since: u64,
    pub(crate) object_kind: OnceLock<Arc<Kind>>,
}

/// One version of a resource.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) origin: Origin,
    schema: OnceLock<Option<Schema>>,
}

/// The origin of a version.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// Built in.
    Builtin(&'static builtin::Resource),
    /// One entry of `spec.versions` of a CRD.
    Custom(Arc<Value>),
}

impl Version {
    /// Returns a version of a CRD with its parsed schema.
    pub(crate) fn custom(entry: Arc<Value>, schema: Option<Schema>) -> Self {
        let flag = |key: &str| entry.get(key).and_then(Value::as_bool).unwrap_or_default();
        Self {
            name: entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            served: flag("served"),
            storage: flag("storage"),
            origin: Origin::Custom(entry),
            schema: OnceLock::from(schema),
        }
    }

    fn builtin(resource: &'static builtin::Resource) -> Self {
        Self {
            name: resource.version.to_owned(),
            served: true,
            storage: true,
            origin: Origin::Builtin(resource),
            schema: OnceLock::new(),
        }
    }

    /// Returns the type of the version's objects, which is parsed at the first use.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        let read = || match &self.origin {
            Origin::Builtin(resource) => builtin::schema(resource),
            Origin::Custom(_) => None,
        };
        self.schema.get_or_init(read).as_ref()
    }

    /// Returns the built-in resource behind the version.
    pub(crate) fn builtin_resource(&self) -> Option<&'static builtin::Resource> {
        match self.origin {
            Origin::Builtin(resource) => Some(resource),
            Origin::Custom(_) => None,
        }
    }

    /// Returns the entry of the CRD behind the version.
    pub(crate) fn crd_entry(&self) -> Option<&Value> {
        match &self.origin {
            Origin::Builtin(_) => None,
            Origin::Custom(entry) => Some(entry),
        }
    }

    /// Returns the served subresources.
    pub(crate) fn subresources(&self) -> Vec<&str> {
        match &self.origin {
            Origin::Builtin(resource) if resource.kind == "ServiceAccount" => vec!["token"],
            Origin::Builtin(resource) => resource.subresources.to_vec(),
            Origin::Custom(entry) => {
                let known = |name: &&str| {
                    entry.pointer(&format!("/subresources/{name}")).is_some_and(|value| !value.is_null())
                };
                ["status", "scale"].into_iter().filter(known).collect()
            }
        }
    }

    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.subresources().contains(&name)
    }
}

impl Resource {
    /// Returns the resource as in messages: `deployments.apps`.
    pub(crate) fn qualified(&self) -> Qualified<'_> {
        Qualified { group: &self.group, name: &self.plural }
    }

    /// Returns the kind as in messages: `Deployment.apps`. Objects with two representations have the kind of the first.
    pub(crate) fn qualified_kind(&self) -> Qualified<'_> {
        Qualified { group: if self.is_second_face() { "" } else { &self.group }, name: &self.kind }
    }

    pub(crate) fn is_custom(&self) -> bool {
        self.versions.iter().any(|version| version.crd_entry().is_some())
    }

    /// Returns whether this is the given built-in resource.
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    /// Returns the version in which objects are stored.
    pub(crate) fn storage_version(&self) -> &Version {
        self.versions.iter().find(|version| version.storage).unwrap_or(&self.versions[0])
    }

    /// Returns the kind of the stored objects. References to objects are compared fastest if they share it.
    pub(crate) fn object_kind(&self) -> &Arc<Kind> {
        let version = || &self.storage_version().name;
        let kind = || Kind::known(&self.group, version(), &self.kind, &self.plural, self.namespaced);
        self.object_kind.get_or_init(kind)
    }

    /// Returns the `apiVersion` of objects of one of the versions.
    pub(crate) fn api_version(&self, version: &Version) -> String {
        if self.group.is_empty() { version.name.clone() } else { format!("{}/{}", self.group, version.name) }
    }

    /// Returns whether the objects are another representation of another resource's: `events.k8s.io` and the core events.
    pub(crate) fn is_second_face(&self) -> bool {
        self.is("events.k8s.io", "events")
    }

    /// Returns whether objects of the version have other fields than the stored ones.
    fn converts(&self, version: &Version) -> bool {
        self.is("autoscaling", "horizontalpodautoscalers") && !version.storage
    }

    /// Converts an object of one of the versions to the stored form; `old` is the stored object.
    pub(crate) fn to_storage(&self, version: &Version, mut object: Value, old: Option<&Value>) -> Value {
        if self.converts(version) {
            autoscaling::to_v2(&mut object, old);
        }
        if !self.is_custom() {
            // An empty list is stored like an absent one.
            for value in object.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
                if value.as_array().is_some_and(Vec::is_empty) {
                    *value = Value::Null;
                }
            }
        }
        if self.is_second_face() {
            events::to_storage(&mut object);
            object["apiVersion"] = "v1".into();
        } else {
            let storage = self.storage_version();
            object["apiVersion"] = self.api_version(storage).into();
            if storage.name != version.name
                && let Some(schema) = storage.schema().filter(|_| self.is_custom())
            {
                schema.prune(&mut object);
                schema.drop_nulls(&mut object);
            }
        }
        object
    }

    /// Converts a stored object to one of the versions.
    pub(crate) fn view(&self, version: &Version, object: &Arc<Value>) -> Arc<Value> {
        if self.is_custom() {
            return self.custom_view(version, object);
        }
        if version.storage && !self.is_second_face() {
            return Arc::clone(object);
        }
        let mut converted = (**object).clone();
        if self.is_second_face() {
            events::from_storage(&mut converted);
        }
        if self.converts(version) {
            autoscaling::to_v1(&mut converted);
        }
        converted["apiVersion"] = self.api_version(version).into();
        Arc::new(converted)
    }

    /// Converts an object between two versions, or returns none if there is no such version. The fields of a custom resource are
    /// not changed.
    pub(crate) fn converted(&self, object: &Value, from: &str, to: &str) -> Option<(Value, &Version)> {
        let named = |name: &str| self.versions.iter().find(|version| self.api_version(version) == name);
        let target = named(to)?;
        let mut object = object.clone();
        if self.is_custom() {
            object["apiVersion"] = to.into();
            return Some((object, target));
        }
        let stored = Arc::new(self.to_storage(named(from)?, object, None));
        Some((Arc::unwrap_or_clone(self.view(target, &stored)), target))
    }

    /// Converts a custom object: it is decoded in its storage version, with its defaults, and keeps the fields of the requested
    /// version.
    fn custom_view(&self, version: &Version, object: &Arc<Value>) -> Arc<Value> {
        if self.versions.len() == 1 && !self.is_outdated(object) {
            return Arc::clone(object);
        }
        let mut shown = (**object).clone();
        let stored = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let stored = self.versions.iter().find(|known| self.api_version(known) == stored);
        if let Some(schema) = stored.and_then(Version::schema) {
            schema.prune(&mut shown);
            schema.drop_nulls(&mut shown);
            schema.apply_defaults(&mut shown);
        }
        if stored.is_none_or(|stored| stored.name != version.name) {
            shown["apiVersion"] = self.api_version(version).into();
            if let Some(schema) = version.schema() {
                schema.prune(&mut shown);
                schema.drop_nulls(&mut shown);
            }
        }
        Arc::new(shown)
    }

    /// Returns whether an object was stored before the last change of the resource's definition.
    pub(crate) fn is_outdated(&self, object: &Value) -> bool {
        meta::resource_version(object).parse::<u64>().is_ok_and(|version| version <= self.since)
    }

    /// Converts a stored object to the current storage form, without a client's knowledge of its fields.
    pub(crate) fn refreshed(&self, object: Value) -> Value {
        if !self.is_custom() || (self.versions.len() == 1 && !self.is_outdated(&object)) {
            return object;
        }
        Arc::unwrap_or_clone(self.custom_view(self.storage_version(), &Arc::new(object)))
    }
}

/// Groups of resources, by name; within a group by plural name.
pub(crate) type Groups = BTreeMap<String, BTreeMap<String, Arc<Resource>>>;

/// All resources.
#[derive(Debug, Clone)]
pub(crate) struct Registry {
    groups: Groups,
    by_table: BTreeMap<TableId, Arc<Resource>>,
    /// The tables of the resources that are no longer served.
    retired: BTreeSet<TableId>,
    next_table: u32,
}

static BUILTIN: LazyLock<Vec<Arc<Resource>>> = LazyLock::new(|| {
    let mut resources: Vec<Resource> = Vec::new();
    for resource in builtin::resources() {
        let known = resources.iter_mut().find(|known| known.is(resource.group, resource.plural));
        if let Some(known) = known {
            let mut version = Version::builtin(resource);
            version.storage = false;
            known.versions.push(version);
        } else {
            let table = TableId(u32::try_from(resources.len()).expect("a few dozen built-in resources"));
            let mut resource = from_builtin(table, resource);
            if let Some(first) =
                resources.iter().find(|first| resource.is_second_face() && first.is("", "events"))
            {
                resource.table = first.table;
            }
            resources.push(resource);
        }
    }
    resources.into_iter().map(Arc::new).collect()
});

/// Returns the kind of `scale` subresources.
pub(crate) fn scale() -> Arc<Resource> {
    static SCALE: LazyLock<Arc<Resource>> =
        LazyLock::new(|| Arc::new(from_builtin(TableId(u32::MAX), &builtin::SCALE)));
    Arc::clone(&SCALE)
}

/// Returns the kind of writes to `serviceaccounts/token`. It has no resource of its own, and is never stored.
pub(crate) fn token_request() -> Arc<Resource> {
    static TOKEN_REQUEST: LazyLock<Arc<Resource>> =
        LazyLock::new(|| Arc::new(from_builtin(TableId(u32::MAX), &builtin::TOKEN_REQUEST)));
    Arc::clone(&TOKEN_REQUEST)
}

fn from_builtin(table: TableId, resource: &'static builtin::Resource) -> Resource {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Resource {
        table,
        group: resource.group.to_owned(),
        plural: resource.plural.to_owned(),
        singular: resource.singular.to_owned(),
        kind: resource.kind.to_owned(),
        list_kind: format!("{}List", resource.kind),
        short_names: owned(resource.short_names),
        categories: owned(resource.categories),
        namespaced: resource.namespaced,
        versions: vec![Version::builtin(resource)],
        since: 0,
        object_kind: OnceLock::new(),
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        let mut registry = Self {
            groups: Groups::new(),
            by_table: BTreeMap::new(),
            retired: BTreeSet::new(),
            next_table: 0,
        };
        for resource in BUILTIN.iter() {
            registry.insert(Arc::clone(resource));
        }
        registry.next_table = u32::try_from(BUILTIN.len()).expect("a few dozen built-in resources");
        registry
    }

    /// Returns a resource in any version.
    pub(crate) fn get(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.groups.get(group)?.get(plural)
    }

    /// Returns a resource and the index of a served version.
    pub(crate) fn served(&self, group: &str, version: &str, plural: &str) -> Option<(&Arc<Resource>, usize)> {
        let resource = self.get(group, plural)?;
        let index = resource.versions.iter().position(|known| known.served && known.name == version)?;
        Some((resource, index))
    }

    /// Returns the resource of a kind that serves a group version.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let serves =
            |resource: &&Arc<Resource>| resource.versions.iter().any(|v| v.served && v.name == version);
        self.groups.get(group)?.values().filter(|resource| resource.kind == kind).find(serves)
    }

    pub(crate) fn by_table(&self, table: TableId) -> Option<&Arc<Resource>> {
        self.by_table.get(&table)
    }

    /// Returns all resources, including those that are no longer served.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.by_table.values()
    }

    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Returns a table that no resource has used before.
    pub(crate) fn new_table(&mut self) -> TableId {
        let table = TableId(self.next_table);
        self.next_table += 1;
        table
    }

    /// Adds or replaces a resource.
    pub(crate) fn insert(&mut self, resource: Arc<Resource>) {
        if !resource.is_second_face() {
            self.retired.remove(&resource.table);
            self.by_table.insert(resource.table, Arc::clone(&resource));
        }
        self.groups.entry(resource.group.clone()).or_default().insert(resource.plural.clone(), resource);
    }

    /// Stops serving a resource. Its table remains readable, so that watches and actors see the last changes.
    pub(crate) fn retire(&mut self, group: &str, plural: &str) {
        let Some(resources) = self.groups.get_mut(group) else { return };
        self.retired.extend(resources.remove(plural).map(|resource| resource.table));
        if resources.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Returns whether this exact definition of a resource is served.
    pub(crate) fn is_current(&self, resource: &Arc<Resource>) -> bool {
        let is_it = |current: &Arc<Resource>| Arc::ptr_eq(current, resource);
        if resource.is_second_face() {
            return self.get(&resource.group, &resource.plural).is_some_and(is_it);
        }
        self.by_table(resource.table).is_some_and(is_it) && !self.retired.contains(&resource.table)
    }
}
