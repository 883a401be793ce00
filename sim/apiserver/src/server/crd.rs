//! Custom resource definitions, as the API extensions server handles them.
//!
//! ```text
//!   created ──► names accepted, established ──► served
//!   deleted ──► terminating: its objects are deleted ──► none left ──► gone
//! ```

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::delete::{DeleteOptions, Deleted};
use super::discovery::priority;
use super::registry::{Resource, Version};
use super::request::ResourcePath;
use super::scope::Scope;
use super::status::{Qualified, Status};
use super::store::Prefix;
use super::{ApiServer, meta};
use crate::managed::{self, Manager};
use crate::schema::Schema;

mod rules;

pub(super) use self::rules::validate;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Returns whether a resource is that of CRDs themselves.
pub(super) fn is_definition(resource: &Resource) -> bool {
    resource.is(GROUP, PLURAL)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten()
}

/// Sets the names that follow from others, and no conversion.
pub(super) fn apply_defaults(definition: &mut Value) {
    let kind = text(definition, "/spec/names/kind").to_owned();
    let spec = meta::map_at(definition, "spec");
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
}

/// Records the storage version, in which objects have been stored.
pub(super) fn prepare(definition: &mut Value) {
    let storage = versions(definition)
        .find(|version| version.get("storage") == Some(&Value::Bool(true)))
        .map(|version| text(version, "/name").to_owned());
    let Some(storage) = storage else { return };
    let status = meta::map_at(definition, "status");
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    if !stored.is_array() {
        *stored = json!([]);
    }
    if let Some(stored) = stored.as_array_mut().filter(|stored| !stored.iter().any(|name| *name == storage)) {
        stored.push(storage.into());
    }
    status.entry("acceptedNames").or_insert_with(|| json!({"kind": "", "plural": ""}));
    status.entry("conditions").or_insert(Value::Null);
}

/// Returns the warning of a deprecated version: its own, or one with the version to use instead.
pub(super) fn deprecation(resource: &Resource, version: &Version, entry: &Value) -> Option<String> {
    let is_deprecated = |entry: &Value| entry.get("deprecated") == Some(&Value::Bool(true));
    if !is_deprecated(entry) {
        return None;
    }
    if let Some(own) = entry.get("deprecationWarning").and_then(Value::as_str) {
        return Some(own.to_owned());
    }
    let Resource { group, kind, .. } = resource;
    let newer = resource
        .versions
        .iter()
        .filter(|other| other.served && !other.crd_entry().is_some_and(is_deprecated))
        .filter(|other| priority(&other.name) < priority(&version.name))
        .min_by_key(|other| priority(&other.name));
    let instead = newer.map(|newer| format!("; use {group}/{} {kind}", newer.name)).unwrap_or_default();
    Some(format!("{group}/{} {kind} is deprecated{instead}", version.name))
}

/// Refuses a deletion with preconditions for another definition or another state of it.
pub(super) fn check_preconditions(definition: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let found = [
        ("UID", &options.uid, meta::uid(definition)),
        ("ResourceVersion", &options.resource_version, meta::resource_version(definition)),
    ];
    for (what, wanted, found) in found {
        if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != found) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
            );
            let resource = Qualified { group: GROUP, name: PLURAL };
            return Err(Status::conflict(resource, meta::name(definition), &why));
        }
    }
    Ok(())
}

/// Refuses to create objects of a definition that is being deleted.
pub(super) fn check_create(server: &ApiServer, resource: &Resource, name: &str) -> Result<(), Status> {
    let Some(definition) = resource.is_custom().then(|| server.definition(resource)).flatten() else {
        return Ok(());
    };
    if !meta::is_deleting(definition) {
        return Ok(());
    }
    let message = "create not allowed while custom resource definition is terminating";
    Err(Status::forbidden(resource.qualified(), name, message))
}

