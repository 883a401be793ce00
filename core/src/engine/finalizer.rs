//! Finalizers: an object that is deleted stays, marked as going, until everyone who entered a finalizer has taken it out.
//!
//! | the object | ours is in it | what a controller does |
//! | --- | --- | --- |
//! | stays | no | [`add`], before anything is made that will have to be cleaned up |
//! | stays | yes | its work |
//! | is being deleted | yes | clean up; [`remove`] once it has been observed that nothing is left |
//! | is being deleted | no | nothing: it goes, or waits for others |
//!
//! Whether it is being deleted is told by [`is_deleting`]. A merge patch replaces the whole list, so both patches carry the
//! uid and resource version that the list was read from. If anything has changed since, they fail with
//! [`Class::Conflict`](super::action::Class::Conflict): neither another's finalizer is lost or revived, nor a newer object
//! of that name touched.

use std::sync::Arc;

use serde_json::{Value, json};

use super::action::Action;
use crate::object::{ObjectRef, is_deleting, metadata};

/// Whether the object carries the finalizer.
pub fn is_held(object: &Value, finalizer: &str) -> bool {
    held(object).any(|held| held == finalizer)
}

/// Enters the finalizer behind those that are there. None if it is there already, if the object is being deleted (the
/// server admits no new ones then), or if it does not tell its uid and version.
pub fn add(target: &ObjectRef, object: &Value, finalizer: &str) -> Option<Action> {
    let wanted = !is_held(object, finalizer) && !is_deleting(object);
    wanted.then(|| replace(target, object, held(object).chain([finalizer])))?
}

/// Takes the finalizer out and leaves the others as they are. None if it is not there, or if the object does not tell its
/// uid and version.
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
    // The server takes an empty precondition for none.
    if uid.is_empty() || resource_version.is_empty() {
        return None;
    }
    let patch =
        json!({ "metadata": { "uid": uid, "resourceVersion": resource_version, "finalizers": finalizers } });
    Some(Action::Patch { target: target.clone(), subresource: None, patch: Arc::new(patch) })
}

#[cfg(test)]
mod tests;
