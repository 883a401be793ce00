//! Stores and removes objects; the API extensions server reacts to each write at once.

use std::sync::Arc;

use serde_json::Value;

use super::crd::definition;
use super::crd_controllers;
use super::registry::Resource;
use super::state::ApiServer;

/// Stores an object.
pub(super) fn put(server: &mut ApiServer, resource: &Resource, key: &str, object: Value) -> Arc<Value> {
    let old = server.store.get(resource.table, key).cloned();
    let object = server.store.put(resource.table, key, object);
    if definition::is_definition(resource) {
        crd_controllers::definition_stored(server, &object, old.as_ref());
    }
    object
}

/// Removes an object.
pub(super) fn remove(server: &mut ApiServer, resource: &Arc<Resource>, key: &str) -> Option<Arc<Value>> {
    let object = server.store.delete(resource.table, key)?;
    if resource.is_custom() {
        crd_controllers::object_removed(server, resource);
    } else if definition::is_definition(resource) {
        crd_controllers::definition_removed(server, &object);
    }
    Some(object)
}
