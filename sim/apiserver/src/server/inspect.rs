//! Read access for simulations, without requests and without side effects.

use std::sync::Arc;

use lockstep_engine::object::{Kind, ObjectRef};
use serde_json::Value;

use super::meta;
use super::state::ApiServer;
use super::store::{self, Prefix};

/// One change of one object, in the stored form.
#[derive(Debug, Clone)]
pub struct Changed {
    /// The object.
    pub object: ObjectRef,
    /// Its state before the change; none if it was created.
    pub old: Option<Arc<Value>>,
    /// Its state after the change; none if it was removed.
    pub new: Option<Arc<Value>>,
}

impl ApiServer {
    /// Returns all changes after a revision, in order. Those that the history no longer has are left out.
    pub fn changes_since(&self, revision: u64) -> Vec<Changed> {
        if self.revision() <= revision {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for resource in self.registry.all().filter(|resource| self.store.changed(resource.table) > revision) {
            let kind = resource.object_kind();
            for change in self.store.since(resource.table, revision).into_iter().flatten() {
                let changed = Changed {
                    object: reference(kind, &change.object),
                    old: change.old.clone(),
                    new: (!change.deleted).then(|| Arc::clone(&change.object)),
                };
                changes.push((change.revision, changed));
            }
        }
        changes.sort_by_key(|(revision, _)| *revision);
        changes.into_iter().map(|(_, changed)| changed).collect()
    }

    /// Returns the current state of an object.
    pub fn object(&self, object: &ObjectRef) -> Option<&Arc<Value>> {
        let key = store::key(object.namespace.as_deref().unwrap_or_default(), &object.name);
        self.find(&object.kind.group, &object.kind.plural, &key)
    }

    /// Returns the current objects of all kinds.
    pub fn all_objects(&self) -> impl Iterator<Item = (ObjectRef, Arc<Value>)> {
        self.registry.all().map(|resource| resource.object_kind()).flat_map(|kind| {
            let objects = self.objects(kind);
            objects.into_iter().map(move |object| (reference(kind, &object), object))
        })
    }

    /// Returns the current objects of a kind, in the order of their keys.
    pub fn objects(&self, kind: &Kind) -> Vec<Arc<Value>> {
        let Some(resource) = self.registry.get(&kind.group, &kind.plural) else { return Vec::new() };
        let all = Prefix::namespace("");
        self.store.list(resource.table, &all, None).map(|(_, object)| Arc::clone(object)).collect()
    }
}

fn reference(kind: &Arc<Kind>, object: &Value) -> ObjectRef {
    match meta::namespace(object) {
        "" => ObjectRef::cluster(kind, meta::name(object)),
        namespace => ObjectRef::namespaced(kind, namespace, meta::name(object)),
    }
}
