//! What is none of a controller's business, and what is: the first stays as it is, to its resource version; of the second
//! nothing is made anew without need, and nothing is left without its owner.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_core::object::{ObjectRef, metadata};
use lockstep_sim::apiserver::ApiServer;
use serde_json::Value;

/// Whether a controller of ours has written to an object, be it to its status.
fn is_ours(object: &Value) -> bool {
    let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.filter_map(|entry| entry["manager"].as_str()).any(|manager| manager.starts_with("lockstep-"))
}

/// The objects of a cluster at a time, by uid and resource version. Events are none: they go after an hour.
pub(crate) struct Objects(BTreeMap<ObjectRef, (String, String)>);

impl Objects {
    pub(crate) fn of(server: &ApiServer) -> Self {
        let objects = server.all_objects().filter(|(target, _)| target.kind.kind != "Event");
        let version = |object: &Value| {
            (metadata(object, "uid").to_owned(), metadata(object, "resourceVersion").to_owned())
        };
        Self(objects.map(|(target, object)| (target, version(&object))).collect())
    }

    /// What has lasted since then.
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

/// What has lasted.
pub(crate) struct Lasting {
    /// Objects of others, which are in the version that they had.
    untouched: BTreeSet<ObjectRef>,
    /// All objects that are the same, whatever has become of them.
    kept: BTreeSet<ObjectRef>,
}

impl Lasting {
    /// Whether objects of others of all these names are as they were.
    pub(crate) fn has_untouched(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.untouched.iter().any(|target| target.name == *name))
    }

    /// Whatever lasts in an undisturbed run lasts in this one.
    pub(crate) fn assert_as_in(&self, undisturbed: &Self, what: &str) {
        let mut touched = &undisturbed.untouched - &self.untouched;
        // A namespace is annotated for as long as something keeps it from its class. That nothing else of it changes, simulations show.
        touched.retain(|target| target.kind.kind != "Namespace");
        assert!(touched.is_empty(), "{what}: objects of others were touched: {touched:?}");
        let lost = &undisturbed.kept - &self.kept;
        assert!(lost.is_empty(), "{what}: objects were lost or made anew: {lost:?}");
    }
}

/// The objects of ours, but for Events, which have names of chance. Each has the owners that it names.
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
