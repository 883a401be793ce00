//! Stores and removes objects; the API extensions server reacts to each write at once.

use std::sync::Arc;

use serde_json::Value;

use super::crd::definition;
use super::crd_controllers;
use super::registry::Resource;
use super::state::ApiServer;
use super::status::Status;

/// Maximum size of a request to etcd, in bytes.
const STORED_MAX_BYTES: usize = 1536 * 1024;
/// Maximum size of a message that the server sends to etcd, in bytes.
const MESSAGE_MAX_BYTES: usize = 2 * 1024 * 1024;

/// Refuses an object that etcd does not take, or that the server can't send to it.
pub(super) fn check_size(object: &Value) -> Result<(), Status> {
    let size = size(object);
    if size > MESSAGE_MAX_BYTES {
        return Err(Status::unknown(format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max ({size} vs. {MESSAGE_MAX_BYTES})"
        )));
    }
    if size > STORED_MAX_BYTES {
        return Err(Status::unknown("etcdserver: request is too large"));
    }
    Ok(())
}

/// Returns the approximate size of an object in storage, in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => list.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value) + 4).sum::<usize>() + 2,
    }
}

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
