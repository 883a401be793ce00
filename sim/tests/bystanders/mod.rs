//! Checks the objects of other clients and the controller's own objects. Objects of others must not change, not even their
//! resource version. Own objects are not recreated without need, and none is without its owner.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::object::{ObjectRef, metadata};
use serde_json::Value;

/// Returns whether one of our controllers has written to an object or its status.
fn is_ours(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.filter_map(|entry| entry["manager"].as_str()).any(|manager| manager.starts_with("lockstep-"))
}

/// The objects of a cluster at a time, by uid and resource version. Events are excluded: they expire after an hour.
pub(crate) struct Objects(BTreeMap<ObjectRef, (String, String)>);

impl Objects {
    pub(crate) fn of(server: &ApiServer) -> Self {
        let objects = server.all_objects().filter(|(target, _)| target.kind.kind != "Event");
        let version = |object: &Value| {
            (metadata(object, "uid").to_owned(), metadata(object, "resourceVersion").to_owned())
        };
        Self(objects.map(|(target, object)| (target, version(&object))).collect())
    }

    /// Returns the objects that have existed since then.
    pub(crate) fn lasting(&self, server: &ApiServer) -> Lasting {
        let (mut untouched, mut kept) = (BTreeSet::new(), BTreeSet::new());
        for (target, object) in server.all_objects() {
            let Some((uid, version)) = self.0.get(&target) else { continue };
            if metadata(&object, "uid") == uid {
                if metadata(&object, "resourceVersion") == version && !is_ours(&object) {
                    untouched.insert(target.clone());
                }
                kept.insert(target);
            }
        }
        Lasting { untouched, kept }
    }
}

/// The objects that have remained.
pub(crate) struct Lasting {
    /// Objects of other clients with an unchanged resource version.
    untouched: BTreeSet<ObjectRef>,
    /// All objects with an unchanged uid, even if they were changed.
    kept: BTreeSet<ObjectRef>,
}

impl Lasting {
    /// Returns whether objects of other clients with all of these names are unchanged.
    pub(crate) fn has_untouched(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.untouched.iter().any(|target| target.name == *name))
    }

    /// Checks that every object that remains in an undisturbed run also remains in this one.
    pub(crate) fn assert_as_in(&self, undisturbed: &Self, what: &str) {
        let mut touched = &undisturbed.untouched - &self.untouched;
        // A namespace is annotated while a problem keeps it from its class. Simulations check that nothing else of it changes.
        touched.retain(|target| target.kind.kind != "Namespace");
        assert!(touched.is_empty(), "{what}: objects of others were touched: {touched:?}");
        let lost = &undisturbed.kept - &self.kept;
        assert!(lost.is_empty(), "{what}: objects were lost or created again: {lost:?}");
    }
}

/// Returns our objects without Events, which have random names. Checks that each has the owners to which it refers.
pub(crate) fn owned(server: &ApiServer, what: &str) -> BTreeSet<ObjectRef> {
    let all: Vec<_> = server.all_objects().collect();
    let uids: BTreeSet<&str> = all.iter().map(|(_, object)| metadata(object, "uid")).collect();
    let ours = all.iter().filter(|(target, object)| is_ours(object) && target.kind.kind != "Event");
    let mut owned = BTreeSet::new();
    for (target, object) in ours {
        for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let there = owner["uid"].as_str().is_some_and(|uid| uids.contains(uid));
            assert!(there, "{what}: {target} is left without its owner {owner}");
        }
        owned.insert(target.clone());
    }
    owned
}
