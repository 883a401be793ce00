//! The objects that a watch has shown, by key and by index. A stored object never becomes older.
//!
//! The cache may always be stale. It also stores the answers of our own writes, so that a reconcile sees the previous
//! reconcile's writes even if the watch is behind. Resource versions of one kind are comparable, and the newer one stays.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::action::{ErrorKind, Failure};
use super::object::ResourceVersion;
use super::pairs;

/// The properties of values that the cache needs.
pub trait Cached {
    /// The type of the index values by which objects are found, besides their key.
    type Index: Ord + Clone;

    /// Returns the object's resource version.
    fn resource_version(&self) -> ResourceVersion;

    /// Returns the index values under which the object is found.
    fn indexes(&self) -> Vec<Self::Index>;
}

/// The objects of one kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    bound(
        serialize = "K: Serialize, V: Serialize",
        deserialize = "K: Deserialize<'de> + Ord + Clone, V: Deserialize<'de>"
    ),
    from = "Stored<K, V>"
)]
pub struct Cache<K, V: Cached> {
    #[serde(with = "pairs")]
    objects: BTreeMap<K, V>,
    #[serde(skip)]
    index: BTreeMap<V::Index, BTreeSet<K>>,
    /// The keys that were listed since a list began.
    listing: Option<BTreeSet<K>>,
    synced: bool,
    /// The newest resource version that the watch itself has shown.
    watched_up_to: ResourceVersion,
    /// The removals that the watch has not shown yet, with the last resource version of each object.
    #[serde(with = "pairs")]
    removed: BTreeMap<K, ResourceVersion>,
    /// The objects that a write of ours may have changed, though its answer did not arrive.
    doubted: BTreeSet<K>,
}

/// The stored form of a cache: the index is derived from the objects.
#[derive(Deserialize)]
#[serde(bound(deserialize = "K: Deserialize<'de> + Ord, V: Deserialize<'de>"))]
struct Stored<K, V> {
    #[serde(with = "pairs")]
    objects: BTreeMap<K, V>,
    listing: Option<BTreeSet<K>>,
    synced: bool,
    watched_up_to: ResourceVersion,
    #[serde(with = "pairs")]
    removed: BTreeMap<K, ResourceVersion>,
    #[serde(default = "BTreeSet::new")]
    doubted: BTreeSet<K>,
}

impl<K: Ord + Clone, V: Cached> From<Stored<K, V>> for Cache<K, V> {
    fn from(stored: Stored<K, V>) -> Self {
        let Stored { objects, listing, synced, watched_up_to, removed, doubted } = stored;
        let mut cache = Self { listing, synced, watched_up_to, removed, doubted, ..Self::default() };
        for (key, value) in objects {
            cache.put(key, value);
        }
        cache
    }
}

