//! Removes fields that are not in a schema.

use std::fmt::Write as _;

use serde_json::Value;

use super::node::{At, DEPTH_MAX, Extra};

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields and returns their paths: those in the object's metadata, in the object, and in the metadata of embedded
/// objects, each group sorted.
pub(super) fn prune(root: At<'_>, object: &mut Value) -> Vec<String> {
    if root.arena.built_in {
        let mut walk = Walk { root, path: String::new(), unknown: Vec::new() };
        walk.built_in(root, object, 0);
        return walk.unknown;
    }
    let mut walk = Walk { root, path: String::new(), unknown: Vec::new() };
    walk.metadata(root, object);
    let mut unknown = std::mem::take(&mut walk.unknown);
    walk.prune(Some(root), object, 0);
    walk.unknown.sort();
    unknown.append(&mut walk.unknown);
    if root.arena.has_embedded {
        walk.embedded(root, object, 0);
        walk.unknown.sort();
        unknown.append(&mut walk.unknown);
    }
    unknown
}

/// Prunes a value inside of an object.
pub(super) fn below(at: At<'_>, value: &mut Value) {
    // The root of the traversal is the whole object, so this value's own apiVersion is an ordinary field.
    let root = At { arena: at.arena, id: at.arena.root };
    Walk { root, path: String::new(), unknown: Vec::new() }.prune(Some(at), value, 0);
}

struct Walk<'a> {
    root: At<'a>,
    path: String,
    unknown: Vec<String>,
}

impl<'a> Walk<'a> {
    /// Prunes an object of a built-in kind, which keeps only its declared fields.
    fn built_in(&mut self, at: At<'a>, value: &mut Value, depth: usize) {
        if depth > DEPTH_MAX || at.node().preserve {
            return;
        }
        match value {
            Value::Object(map) => {
                let keys: Vec<String> = map.keys().cloned().collect();
                for key in keys {
                    if let Some(child) = at.child(&key) {
                        let Some(value) = map.get_mut(&key) else { continue };
                        self.below(&key, |walk| walk.built_in(child, value, depth + 1));
                    } else {
                        self.record(&key);
                        map.remove(&key);
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = at.items() else { return };
                for (index, value) in list.iter_mut().enumerate() {
                    self.at_index(index, |walk| walk.built_in(items, value, depth + 1));
                }
            }
            _ => {}
        }
    }

    fn prune(&mut self, at: Option<At<'a>>, value: &mut Value, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        if let Some(at) = at.filter(|at| at.node().preserve) {
            return self.skip(at, value, depth);
        }
        match value {
            Value::Object(map) => {
                let keys: Vec<String> = map.keys().cloned().collect();
                for key in keys {
                    if at.is_some_and(|at| self.keeps_meta(at)) && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(child) = at.and_then(|at| known(at, &key)) {
                        let Some(value) = map.get_mut(&key) else { continue };
                        self.below(&key, |walk| walk.prune(child, value, depth + 1));
                    } else {
                        self.record(&key);
                        map.remove(&key);
                    }
                }
            }
            Value::Array(list) => {
                let items = at.and_then(At::items);
                for (index, value) in list.iter_mut().enumerate() {
                    self.at_index(index, |walk| walk.prune(items, value, depth + 1));
                }
            }
            _ => {}
        }
    }

    /// Traverses the declared fields below a node that keeps unknown fields.
    fn skip(&mut self, at: At<'a>, value: &mut Value, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if self.keeps_meta(at) && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(child) = known(at, key) {
                        self.below(key, |walk| walk.prune(child, value, depth + 1));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = at.items() else { return };
                for (index, value) in list.iter_mut().enumerate() {
                    self.at_index(index, |walk| walk.skip(items, value, depth + 1));
                }
            }
            _ => {}
        }
    }

    /// Prunes the metadata of objects inside the object.
    fn embedded(&mut self, at: At<'a>, value: &mut Value, depth: usize) {
        if depth > DEPTH_MAX {
            return;
        }
        if depth > 0 && at.node().embedded {
            self.metadata(at, value);
        }
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if depth == 0 && META_FIELDS.contains(&key.as_str()) {
                        continue;
                    }
                    if let Some(Some(child)) = known(at, key) {
                        self.below(key, |walk| walk.embedded(child, value, depth + 1));
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = at.items() else { return };
                for (index, value) in list.iter_mut().enumerate() {
                    self.at_index(index, |walk| walk.embedded(items, value, depth + 1));
                }
            }
            _ => {}
        }
    }

    fn metadata(&mut self, at: At<'a>, object: &mut Value) {
        let (Some(meta), Some(metadata)) = (at.field("metadata"), object.get_mut("metadata")) else { return };
        self.below("metadata", |walk| walk.built_in(meta, metadata, 0));
    }

    fn keeps_meta(&self, at: At<'a>) -> bool {
        at.node().embedded || at.id == self.root.id
    }

    fn record(&mut self, key: &str) {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        self.unknown.push(path);
    }

    fn below(&mut self, key: &str, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        then(self);
        self.path.truncate(length);
    }

    fn at_index(&mut self, index: usize, then: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        let _ = write!(self.path, "[{index}]");
        then(self);
        self.path.truncate(length);
    }
}

/// Returns the type of a known key; known keys without a type (`additionalProperties: true`) have no known fields.
#[expect(clippy::option_option, reason = "whether a key is known, and whether its value has a type")]
fn known<'a>(at: At<'a>, key: &str) -> Option<Option<At<'a>>> {
    if let Some(field) = at.field(key) {
        return Some(Some(field));
    }
    match at.node().extra {
        Extra::Absent => None,
        Extra::Allowed(_) => Some(None),
        Extra::Of(id) => Some(Some(at.to(id))),
    }
}
