//! The objects of one watched kind, as the watch has shown them, by the key of the reconcile that they concern.
//!
//! A controller with a few small kinds keeps them in informers, and the [operator](crate::operator) feeds those. A controller
//! that needs only some fields of many objects reads them into a [`Cache`] of its own instead.

use std::sync::Arc;

use serde_json::Value;

use super::action::{Action, Scope, WatchCommand};
use super::cache::{Cache, Cached};
use super::object::{Kind, ResourceVersion};

/// The watched objects of a kind.
#[derive(Debug, Clone)]
pub struct Informer<K: Ord + Clone> {
    kind: Arc<Kind>,
    scope: Scope,
    key: fn(&Value) -> Option<K>,
    objects: Cache<K, Seen>,
}

#[derive(Debug, Clone)]
struct Seen(Arc<Value>);

impl Cached for Seen {
    type Index = ();

    fn resource_version(&self) -> ResourceVersion {
        ResourceVersion::of(&self.0)
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

impl<K: Ord + Clone> Informer<K> {
    /// Returns an empty informer. `key` returns the key that an object concerns, the same for all versions of the object, and
    /// `None` for an object that the controller ignores. No two objects of the kind have the same key.
    pub fn new(kind: Arc<Kind>, scope: Scope, key: fn(&Value) -> Option<K>) -> Self {
        Self { kind, scope, key, objects: Cache::default() }
    }

    /// Returns the object of a key; it may be older than the one in the cluster.
    pub fn get(&self, key: &K) -> Option<&Arc<Value>> {
        self.objects.get(key).map(|seen| &seen.0)
    }

    /// Stores an object from the answer to a write or read of ours, so that the next reconcile sees it before the watch does.
    pub fn absorb(&mut self, answer: &Arc<Value>) {
        if let Some(key) = (self.key)(answer) {
            self.objects.absorb(key, Seen(Arc::clone(answer)));
        }
    }

    /// Returns whether all objects have been listed.
    pub fn is_synced(&self) -> bool {
        self.objects.is_synced()
    }

    pub(crate) fn is_of(&self, kind: &Kind) -> bool {
        *self.kind == *kind
    }

    pub(crate) fn watch(&self) -> Action {
        Action::Watch(WatchCommand::Start { kind: Arc::clone(&self.kind), scope: self.scope.clone() })
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.objects.iter().map(|(key, _)| key.clone())
    }

    pub(crate) fn list_started(&mut self) {
        self.objects.start_list();
    }

    /// Returns the keys of the objects that the list did not contain.
    pub(crate) fn list_completed(&mut self) -> Vec<K> {
        self.objects.complete_list().into_iter().map(|(key, _)| key).collect()
    }

    /// Returns the key to enqueue, if the object is new or newer.
    pub(crate) fn applied(&mut self, object: &Arc<Value>) -> Option<K> {
        let key = (self.key)(object)?;
        self.objects.observe(key.clone(), Seen(Arc::clone(object))).then_some(key)
    }

    /// Returns the key to enqueue, if the object was known.
    pub(crate) fn deleted(&mut self, object: &Value) -> Option<K> {
        let key = (self.key)(object)?;
        self.objects.vanish(&key, ResourceVersion::of(object)).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::Name;

    fn object(name: &str, version: u64) -> Arc<Value> {
        Arc::new(
            json!({ "metadata": { "namespace": "a", "name": name, "resourceVersion": version.to_string() } }),
        )
    }

    /// An informer of objects that do not begin with "x".
    fn informer() -> Informer<Name> {
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        Informer::new(kind, Scope::default(), |object| {
            Some(Name::of(object)).filter(|name| !name.name.starts_with('x'))
        })
    }

    #[test]
    fn new_versions_and_missing_objects_enqueue_their_keys() {
        let mut informer = informer();
        let [one, two] = ["one", "two"].map(|name| Name::new("a", name));
        informer.list_started();
        assert_eq!(informer.applied(&object("one", 1)), Some(one.clone()));
        assert_eq!(informer.applied(&object("two", 2)), Some(two.clone()));
        assert_eq!(informer.applied(&object("x", 3)), None);
        assert!(!informer.is_synced());
        assert_eq!(informer.list_completed(), []);
        assert!(informer.is_synced());
        assert_eq!(informer.applied(&object("one", 1)), None);
        assert_eq!(informer.deleted(&object("two", 4)), Some(two));
        assert_eq!(informer.deleted(&object("two", 4)), None);
        informer.list_started();
        assert_eq!(informer.list_completed(), [one]);
        assert_eq!(informer.keys().count(), 0);
    }

    #[test]
    fn an_answer_is_seen_before_the_watch_and_enqueues_nothing() {
        let mut informer = informer();
        let one = Name::new("a", "one");
        informer.applied(&object("one", 1));
        informer.absorb(&object("one", 5));
        assert_eq!(informer.get(&one).map(|object| ResourceVersion::of(object)), Some(5.into()));
        assert_eq!(informer.applied(&object("one", 5)), None);
        assert_eq!(informer.applied(&object("one", 4)), None);
        assert_eq!(informer.get(&one).map(|object| ResourceVersion::of(object)), Some(5.into()));
    }
}
