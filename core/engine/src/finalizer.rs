//! Finalizers: a deleted object stays, with a deletion timestamp, until every client has removed its finalizer.
//!
//! | the object | has our finalizer | what a controller does |
//! | --- | --- | --- |
//! | exists | no | [`add`], before it creates anything that will need cleanup |
//! | exists | yes | its work |
//! | is being deleted | yes | clean up; [`remove`] once it has observed that nothing is left |
//! | is being deleted | no | nothing: the object is deleted, or waits for other finalizers |
//!
//! [`is_deleting`] returns whether it is being deleted. A merge patch replaces the whole list, so both patches carry the uid
//! and resource version that the list was read from. If anything has changed since, they fail with
//! [`ErrorKind::Conflict`](super::action::ErrorKind::Conflict). So another client's finalizer is never lost or restored, and a newer
//! object of that name is never changed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::action::{Action, KubeRequest};
use crate::object::{ObjectRef, is_deleting, metadata};

/// Returns whether the object has the finalizer.
pub fn is_held(object: &Value, finalizer: &str) -> bool {
    held(object).any(|held| held == finalizer)
}

/// Returns the patch that appends the finalizer. It is `None` if the object has the finalizer already, if the object is being
/// deleted (the server then permits no new ones), or if the object has no uid or no resource version.
pub fn add(target: &ObjectRef, object: &Value, finalizer: &str) -> Option<Action> {
    let wanted = !is_held(object, finalizer) && !is_deleting(object);
    wanted.then(|| replace(target, object, held(object).chain([finalizer])))?
}

/// Returns the patch that removes the finalizer and keeps the others. It is `None` if the object does not have the finalizer,
/// or has no uid or no resource version.
pub fn remove(target: &ObjectRef, object: &Value, finalizer: &str) -> Option<Action> {
    let wanted = is_held(object, finalizer);
    wanted.then(|| replace(target, object, held(object).filter(|held| *held != finalizer)))?
}

fn held(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn replace<'a>(
    target: &ObjectRef,
    object: &Value,
    finalizers: impl Iterator<Item = &'a str>,
) -> Option<Action> {
    let finalizers: Vec<&str> = finalizers.collect();
    let (uid, resource_version) = (metadata(object, "uid"), metadata(object, "resourceVersion"));
    // The server treats an empty precondition like a missing one.
    if uid.is_empty() || resource_version.is_empty() {
        return None;
    }
    let patch =
        json!({ "metadata": { "uid": uid, "resourceVersion": resource_version, "finalizers": finalizers } });
    Some(Action::Kube(KubeRequest::Patch {
        target: target.clone(),
        subresource: None,
        patch: Arc::new(patch),
    }))
}

#[cfg(test)]
mod tests;