impl<K: Ord + Clone, V: Cached> Default for Cache<K, V> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            index: BTreeMap::new(),
            listing: None,
            synced: false,
            watched_up_to: ResourceVersion::default(),
            removed: BTreeMap::new(),
            doubted: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone, V: Cached> Cache<K, V> {
    /// Returns whether a list has been completed.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Returns the object of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.objects.get(key)
    }

    /// Returns all objects, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.objects.iter()
    }

    /// Returns the objects from a key on, in the order of their keys.
    pub fn starting_at(&self, key: K) -> impl Iterator<Item = (&K, &V)> {
        self.objects.range(key..)
    }

    /// Returns the keys of the objects under an index value, in order.
    pub fn keys_by<'a>(&'a self, index: &V::Index) -> impl Iterator<Item = &'a K> + use<'a, K, V> {
        self.index.get(index).into_iter().flatten()
    }

    /// Returns the number of objects under an index value.
    pub fn count_by(&self, index: &V::Index) -> usize {
        self.index.get(index).map_or(0, BTreeSet::len)
    }

    /// Records that a list begins.
    pub fn start_list(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// Records that the list is complete. Removes and returns the objects that it did not contain.
    pub fn complete_list(&mut self) -> Vec<(K, V)> {
        self.synced = true;
        self.removed.clear();
        let Some(listed) = self.listing.take() else { return Vec::new() };
        let gone: Vec<K> = self.objects.keys().filter(|key| !listed.contains(key)).cloned().collect();
        self.doubted.retain(|key| listed.contains(key));
        gone.into_iter().filter_map(|key| self.forget(&key).map(|value| (key, value))).collect()
    }

    /// Stores an object that the watch has shown. Returns whether it is newer than the stored one, or may be.
    pub fn observe(&mut self, key: K, value: V) -> bool {
        if let Some(listed) = &mut self.listing {
            listed.insert(key.clone());
        }
        self.watched_up_to = self.watched_up_to.max(value.resource_version());
        let held = self.objects.get(&key).map(Cached::resource_version);
        let removed = self.removed.get(&key).copied();
        let version = value.resource_version();
        if !version.is_none() && held.max(removed).is_some_and(|known| known >= version) {
            return false;
        }
        self.removed.remove(&key);
        self.put(key, value);
        true
    }

    /// Records that an answer has shown the end of an object: a removal of ours was successful, or the object at this resource
    /// version no longer belongs into the cache. A stale watch that still shows it does not bring it back. Returns whether that
    /// was not known yet.
    pub fn removed(&mut self, key: K, resource_version: ResourceVersion) -> bool {
        match self.objects.get(&key) {
            Some(held) if held.resource_version() > resource_version => false,
            // The watch has already shown the object and its deletion.
            None if self.watched_up_to >= resource_version && self.listing.is_none() => false,
            _ => {
                self.doubted.remove(&key);
                self.forget(&key);
                self.removed.insert(key, resource_version);
                true
            }
        }
    }

    /// Records that the watch has shown a deletion; `resource_version` is that of the deletion. Returns whether it removed an
    /// object.
    pub fn vanish(&mut self, key: &K, resource_version: ResourceVersion) -> bool {
        self.watched_up_to = self.watched_up_to.max(resource_version);
        if let Some(listed) = &mut self.listing {
            listed.remove(key);
        }
        self.removed.remove(key);
        // A newer object of the same name is known from the answer that created it.
        let held = self.objects.get(key).map(Cached::resource_version);
        if held.is_none_or(|held| held > resource_version && !resource_version.is_none()) {
            return false;
        }
        self.doubted.remove(key);
        self.forget(key);
        true
    }

    /// Stores an object from the answer to a read or write of ours. It is ignored if the watch has shown a newer version: a
    /// late answer must not restore an object that was deleted since. (At the very version that the watch showed last, the
    /// object exists: the watch has shown that it no longer matches the selector.)
    pub fn absorb(&mut self, key: K, value: V) -> bool {
        let held = self.objects.get(&key).map(Cached::resource_version).unwrap_or_default();
        let version = value.resource_version();
        if version < self.watched_up_to || version <= held {
            return false;
        }
        // During a list it does not count as listed. If the list lacks it, it is either gone, or the watch shows it next.
        self.put(key, value);
        true
    }

    /// Records that a write of an object failed. Without an answer it may have taken effect, so that the stored object is older
    /// than it seems: a write is needed even if the stored object is as wanted.
    pub fn write_failed(&mut self, key: K, failure: &Failure) {
        if failure.class == ErrorKind::Unknown {
            self.doubted.insert(key);
        }
    }

    /// Returns whether a write of an object got no answer, and none of them succeeded since. What the watch shows does not
    /// end the doubt, because it may be behind.
    pub fn is_doubted(&self, key: &K) -> bool {
        self.doubted.contains(key)
    }

    /// Stores an object from the answer to a write of ours, as [`Self::absorb`] does. Ends the doubt about earlier writes: each
    /// write of ours names the resource version that it changes.
    pub fn confirm(&mut self, key: K, value: V) -> bool {
        self.doubted.remove(&key);
        self.absorb(key, value)
    }

    /// Changes a stored object in place. Neither its resource version nor its index values may change.
    pub fn amend(&mut self, key: &K, change: impl FnOnce(&mut V)) {
        if let Some(value) = self.objects.get_mut(key) {
            change(value);
        }
    }

    fn put(&mut self, key: K, value: V) {
        self.forget(&key);
        for index in value.indexes() {
            self.index.entry(index).or_default().insert(key.clone());
        }
        self.objects.insert(key, value);
    }

    fn forget(&mut self, key: &K) -> Option<V> {
        let value = self.objects.remove(key)?;
        for index in value.indexes() {
            if let Some(keys) = self.index.get_mut(&index) {
                keys.remove(key);
                if keys.is_empty() {
                    self.index.remove(&index);
                }
            }
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests;
