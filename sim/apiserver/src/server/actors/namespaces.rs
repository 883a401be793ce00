//! The namespace controller: deletes the contents of a terminating namespace, and then removes its finalizer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cursor::{Cursor, TableUpdate, after};
use crate::server::delete::{self, Deleted};
use crate::server::delete_options::DeleteOptions;
use crate::server::meta;
use crate::server::registry::Resource;
use crate::server::request::ResourcePath;
use crate::server::scope::{Scope, WriteOptions};
use crate::server::state::ApiServer;
use crate::server::store::Prefix;
use crate::server::write::{self, Tracking};

const MANAGER: &str = "kube-controller-manager";

/// Deletes the contents of terminating namespaces and removes their finalizer.
#[derive(Debug, Clone, Default)]
pub struct NamespaceController {
    /// Delay after a change in a terminating namespace.
    pub delay: SignedDuration,
    cursor: Cursor,
    terminating: BTreeSet<String>,
    due: BTreeMap<String, Timestamp>,
}

impl NamespaceController {
    /// Runs the due work.
    pub fn tick(&mut self, server: &mut ApiServer, now: Timestamp) {
        self.learn(server, now);
        let due: Vec<String> =
            self.due.iter().filter(|(_, due)| **due <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.due.remove(&name);
            terminate(server, &name, now);
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.values().min().copied()
    }

    fn learn(&mut self, server: &ApiServer, now: Timestamp) {
        let due = after(now, self.delay);
        let mut touched = BTreeSet::new();
        for (resource, update) in self.cursor.poll(server, |_| true) {
            // A list does not show what was deleted since the last one.
            if matches!(update, TableUpdate::Relist(_)) {
                touched.extend(self.terminating.iter().cloned());
            }
            let (TableUpdate::Changes(changes) | TableUpdate::Relist(changes)) = update;
            for change in changes {
                if !resource.is("", "namespaces") {
                    touched.insert(meta::namespace(&change.object).to_owned());
                } else if change.deleted {
                    self.terminating.remove(&*change.key);
                } else if meta::is_deleting(&change.object) && self.terminating.insert(change.key.to_string())
                {
                    touched.insert(change.key.to_string());
                }
            }
        }
        for name in touched.intersection(&self.terminating) {
            self.due.entry(name.clone()).or_insert(due);
        }
    }
}

/// Makes one attempt: deletes the contents, and then either waits for the remaining objects or finalizes.
fn terminate(server: &mut ApiServer, name: &str, now: Timestamp) {
    let Some(namespace) = server.find("", "namespaces", name).cloned() else { return };
    if !meta::is_deleting(&namespace) {
        return;
    }
    let mut remaining = Remaining::default();
    let resources: Vec<Arc<Resource>> =
        server.registry.all().filter(|resource| resource.namespaced).cloned().collect();
    for resource in resources {
        remaining.add(&resource, &empty(server, &resource, name, now));
    }
    let status = remaining.status(&namespace, now);
    let mut updated = (*namespace).clone();
    updated["status"] = status;
    write(server, name, "status", updated, now);
    if remaining.resources.is_empty() {
        let Some(namespace) = server.find("", "namespaces", name).cloned() else { return };
        let mut updated = (*namespace).clone();
        let mut finalizers = meta::strings(updated.pointer("/spec/finalizers"));
        finalizers.retain(|finalizer| *finalizer != "kubernetes");
        let finalizers: Vec<Value> = finalizers.into_iter().map(Value::from).collect();
        let spec = meta::map_at(&mut updated, "spec");
        if finalizers.is_empty() {
            spec.remove("finalizers");
        } else {
            spec.insert("finalizers".to_owned(), finalizers.into());
        }
        write(server, name, "finalize", updated, now);
    }
}

/// Deletes all objects of a resource in a namespace and returns the remaining ones.
fn empty(
    server: &mut ApiServer,
    resource: &Arc<Resource>,
    namespace: &str,
    now: Timestamp,
) -> Vec<Arc<Value>> {
    let prefix = Prefix::namespace(namespace);
    let objects: Vec<Arc<Value>> =
        server.store.list(resource.table, &prefix, None).map(|(_, object)| Arc::clone(object)).collect();
    let mut left = Vec::new();
    for object in objects {
        let path = ResourcePath {
            namespace: namespace.to_owned(),
            name: meta::name(&object).to_owned(),
            ..ResourcePath::default()
        };
        let scope = Scope::new(Arc::clone(resource), 0, path);
        if let Ok(Deleted::Pending(object)) =
            delete::delete_object(server, &scope, &DeleteOptions::background(now))
        {
            left.push(object);
        }
    }
    left
}

fn write(server: &mut ApiServer, name: &str, subresource: &str, object: Value, now: Timestamp) {
    let Some(resource) = server.registry.get("", "namespaces").cloned() else { return };
    let path = ResourcePath {
        name: name.to_owned(),
        subresource: subresource.to_owned(),
        ..ResourcePath::default()
    };
    let scope = Scope::new(resource, 0, path);
    let Some(live) = server.store.get(scope.resource.table, name).cloned() else { return };
    let mut options = WriteOptions::internal(MANAGER, now);
    let written = write::update_object(server, &scope, &live, object, &mut options, Tracking::Update);
    assert!(written.is_ok(), "{written:?}");
}

/// What blocks the removal of a namespace: resources and finalizers, with counts.
#[derive(Debug, Default)]
struct Remaining {
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
}

impl Remaining {
    fn add(&mut self, resource: &Resource, objects: &[Arc<Value>]) {
        if objects.is_empty() {
            return;
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        *self.resources.entry(name).or_default() += objects.len();
        for finalizer in objects.iter().flat_map(|object| meta::finalizers(object)) {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    /// Returns the status of the namespace, with the controller's conditions.
    fn status(&self, namespace: &Value, now: Timestamp) -> Value {
        let sum = |counts: &BTreeMap<String, usize>, what: &dyn Fn(&str, usize) -> String| {
            let parts: Vec<String> = counts.iter().map(|(name, count)| what(name, *count)).collect();
            parts.join(", ")
        };
        let content = if self.resources.is_empty() {
            ("False", "ContentRemoved", "All content successfully removed".to_owned())
        } else {
            let text = sum(&self.resources, &|name, count| format!("{name} has {count} resource instances"));
            ("True", "SomeResourcesRemain", format!("Some resources are remaining: {text}"))
        };
        let finalizers = if self.finalizers.is_empty() {
            ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
        } else {
            let text = sum(&self.finalizers, &|name, count| format!("{name} in {count} resource instances"));
            let message = format!("Some content in the namespace has finalizers remaining: {text}");
            ("True", "SomeFinalizersRemain", message)
        };
        let conditions = [
            (
                "NamespaceDeletionDiscoveryFailure",
                ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned()),
            ),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned()),
            ),
            (
                "NamespaceDeletionContentFailure",
                (
                    "False",
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization".to_owned(),
                ),
            ),
            ("NamespaceContentRemaining", content),
            ("NamespaceFinalizersRemaining", finalizers),
        ];
        let conditions: Vec<Value> = conditions
            .into_iter()
            .map(|(kind, (status, reason, message))| {
                condition(namespace, kind, [status, reason, &message], now)
            })
            .collect();
        json!({"phase": "Terminating", "conditions": conditions})
    }
}

/// Returns a condition. Its transition time changes only with its status.
fn condition(namespace: &Value, kind: &str, [status, reason, message]: [&str; 3], now: Timestamp) -> Value {
    let before = namespace
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(kind))
        .filter(|condition| condition.get("status").and_then(Value::as_str) == Some(status));
    let since = before
        .and_then(|condition| condition.get("lastTransitionTime").cloned())
        .unwrap_or_else(|| meta::timestamp(now).into());
    json!({
        "type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    })
}
