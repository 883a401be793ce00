//! The garbage collector: deletes objects with missing owners and finishes foreground and orphaning deletions.
//!
//! It keeps the graph of owners and dependents by uid, fed from the log, and a queue of objects to check again. Each decision
//! depends on the current state of the server, never on the graph alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use self::graph::{Graph, Node, Owner};
use super::cursor::{Cursor, TableUpdate, after};
use crate::server::delete;
use crate::server::delete_options::{DeleteOptions, Propagation};
use crate::server::meta;
use crate::server::registry::Resource;
use crate::server::request::ResourcePath;
use crate::server::scope::{Scope, WriteOptions};
use crate::server::state::ApiServer;
use crate::server::store;
use crate::server::write::{self, Tracking};

mod event;
mod graph;

const MANAGER: &str = "kube-controller-manager";
/// Delay before an owner of an unknown kind is looked up again.
const RETRY: SignedDuration = SignedDuration::from_secs(30);
/// The number of deleted owners that are remembered, as by a real garbage collector.
const ABSENT_MAX: usize = 500;
/// Maximum number of objects that are checked in one tick. The others wait for the next tick.
const TICK_MAX: usize = 10_000;

/// Deletes objects with missing owners.
#[derive(Debug, Clone, Default)]
pub struct GarbageCollector {
    /// Delay after a change.
    pub delay: SignedDuration,
    cursor: Cursor,
    graph: Graph,
    /// The uids of owners that were deleted last. If their kind is gone as well, they can't be looked up.
    absent: VecDeque<String>,
    due: BTreeMap<String, Timestamp>,
}

/// The state of an object's owners, which are looked up one by one.
#[derive(Debug, Default)]
struct Owners {
    solid: usize,
    /// Uids of owners that are gone, and of those that wait for the deletion of this object.
    dangling: Vec<String>,
    waiting: Vec<String>,
    unknown: usize,
}

impl GarbageCollector {
    /// Runs the due work.
    pub fn tick(&mut self, server: &mut ApiServer, now: Timestamp) {
        self.learn(server, now);
        let due: Vec<String> = self
            .due
            .iter()
            .filter(|(_, due)| **due <= now)
            .map(|(uid, _)| uid.clone())
            .take(TICK_MAX)
            .collect();
        for uid in due {
            self.due.remove(&uid);
            self.look_at(server, &uid, now);
        }
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.values().min().copied()
    }

    fn learn(&mut self, server: &mut ApiServer, now: Timestamp) {
        let due = after(now, self.delay);
        for (resource, update) in self.cursor.poll(server, |resource| !resource.is("", "events")) {
            let changes = match update {
                TableUpdate::Changes(changes) => changes,
                TableUpdate::Relist(changes) => {
                    let present: BTreeSet<&str> =
                        changes.iter().map(|change| meta::uid(&change.object)).collect();
                    for uid in self.graph.missing(resource.table, &present) {
                        self.forget(&uid, due);
                    }
                    changes
                }
            };
            for change in changes {
                if change.deleted {
                    self.forget(meta::uid(&change.object), due);
                } else {
                    self.note(server, &resource, &change.object, now);
                }
            }
        }
    }

    /// Handles a new or changed object.
    fn note(&mut self, server: &mut ApiServer, resource: &Arc<Resource>, object: &Value, now: Timestamp) {
        let due = after(now, self.delay);
        let uid = meta::uid(object);
        let node = Node::read(resource.table, object);
        let foreground = node.deleting && node.has_finalizer(meta::FOREGROUND);
        let orphans = node.deleting && node.has_finalizer(meta::ORPHAN);
        let owned = !node.owners.is_empty();
        let changed = self.graph.insert(uid, node);
        if changed.owners && owned {
            event::check_namespaces(server, &self.graph, uid, now);
        }
        if foreground || orphans || (changed.owners && owned) {
            self.due.entry(uid.to_owned()).or_insert(due);
        }
        // Owners in foreground deletion no longer wait for objects that have stopped blocking them.
        for owner in changed.lost {
            self.due.entry(owner).or_insert(due);
        }
        if foreground && changed.foreground {
            for dependent in self.graph.dependents(uid) {
                self.due.entry(dependent).or_insert(due);
            }
        }
    }

