//! The controllers of the API extensions server, which follow every write at once.
//!
//! ```text
//!   created ──► names accepted, established ──► served
//!   deleted ──► terminating: its objects are deleted ──► none left ──► gone
//! ```

use std::sync::Arc;

use serde_json::Value;

use super::crd::definition::{self, CLEANUP, GROUP, PLURAL, Termination, text};
use super::delete_options::DeleteOptions;
use super::meta;
use super::registry::Resource;
use super::state::ApiServer;
use super::status::Status;
use super::store::Prefix;
use super::termination::{self, Effect};
use crate::builtin;
use crate::managed::{self, Manager, OneVersion};

/// Refuses to create objects of a definition that is being deleted.
pub(super) fn check_create(server: &ApiServer, resource: &Resource, name: &str) -> Result<(), Status> {
    let Some(definition) = resource.is_custom().then(|| definition_of(server, resource)).flatten() else {
        return Ok(());
    };
    if !meta::is_deleting(definition) {
        return Ok(());
    }
    let message = "create not allowed while custom resource definition is terminating";
    Err(Status::forbidden(resource.qualified(), name, message))
}

/// Returns the definition of a custom resource.
fn definition_of<'a>(server: &'a ApiServer, resource: &Resource) -> Option<&'a Arc<Value>> {
    server.find(GROUP, PLURAL, &format!("{}.{}", resource.plural, resource.group))
}

/// Handles a stored definition: serves it, or deletes its objects if it is being deleted.
pub(super) fn definition_stored(server: &mut ApiServer, definition: &Arc<Value>, old: Option<&Arc<Value>>) {
    if meta::is_deleting(definition) {
        empty_definition(server, definition);
        return;
    }
    let unchanged = old.is_some_and(|old| old.get("spec") == definition.get("spec"));
    let accepted = definition::accepts_names(&server.registry, definition);
    if accepted && !unchanged {
        let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
        let known = server.registry.get(group, plural).map(|known| known.table);
        let table = known.unwrap_or_else(|| {
            let table = Arc::make_mut(&mut server.registry).new_table();
            server.store.open(table);
            table
        });
        let resource = definition::resource(definition, table, server.store.revision());
        if !resource.versions.is_empty() {
            Arc::make_mut(&mut server.registry).insert(Arc::new(resource));
        }
    }
    let mut settled = (**definition).clone();
    settled["status"] = definition::status(definition, accepted, server.now);
    if settled["status"] != definition["status"] {
        write_status(server, definition, settled);
    }
}

/// Writes the status of a definition in the way of the server's own controllers.
fn write_status(server: &mut ApiServer, live: &Arc<Value>, mut object: Value) {
    let Some(resource) = server.registry.get(GROUP, PLURAL).cloned() else { return };
    let time = meta::timestamp(server.now);
    let version = resource.storage_version();
    if let (Some(schema), Some(builtin)) = (version.schema(), version.builtin_resource()) {
        let reset = builtin::reset_fields(builtin, Some("status"));
        let manager = Manager {
            name: "kube-apiserver",
            api_version: "apiextensions.k8s.io/v1",
            subresource: Some("status"),
            reset,
            versions: &OneVersion,
            time: &time,
        };
        managed::track_update(schema, Some(live), &mut object, manager);
    }
    server.store.put(resource.table, meta::name(live), object);
}

/// Deletes all objects of a definition, and the definition itself once none is left.
fn empty_definition(server: &mut ApiServer, definition: &Arc<Value>) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    let Some(resource) = server.registry.get(group, plural).cloned().filter(|found| found.is_custom()) else {
        finish_definition(server, definition, None);
        return;
    };
    let all = Prefix::namespace("");
    let objects: Vec<(Arc<str>, Arc<Value>)> = server
        .store
        .list(resource.table, &all, None)
        .map(|(key, object)| (Arc::clone(key), Arc::clone(object)))
        .collect();
    if objects.is_empty() {
        finish_definition(server, definition, Some(&resource));
        return;
    }
    let options = DeleteOptions::background(server.now);
    for (key, object) in objects.iter().filter(|(_, object)| !meta::is_deleting(object)) {
        match termination::effect(&resource, object, &options) {
            Effect::Unchanged => {}
            Effect::Removed | Effect::MarkedAndRemoved(_) => {
                server.store.delete(resource.table, key);
                object_removed(server, &resource);
            }
            Effect::Marked(object) => {
                server.store.put(resource.table, key, object);
            }
        }
    }
    // The objects that are left have finalizers.
    if server.store.list(resource.table, &all, None).next().is_some() {
        let mut waiting = (**definition).clone();
        definition::set_terminating(&mut waiting, Termination::InProgress, server.now);
        if waiting != **definition {
            write_status(server, definition, waiting);
        }
    }
}

/// Handles the removal of a custom object: a definition that waited for it may be removed as well.
pub(super) fn object_removed(server: &mut ApiServer, resource: &Arc<Resource>) {
    let Some(definition) = definition_of(server, resource).filter(|found| meta::is_deleting(found)).cloned()
    else {
        return;
    };
    let all = Prefix::namespace("");
    if server.store.list(resource.table, &all, None).next().is_none() {
        finish_definition(server, &definition, Some(resource));
    }
}

fn finish_definition(server: &mut ApiServer, definition: &Arc<Value>, resource: Option<&Arc<Resource>>) {
    let Some(definitions) = server.registry.get(GROUP, PLURAL).cloned() else { return };
    let name = meta::name(definition);
    let Some(live) = server.store.get(definitions.table, name).cloned() else { return };
    let finalizers: Vec<String> = meta::finalizers(&live)
        .into_iter()
        .filter(|finalizer| *finalizer != CLEANUP)
        .map(str::to_owned)
        .collect();
    if finalizers.is_empty() {
        server.store.delete(definitions.table, name);
        if let Some(resource) = resource {
            Arc::make_mut(&mut server.registry).retire(&resource.group, &resource.plural);
        }
    } else if finalizers.len() < meta::finalizers(&live).len() {
        let mut object = (*live).clone();
        meta::set_finalizers(&mut object, &finalizers);
        definition::set_terminating(&mut object, Termination::Completed, server.now);
        write_status(server, &live, object);
    }
}

/// Stops serving a definition that has lost its last finalizer.
pub(super) fn definition_removed(server: &mut ApiServer, definition: &Value) {
    let (group, plural) = (text(definition, "/spec/group"), text(definition, "/spec/names/plural"));
    if server.registry.get(group, plural).is_some_and(|resource| resource.is_custom()) {
        Arc::make_mut(&mut server.registry).retire(group, plural);
    }
}