/// Returns the resource that a definition describes.
fn resource(definition: &Value, table: super::store::TableId, since: u64) -> Resource {
    let strings = |pointer: &str| {
        meta::strings(definition.pointer(pointer)).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let read = |version: &Value| {
        let schema = version.pointer("/schema/openAPIV3Schema");
        let schema = schema.and_then(|schema| Schema::from_crd(schema).ok()).map(|schema| {
            let has_status = version.pointer("/subresources/status").is_some();
            if has_status { schema } else { schema.without_status_subresource() }
        });
        Version::custom(Arc::new(version.clone()), schema)
    };
    Resource {
        table,
        group: text(definition, "/spec/group").to_owned(),
        plural: text(definition, "/spec/names/plural").to_owned(),
        singular: text(definition, "/spec/names/singular").to_owned(),
        kind: text(definition, "/spec/names/kind").to_owned(),
        list_kind: text(definition, "/spec/names/listKind").to_owned(),
        short_names: strings("/spec/names/shortNames"),
        categories: strings("/spec/names/categories"),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        versions: versions(definition).map(read).collect(),
        since,
    }
}

impl ApiServer {
    fn definition(&self, resource: &Resource) -> Option<&Arc<Value>> {
        self.find(GROUP, PLURAL, &format!("{}.{}", resource.plural, resource.group))
    }

    /// Handles a stored definition: serves it, or deletes its objects if it is being deleted.
    pub(super) fn definition_stored(&mut self, definition: &Arc<Value>, old: Option<&Arc<Value>>) {
        if meta::is_deleting(definition) {
            self.empty_definition(definition);
            return;
        }
        let unchanged = old.is_some_and(|old| old.get("spec") == definition.get("spec"));
        let accepted = self.accept_names(definition);
        if accepted && !unchanged {
            let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
            let known = self.registry.get(group, plural).map(|known| known.table);
            let table = known.unwrap_or_else(|| {
                let table = self.registry.new_table();
                self.store.open(table);
                table
            });
            let resource = resource(definition, table, self.store.revision());
            if !resource.versions.is_empty() {
                self.registry.insert(Arc::new(resource));
            }
        }
        let mut settled = (**definition).clone();
        settled["status"] = self.status(definition, accepted);
        if settled["status"] != definition["status"] {
            self.write_definition(definition, settled, "status");
        }
    }

    /// Returns whether no other definition uses the names.
    fn accept_names(&self, definition: &Value) -> bool {
        let names = &definition["spec"]["names"];
        let plural = text(names, "/plural");
        let Some(group) = self.registry.groups().get(text(definition, "/spec/group")) else { return true };
        group.values().filter(|other| other.plural != plural).all(|other| {
            let taken = |name: &str| {
                name == other.plural
                    || name == other.singular
                    || other.short_names.iter().any(|short| short == name)
            };
            let short = meta::strings(names.get("shortNames"));
            let kinds = [other.kind.as_str(), other.list_kind.as_str()];
            !taken(plural)
                && !taken(text(names, "/singular"))
                && !short.into_iter().any(taken)
                && !kinds.contains(&text(names, "/kind"))
                && !kinds.contains(&text(names, "/listKind"))
        })
    }

    fn status(&self, definition: &Value, accepted: bool) -> Value {
        let mut status = definition.get("status").cloned().unwrap_or_else(|| json!({}));
        let (names, established) = if accepted {
            (
                ("True", "NoConflicts", "no conflicts found"),
                ("True", "InitialNamesAccepted", "the initial names have been accepted"),
            )
        } else {
            (
                ("False", "NamesConflict", "the names are in use by another definition"),
                ("False", "NotAccepted", "not all names are accepted"),
            )
        };
        if accepted {
            status["acceptedNames"] = definition["spec"]["names"].clone();
        }
        let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        for (kind, (state, reason, message)) in [("NamesAccepted", names), ("Established", established)] {
            set_condition(&mut conditions, kind, [state, reason, message], &meta::timestamp(self.now));
        }
        status["conditions"] = conditions.into();
        status
    }

    /// Writes a definition in the way of the server's own controllers.
    fn write_definition(&mut self, live: &Arc<Value>, mut object: Value, subresource: &str) {
        let Some(resource) = self.registry.get(GROUP, PLURAL).cloned() else { return };
        let time = meta::timestamp(self.now);
        if let Some(schema) = resource.storage_version().schema() {
            let manager = Manager {
                name: "kube-apiserver",
                api_version: "apiextensions.k8s.io/v1",
                subresource: Some(subresource),
                time: &time,
            };
            managed::track_update(schema, Some(live), &mut object, manager);
        }
        self.store.put(resource.table, meta::name(live), object);
    }

    /// Handles the first deletion of a definition: its objects are deleted, and it is removed when none is left.
    pub(super) fn delete_definition(
        &mut self,
        scope: &Scope,
        live: &Arc<Value>,
        options: &DeleteOptions,
    ) -> Deleted {
        const PENDING: [&str; 3] = [
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        ];
        let now = meta::timestamp(options.now);
        let mut object = (**live).clone();
        let mut finalizers: Vec<String> = meta::finalizers(live).into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|name| name == CLEANUP) {
            finalizers.push(CLEANUP.to_owned());
        }
        meta::set_finalizers(&mut object, &finalizers);
        let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        set_condition(&mut conditions, "Terminating", PENDING, &now);
        object["status"]["conditions"] = conditions.into();
        meta::set(&mut object, "deletionTimestamp", now);
        if options.dry_run {
            return Deleted::Pending(Arc::new(object));
        }
        // The answer is the state before the removal, which may follow immediately.
        Deleted::Pending(self.commit(&scope.resource, &scope.key(), object))
    }

    /// Deletes all objects of a definition, and the definition itself once none is left.
    fn empty_definition(&mut self, definition: &Arc<Value>) {
        let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
        let Some(resource) = self.registry.get(group, plural).cloned().filter(|found| found.is_custom())
        else {
            self.finish_definition(definition, None);
            return;
        };
        let all = Prefix::namespace("");
        let objects: Vec<Arc<Value>> =
            self.store.list(resource.table, &all, None).map(|(_, object)| Arc::clone(object)).collect();
        if objects.is_empty() {
            self.finish_definition(definition, Some(&resource));
            return;
        }
        let options = DeleteOptions::background(self.now);
        for object in objects.iter().filter(|object| !meta::is_deleting(object)) {
            let path = ResourcePath {
                namespace: meta::namespace(object).to_owned(),
                name: meta::name(object).to_owned(),
                ..ResourcePath::default()
            };
            let scope = Scope::new(Arc::clone(&resource), 0, path);
            // An object that does not exist any more counts as deleted.
            let _missing = self.delete_object(&scope, &options);
        }
    }

    /// Handles the removal of a custom object: a definition that waited for it may be removed as well.
    pub(super) fn custom_object_erased(&mut self, resource: &Arc<Resource>) {
        let Some(definition) = self.definition(resource).filter(|found| meta::is_deleting(found)).cloned()
        else {
            return;
        };
        let all = Prefix::namespace("");
        if self.store.list(resource.table, &all, None).next().is_none() {
            self.finish_definition(&definition, Some(resource));
        }
    }

    fn finish_definition(&mut self, definition: &Arc<Value>, resource: Option<&Arc<Resource>>) {
        let Some(definitions) = self.registry.get(GROUP, PLURAL).cloned() else { return };
        let name = meta::name(definition);
        let Some(live) = self.store.get(definitions.table, name).cloned() else { return };
        let finalizers: Vec<String> = meta::finalizers(&live)
            .into_iter()
            .filter(|finalizer| *finalizer != CLEANUP)
            .map(str::to_owned)
            .collect();
        if finalizers.is_empty() {
            self.store.delete(definitions.table, name);
            if let Some(resource) = resource {
                self.registry.retire(&resource.group, &resource.plural);
            }
        } else if finalizers.len() < meta::finalizers(&live).len() {
            let mut object = (*live).clone();
            meta::set_finalizers(&mut object, &finalizers);
            self.store.put(definitions.table, name, object);
        }
    }

    /// Stops serving a definition that has lost its last finalizer.
    pub(super) fn definition_erased(&mut self, definition: &Value) {
        let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
        if self.registry.get(group, plural).is_some_and(|resource| resource.is_custom()) {
            self.registry.retire(group, plural);
        }
    }
}

/// Sets a condition. Its transition time changes only with its status.
fn set_condition(conditions: &mut Vec<Value>, kind: &str, [status, reason, message]: [&str; 3], now: &str) {
    let index = conditions.iter().position(|condition| text(condition, "/type") == kind);
    let before =
        index.map(|index| conditions[index].clone()).filter(|before| text(before, "/status") == status);
    let since = before.map_or_else(|| now.into(), |before| before["lastTransitionTime"].clone());
    let mut condition = Map::new();
    for (key, value) in [("type", kind), ("status", status), ("reason", reason), ("message", message)] {
        condition.insert(key.to_owned(), value.into());
    }
    condition.insert("lastTransitionTime".to_owned(), since);
    match index {
        Some(index) => conditions[index] = condition.into(),
        None => conditions.push(condition.into()),
    }
}
