//! The differences between two values of a type.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::path::Step;
use super::set::Set;
use super::typed::{Form, Forms, is_atomic_list, is_atomic_map, item_step};
use super::value::equal;
use crate::schema::node::{At, DEPTH_MAX};

/// The fields that differ; no field is in two of the sets.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

impl Changes {
    /// Compares two values.
    pub(super) fn between(at: At<'_>, old: &Value, new: &Value) -> Self {
        let mut changes = Self::default();
        if old != new {
            changes.value(at, Some(old), Some(new), &mut Vec::new());
        }
        changes
    }

    /// Removes changes of fields that the server resets.
    pub(super) fn ignoring(self, reset: &Set) -> Self {
        if reset.is_empty() {
            return self;
        }
        Self {
            removed: self.removed.without(reset),
            modified: self.modified.without(reset),
            added: self.added.without(reset),
        }
    }

    fn value(&mut self, at: At<'_>, old: Option<&Value>, new: Option<&Value>, path: &mut Vec<Step>) {
        if path.len() > DEPTH_MAX {
            return;
        }
        let (old_forms, new_forms) = (Forms::of(at, old), Forms::of(at, new));
        let is_leaf = if new.is_none() {
            self.form(old_forms.form(), at, old, new, path)
        } else {
            if old.is_some() && old_forms != new_forms {
                self.form(old_forms.form(), at, old, new, path);
            }
            self.form(new_forms.form(), at, old, new, path)
        };
        if !is_leaf {
            if old.is_none() {
                self.added.insert(path);
            } else if new.is_none() {
                self.removed.insert(path);
            }
        }
    }

    /// Returns whether the value is compared as a whole.
    fn form(
        &mut self,
        form: Form,
        at: At<'_>,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<Step>,
    ) -> bool {
        match form {
            Form::Scalar => self.leaf(old, new, path),
            Form::Map => {
                let (left, right) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let is_empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
                if is_atomic_map(at) || (is_empty(left) && is_empty(right)) {
                    return self.leaf(old, new, path);
                }
                self.map(at, left, right, path);
                false
            }
            Form::List => {
                let (left, right) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
                let is_empty = |list: Option<&Vec<Value>>| list.is_none_or(Vec::is_empty);
                if is_atomic_list(at) || (is_empty(left) && is_empty(right)) {
                    return self.leaf(old, new, path);
                }
                self.list(at, left.map_or(&[], Vec::as_slice), right.map_or(&[], Vec::as_slice), path);
                false
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>, path: &[Step]) -> bool {
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            (Some(old), Some(new)) if !equal(old, new) => self.modified.insert(path),
            _ => {}
        }
        true
    }

    fn map(
        &mut self,
        at: At<'_>,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        path: &mut Vec<Step>,
    ) {
        for key in old.into_iter().flat_map(Map::keys) {
            self.entry(at, key, old, new, path);
        }
        for key in new.into_iter().flat_map(Map::keys) {
            if !old.is_some_and(|old| old.contains_key(key)) {
                self.entry(at, key, old, new, path);
            }
        }
    }

    fn entry(
        &mut self,
        at: At<'_>,
        key: &str,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        path: &mut Vec<Step>,
    ) {
        let (old, new) = (old.and_then(|old| old.get(key)), new.and_then(|new| new.get(key)));
        // Equal values have no differences at any level. They are the usual case, and comparing them is cheap.
        let Some(child) = at.child(key).filter(|_| old != new) else { return };
        path.push(Step::field(key));
        self.value(child, old, new, path);
        path.pop();
    }

    fn list(&mut self, at: At<'_>, old: &[Value], new: &[Value], path: &mut Vec<Step>) {
        let Some(items) = at.items() else { return };
        let mut by_step: BTreeMap<Step, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(step) = item_step(at, item) {
                by_step.entry(step).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(step) = item_step(at, item) {
                by_step.entry(step).or_default().1.push(item);
            }
        }
        for (step, (old, new)) in by_step {
            path.push(step);
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.value(items, old.first().copied(), new.first().copied(), path);
                }
                ([_, _, ..], [_, _, ..]) => {
                    let same =
                        old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                    if !same {
                        self.modified.insert(path);
                    }
                }
                ([_, _, ..], rest) => {
                    if let Some(new) = rest.first() {
                        self.value(items, None, Some(new), path);
                    }
                    self.removed.insert(path);
                }
                (rest, _) => {
                    if let Some(old) = rest.first() {
                        self.value(items, Some(old), None, path);
                    }
                    self.added.insert(path);
                }
            }
            path.pop();
        }
    }
}