    /// Handles the removal of an object.
    fn forget(&mut self, uid: &str, due: Timestamp) {
        let dependents = self.graph.dependents(uid);
        if !dependents.is_empty() {
            self.absent.push_back(uid.to_owned());
            if self.absent.len() > ABSENT_MAX {
                self.absent.pop_front();
            }
        }
        for dependent in dependents {
            self.due.entry(dependent).or_insert(due);
        }
        if let Some(node) = self.graph.remove(uid) {
            for owner in node.owners {
                self.due.entry(owner.uid).or_insert(due);
            }
        }
    }

    fn look_at(&mut self, server: &mut ApiServer, uid: &str, now: Timestamp) {
        let Some(node) = self.graph.get(uid).cloned() else { return };
        let Some(resource) = server.registry.by_table(node.table).cloned() else { return };
        let key = store::key(&node.namespace, &node.name);
        let Some(object) = server.store.get(node.table, &key).cloned() else { return };
        if meta::uid(&object) != uid {
            return;
        }
        let scope = scope(&resource, &node);
        let finalizers = meta::finalizers(&object);
        if meta::is_deleting(&object) && finalizers.contains(&meta::ORPHAN) {
            self.orphan(server, uid, now);
            remove_finalizer(server, &scope, &object, meta::ORPHAN, now);
            return;
        }
        let foreground = finalizers.contains(&meta::FOREGROUND);
        if meta::is_deleting(&object) && foreground {
            self.finish_foreground(server, uid, &scope, &object, now);
            return;
        }
        if meta::is_deleting(&object) {
            return;
        }
        self.collect(server, uid, &node, &scope, &object, now);
    }

    /// Decides on an object by the state of its owners.
    fn collect(
        &mut self,
        server: &mut ApiServer,
        uid: &str,
        node: &Node,
        scope: &Scope,
        object: &Arc<Value>,
        now: Timestamp,
    ) {
        let references = graph::owners(object);
        if references.is_empty() {
            return;
        }
        let owners = self.classify(server, node, &references);
        if owners.unknown > 0 {
            self.due.insert(uid.to_owned(), after(now, RETRY));
            return;
        }
        let gone: Vec<&String> = owners.dangling.iter().chain(&owners.waiting).collect();
        if owners.solid > 0 {
            if !gone.is_empty() {
                let keep = |owner: &str| !gone.iter().any(|uid| *uid == owner);
                edit_owners(server, scope, object, now, |references| {
                    references.retain(|reference| keep(reference["uid"].as_str().unwrap_or_default()));
                });
            }
            return;
        }
        let dependents = self.graph.dependents(uid);
        let finalizers = meta::finalizers(object);
        let propagation = if !owners.waiting.is_empty() && !dependents.is_empty() {
            Propagation::Foreground
        } else if finalizers.contains(&meta::ORPHAN) {
            Propagation::Orphan
        } else if finalizers.contains(&meta::FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            uid: Some(uid.to_owned()),
            resource_version: Some(meta::resource_version(object).to_owned()),
            propagation: Some(propagation),
            ..DeleteOptions::background(now)
        };
        if delete::delete_object(server, scope, &options).is_err() {
            self.due.insert(uid.to_owned(), after(now, RETRY));
        }
    }

