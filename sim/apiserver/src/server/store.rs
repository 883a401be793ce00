//! The objects, and the log of their changes for watches, paged lists and actors.
//!
//! One counter numbers all changes. Each table keeps its current objects and a bounded log. An older snapshot is computed from
//! the current state by undoing the log.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::meta;

/// The id of one resource's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TableId(pub(crate) u32);

/// One change of one object.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) revision: u64,
    pub(crate) key: Arc<str>,
    pub(crate) old: Option<Arc<Value>>,
    /// The object after the change; for a deletion its last state, with the revision of the deletion.
    pub(crate) object: Arc<Value>,
    pub(crate) deleted: bool,
}

/// The history before a revision was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Compacted {
    /// The oldest revision from which the log can still be read.
    pub(crate) oldest: u64,
}

#[derive(Debug, Clone, Default)]
struct Table {
    objects: BTreeMap<Arc<str>, Arc<Value>>,
    log: VecDeque<Change>,
    /// Changes up to this revision are no longer in the log.
    trimmed: u64,
    /// The revision at which the table was opened: no client can have watched it before.
    opened: u64,
}

/// All objects of the server.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    revision: u64,
    log_limit: usize,
    /// Copies of a store share the tables that do not change.
    tables: BTreeMap<TableId, Arc<Table>>,
}

/// The keys of one listing: everything, one namespace, or one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prefix {
    text: String,
    exact: bool,
}

impl Prefix {
    /// Returns the prefix of all objects of a namespace, or of all objects if it is empty.
    pub(crate) fn namespace(namespace: &str) -> Self {
        let text = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        Self { text, exact: false }
    }

    /// Returns the prefix of one object.
    pub(crate) fn object(key: String) -> Self {
        Self { text: key, exact: true }
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        if self.exact { key == self.text } else { key.starts_with(&self.text) }
    }
}

/// Returns the key of an object: `namespace/name`, or `name` in cluster scope; sorted as in etcd.
pub(crate) fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Store {
    pub(crate) fn new(log_limit: usize) -> Self {
        Self { revision: 1, log_limit, tables: BTreeMap::new() }
    }

    /// Returns the revision of the latest change.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn get(&self, table: TableId, key: &str) -> Option<&Arc<Value>> {
        self.tables.get(&table)?.objects.get(key)
    }

    /// Returns a table to change it.
    fn table(&mut self, table: TableId) -> &mut Table {
        Arc::make_mut(self.tables.entry(table).or_default())
    }

    /// Stores an object under a new resource version.
    pub(crate) fn put(&mut self, table: TableId, key: &str, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        meta::set(&mut object, "resourceVersion", self.revision.to_string());
        let object = Arc::new(object);
        let key: Arc<str> = key.into();
        let (revision, log_limit) = (self.revision, self.log_limit);
        let table = self.table(table);
        let old = table.objects.insert(Arc::clone(&key), Arc::clone(&object));
        table.append(Change { revision, key, old, object: Arc::clone(&object), deleted: false }, log_limit);
        object
    }

    /// Stores an object with the resource version that it has. The history of its table starts afterwards.
    pub(crate) fn restore(&mut self, table: TableId, key: &str, object: Value) -> Arc<Value> {
        let version = meta::resource_version(&object).parse().unwrap_or(0);
        self.revision = self.revision.max(version);
        let (object, trimmed) = (Arc::new(object), self.revision);
        let table = self.table(table);
        table.objects.insert(key.into(), Arc::clone(&object));
        table.log.clear();
        table.trimmed = trimmed;
        object
    }

    /// Removes an object and returns its last state with the revision of the deletion.
    pub(crate) fn delete(&mut self, table: TableId, key: &str) -> Option<Arc<Value>> {
        let table = Arc::make_mut(self.tables.get_mut(&table)?);
        let (key, old) = table.objects.remove_entry(key)?;
        self.revision += 1;
        let mut last = (*old).clone();
        meta::set(&mut last, "resourceVersion", self.revision.to_string());
        let object = Arc::new(last);
        let change = Change {
            revision: self.revision,
            key,
            old: Some(old),
            object: Arc::clone(&object),
            deleted: true,
        };
        table.append(change, self.log_limit);
        Some(object)
    }

    /// Returns the current objects under a prefix, in key order, starting just after `after`.
    pub(crate) fn list<'a>(
        &'a self,
        table: TableId,
        prefix: &'a Prefix,
        after: Option<&'a str>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Value>)> {
        let start = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix.text.as_str()),
        };
        self.tables
            .get(&table)
            .into_iter()
            .flat_map(move |table| table.objects.range::<str, _>((start, Bound::Unbounded)))
            .take_while(move |(key, _)| prefix.contains(key))
    }

    /// Returns the objects under a prefix as they were at `revision`.
    pub(crate) fn snapshot(
        &self,
        table: TableId,
        prefix: &Prefix,
        revision: u64,
    ) -> Result<BTreeMap<Arc<str>, Arc<Value>>, Compacted> {
        let mut objects: BTreeMap<Arc<str>, Arc<Value>> = self
            .list(table, prefix, None)
            .map(|(key, object)| (Arc::clone(key), Arc::clone(object)))
            .collect();
        let changes = self.since(table, revision)?;
        for change in changes.rev().filter(|change| prefix.contains(&change.key)) {
            match &change.old {
                Some(old) => objects.insert(Arc::clone(&change.key), Arc::clone(old)),
                None => objects.remove(&change.key),
            };
        }
        Ok(objects)
    }

    /// Returns the changes of a table after `revision`, oldest first.
    pub(crate) fn since(
        &self,
        table: TableId,
        revision: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Change>, Compacted> {
        let table = self.tables.get(&table);
        if let Some(trimmed) = table.map(|table| table.trimmed).filter(|trimmed| revision < *trimmed) {
            return Err(Compacted { oldest: trimmed });
        }
        Ok(table.into_iter().flat_map(move |table| {
            let start = table.log.partition_point(|change| change.revision <= revision);
            table.log.range(start..)
        }))
    }

    /// Opens a table that is added while the server runs.
    pub(crate) fn open(&mut self, table: TableId) {
        let revision = self.revision;
        self.table(table).opened = revision;
    }

    /// Refuses a client's watch from a revision before the table was opened.
    pub(crate) fn check_opened(&self, table: TableId, revision: u64) -> Result<(), Compacted> {
        let opened = self.tables.get(&table).map_or(0, |table| table.opened);
        if revision < opened { Err(Compacted { oldest: opened }) } else { Ok(()) }
    }

    /// Returns the revision of the latest change of a table.
    pub(crate) fn changed(&self, table: TableId) -> u64 {
        let last = |table: &Arc<Table>| table.log.back().map_or(table.trimmed, |change| change.revision);
        self.tables.get(&table).map_or(0, last)
    }

    /// Drops all history: every list and watch from an older revision is answered with 410.
    pub(crate) fn compact(&mut self) {
        for table in self.tables.values_mut() {
            let table = Arc::make_mut(table);
            table.trimmed = self.revision;
            table.log.clear();
        }
    }
}

