//! Owners and dependents, by uid.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::server::meta;
use crate::server::store::TableId;

/// One owner reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) blocks: bool,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) table: TableId,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) owners: Vec<Owner>,
    pub(super) deleting: bool,
    finalizers: Vec<String>,
}

/// The effect of an insertion.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// The owner references are new or differ.
    pub(super) owners: bool,
    /// The object entered foreground deletion.
    pub(super) foreground: bool,
    /// Uids of owners that are no longer owners or no longer blocked.
    pub(super) lost: Vec<String>,
}

/// All objects and their dependencies; an owner may be absent.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

/// Returns the owner references of an object.
pub(super) fn owners(object: &Value) -> Vec<Owner> {
    let references = meta::field(object, "ownerReferences").and_then(Value::as_array);
    references
        .into_iter()
        .flatten()
        .map(|reference| {
            let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
                blocks: reference.get("blockOwnerDeletion") == Some(&Value::Bool(true)),
            }
        })
        .collect()
}

impl Node {
    pub(super) fn read(table: TableId, object: &Value) -> Self {
        Self {
            table,
            namespace: meta::namespace(object).to_owned(),
            name: meta::name(object).to_owned(),
            owners: owners(object),
            deleting: meta::is_deleting(object),
            finalizers: meta::finalizers(object).into_iter().map(str::to_owned).collect(),
        }
    }

    pub(super) fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }

    /// Returns whether the object blocks the foreground deletion of an owner.
    pub(super) fn blocks(&self, owner: &str) -> bool {
        self.owners.iter().any(|reference| reference.uid == owner && reference.blocks)
    }

    fn in_foreground(&self) -> bool {
        self.deleting && self.has_finalizer(meta::FOREGROUND)
    }
}

impl Graph {
    pub(super) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Returns the uids of the objects with `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> Vec<String> {
        self.dependents.get(uid).into_iter().flatten().cloned().collect()
    }

    pub(super) fn insert(&mut self, uid: &str, node: Node) -> Changed {
        let before = self.nodes.get(uid);
        let mut changed = Changed {
            owners: before.is_none_or(|before| before.owners != node.owners),
            foreground: node.in_foreground() && !before.is_some_and(Node::in_foreground),
            lost: Vec::new(),
        };
        if changed.owners {
            if let Some(before) = before.cloned() {
                let lost = before.owners.iter().filter(|owner| !node.blocks(&owner.uid));
                changed.lost = lost.map(|owner| owner.uid.clone()).collect();
                self.unlink(uid, &before);
            }
            for owner in &node.owners {
                self.dependents.entry(owner.uid.clone()).or_default().insert(uid.to_owned());
            }
        }
        self.nodes.insert(uid.to_owned(), node);
        changed
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Node> {
        let node = self.nodes.remove(uid)?;
        self.unlink(uid, &node);
        Some(node)
    }

    fn unlink(&mut self, uid: &str, node: &Node) {
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }

    /// Returns the uids of a table that are not among those present.
    pub(super) fn missing(&self, table: TableId, present: &BTreeSet<&str>) -> Vec<String> {
        let missing = |(uid, node): &(&String, &Node)| node.table == table && !present.contains(uid.as_str());
        self.nodes.iter().filter(missing).map(|(uid, _)| uid.clone()).collect()
    }
}