    /// Looks up each owner.
    fn classify(&self, server: &ApiServer, node: &Node, references: &[Owner]) -> Owners {
        let mut owners = Owners::default();
        for owner in references {
            let (group, version) = owner.api_version.split_once('/').unwrap_or(("", &owner.api_version));
            let Some(resource) = server.registry.of_kind(group, version, &owner.kind) else {
                if self.absent.contains(&owner.uid) {
                    owners.dangling.push(owner.uid.clone());
                } else {
                    owners.unknown += 1;
                }
                continue;
            };
            if node.namespace.is_empty() && resource.namespaced {
                // A cluster-scoped object can't have an owner in a namespace, because the namespace is unknown.
                owners.unknown += 1;
                continue;
            }
            let namespace = if resource.namespaced { node.namespace.as_str() } else { "" };
            let key = store::key(namespace, &owner.name);
            match server.store.get(resource.table, &key).filter(|found| meta::uid(found) == owner.uid) {
                None => owners.dangling.push(owner.uid.clone()),
                Some(found) => {
                    let waits =
                        meta::is_deleting(found) && meta::finalizers(found).contains(&meta::FOREGROUND);
                    if waits {
                        owners.waiting.push(owner.uid.clone());
                    } else {
                        owners.solid += 1;
                    }
                }
            }
        }
        owners
    }

    /// Removes an owner from the references of its dependents.
    fn orphan(&mut self, server: &mut ApiServer, uid: &str, now: Timestamp) {
        for dependent in self.graph.dependents(uid) {
            let Some(node) = self.graph.get(&dependent).cloned() else { continue };
            let Some(resource) = server.registry.by_table(node.table).cloned() else { continue };
            let scope = scope(&resource, &node);
            let Some(object) = server.store.get(node.table, &scope.key()).cloned() else { continue };
            edit_owners(server, &scope, &object, now, |references| {
                references.retain(|reference| reference["uid"] != uid);
            });
        }
    }

    /// Removes the foreground finalizer of an object once no dependent blocks it any more.
    fn finish_foreground(
        &mut self,
        server: &mut ApiServer,
        uid: &str,
        scope: &Scope,
        object: &Arc<Value>,
        now: Timestamp,
    ) {
        let blocking: Vec<String> = self
            .graph
            .dependents(uid)
            .into_iter()
            .filter(|dependent| self.graph.get(dependent).is_some_and(|node| node.blocks(uid)))
            .collect();
        if blocking.is_empty() {
            remove_finalizer(server, scope, object, meta::FOREGROUND, now);
        }
    }
}

fn scope(resource: &Arc<Resource>, node: &Node) -> Scope {
    let path = ResourcePath {
        namespace: node.namespace.clone(),
        name: node.name.clone(),
        ..ResourcePath::default()
    };
    let storage = resource.versions.iter().position(|version| version.storage).unwrap_or_default();
    Scope::new(Arc::clone(resource), storage, path)
}

fn edit_owners(
    server: &mut ApiServer,
    scope: &Scope,
    live: &Arc<Value>,
    now: Timestamp,
    edit: impl FnOnce(&mut Vec<Value>),
) {
    let mut object = (**live).clone();
    if let Some(Value::Array(references)) = meta::metadata_mut(&mut object).get_mut("ownerReferences") {
        edit(references);
        if references.is_empty() {
            meta::remove(&mut object, "ownerReferences");
        }
    }
    update(server, scope, live, object, now);
}

fn remove_finalizer(server: &mut ApiServer, scope: &Scope, live: &Arc<Value>, name: &str, now: Timestamp) {
    let mut object = (**live).clone();
    let kept: Vec<String> =
        meta::finalizers(live).into_iter().filter(|other| *other != name).map(str::to_owned).collect();
    meta::set_finalizers(&mut object, &kept);
    update(server, scope, live, object, now);
}

/// Writes an object that the collector has just read. A refused object is checked again after the next change.
fn update(server: &mut ApiServer, scope: &Scope, live: &Arc<Value>, object: Value, now: Timestamp) {
    let mut options = WriteOptions::internal(MANAGER, now);
    let _refused = write::update_object(server, scope, live, object, &mut options, Tracking::Update);
}