impl Table {
    fn append(&mut self, change: Change, limit: usize) {
        self.log.push_back(change);
        if self.log.len() > limit
            && let Some(first) = self.log.pop_front()
        {
            self.trimmed = first.revision;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TABLE: TableId = TableId(7);

    fn names(objects: &BTreeMap<Arc<str>, Arc<Value>>) -> Vec<&str> {
        objects.keys().map(AsRef::as_ref).collect()
    }

    #[test]
    fn a_snapshot_undoes_the_log() {
        let mut store = Store::new(10);
        store.put(TABLE, "a/x", json!({"metadata": {}, "data": 1}));
        store.put(TABLE, "a/y", json!({"metadata": {}}));
        let revision = store.revision();
        store.put(TABLE, "a/x", json!({"metadata": {}, "data": 2}));
        store.delete(TABLE, "a/y");
        store.put(TABLE, "a/z", json!({"metadata": {}}));
        let objects = store.snapshot(TABLE, &Prefix::namespace("a"), revision).unwrap();
        assert_eq!(names(&objects), ["a/x", "a/y"]);
        assert_eq!(objects["a/x"]["data"], 1);
    }

    #[test]
    fn history_beyond_the_limit_is_gone() {
        let mut store = Store::new(2);
        for _ in 0..4 {
            store.put(TABLE, "x", json!({"metadata": {}}));
        }
        assert_eq!(store.since(TABLE, 2).err(), Some(Compacted { oldest: 3 }));
        assert_eq!(store.since(TABLE, 3).unwrap().count(), 2);
    }

    #[test]
    fn a_table_has_no_history_before_it_was_opened() {
        let mut store = Store::new(10);
        store.put(TableId(1), "x", json!({"metadata": {}}));
        store.open(TABLE);
        assert_eq!(store.check_opened(TABLE, 1), Err(Compacted { oldest: 2 }));
        assert_eq!(store.check_opened(TABLE, 2), Ok(()));
        assert_eq!(store.check_opened(TableId(1), 1), Ok(()));
    }

    #[test]
    fn keys_sort_as_paths_do() {
        let mut store = Store::new(10);
        for key in ["a/x", "a-b/x", "ab/x"] {
            store.put(TABLE, key, json!({"metadata": {}}));
        }
        let all = Prefix::namespace("");
        let keys: Vec<&str> = store.list(TABLE, &all, None).map(|(key, _)| key.as_ref()).collect();
        assert_eq!(keys, ["a-b/x", "a/x", "ab/x"]);
        let one = Prefix::namespace("a");
        assert_eq!(store.list(TABLE, &one, None).count(), 1);
    }
}
