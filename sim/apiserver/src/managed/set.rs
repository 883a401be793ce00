//! Sets of fields, and their form in `managedFields[].fieldsV1`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::path::Step;
use crate::schema::node::{At, DEPTH_MAX};

/// A set of fields as a tree: its members at this level, and the sets below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Set {
    members: BTreeSet<Step>,
    children: BTreeMap<Step, Set>,
}

impl Set {
    /// Parses `fieldsV1`.
    pub(super) fn parse(fields: &Value) -> Result<Self, String> {
        let map = fields.as_object().ok_or("fieldsV1 is no object")?;
        Ok(Self::parse_node(map, 0)?.0.unwrap_or_default())
    }

    fn parse_node(map: &Map<String, Value>, depth: usize) -> Result<(Option<Self>, bool), String> {
        if depth > DEPTH_MAX {
            return Err("fieldsV1 is nested too deeply".to_owned());
        }
        let mut set = Self::default();
        let mut is_member = map.is_empty();
        for (key, below) in map {
            if key == "." {
                is_member = true;
                continue;
            }
            let Some(step) = Step::parse(key)? else { continue };
            let empty = Map::new();
            let (children, child_is_member) =
                Self::parse_node(below.as_object().unwrap_or(&empty), depth + 1)?;
            if child_is_member {
                set.members.insert(step.clone());
            }
            if let Some(children) = children {
                set.children.insert(step, children);
            }
        }
        if set.members.is_empty() && set.children.is_empty() {
            return Ok((None, true));
        }
        Ok((Some(set), is_member))
    }

    /// Writes `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        for step in &self.members {
            map.insert(step.serialize(), Value::Object(Map::new()));
        }
        for (step, below) in &self.children {
            let key = step.serialize();
            let Value::Object(mut nested) = below.to_json() else { continue };
            if self.members.contains(step) {
                nested.insert(".".to_owned(), Value::Object(Map::new()));
            }
            map.insert(key, Value::Object(nested));
        }
        Value::Object(map)
    }

    /// Returns a set of the given paths of field names.
    pub(super) fn of(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Step> = path.split('.').map(Step::field).collect();
            set.insert(&path);
        }
        set
    }

    /// Adds one field; the object as a whole is not a field.
    pub(super) fn insert(&mut self, path: &[Step]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for step in parents {
            set = set.children.entry(step.clone()).or_default();
        }
        set.members.insert(last.clone());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Set::is_empty)
    }

    pub(super) fn has(&self, step: &Step) -> bool {
        self.members.contains(step)
    }

    /// Returns whether the set contains a field.
    pub(super) fn contains(&self, path: &[Step]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for step in parents {
            match set.children.get(step) {
                Some(below) => set = below,
                None => return false,
            }
        }
        set.has(last)
    }

    /// Returns the steps at this level, whether each is a member, and the subset below it.
    pub(super) fn steps(&self) -> impl Iterator<Item = (&Step, bool, Option<&Set>)> {
        let members = self.members.iter().map(|step| (step, true, self.children.get(step)));
        let others = self.children.iter().filter(|(step, _)| !self.members.contains(step));
        members.chain(others.map(|(step, below)| (step, false, Some(below))))
    }

    /// Returns the subset below a step.
    pub(super) fn below(&self, step: &Step) -> Option<&Set> {
        self.children.get(step).filter(|set| !set.is_empty())
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        out.merge(other);
        out
    }

    /// Adds the fields of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (step, below) in &other.children {
            self.children.entry(step.clone()).or_default().merge(below);
        }
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mut out =
            Self { members: self.members.intersection(&other.members).cloned().collect(), ..Self::default() };
        for (step, below) in &self.children {
            if let Some(other) = other.children.get(step) {
                out.adopt(step, below.intersection(other));
            }
        }
        out
    }

    /// Returns the fields that are not in the other set; fields below those of the other set remain.
    pub(super) fn difference(&self, other: &Self) -> Self {
        let mut out =
            Self { members: self.members.difference(&other.members).cloned().collect(), ..Self::default() };
        for (step, below) in &self.children {
            match other.children.get(step) {
                Some(other) => out.adopt(step, below.difference(other)),
                None => {
                    out.children.insert(step.clone(), below.clone());
                }
            }
        }
        out
    }

    /// Returns the fields that are not in the other set and not below one of its fields.
    pub(super) fn without(&self, other: &Self) -> Self {
        let mut out =
            Self { members: self.members.difference(&other.members).cloned().collect(), ..Self::default() };
        for (step, below) in self.children.iter().filter(|(step, _)| !other.members.contains(step)) {
            match other.children.get(step) {
                Some(other) => out.adopt(step, below.without(other)),
                None => {
                    out.children.insert(step.clone(), below.clone());
                }
            }
        }
        out
    }

    /// Adds the declared fields that have members of the set below them.
    pub(super) fn with_named_fields(&self, at: Option<At<'_>>) -> Self {
        let mut out = Self { members: self.members.clone(), ..Self::default() };
        for (step, below) in &self.children {
            let child = match step {
                Step::Field(name) => {
                    if at.is_some_and(|at| at.field(name).is_some()) {
                        out.members.insert(step.clone());
                    }
                    at.and_then(|at| at.child(name))
                }
                Step::Key(_) => at.and_then(At::items),
                Step::Value(_) | Step::Index(_) => None,
            };
            out.children.insert(step.clone(), below.with_named_fields(child));
        }
        out
    }

    /// Returns all fields, ordered by depth.
    pub(super) fn paths(&self) -> Vec<Vec<Step>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
        for step in &self.members {
            let mut path = prefix.clone();
            path.push(step.clone());
            out.push(path);
        }
        for (step, below) in &self.children {
            prefix.push(step.clone());
            below.collect(prefix, out);
            prefix.pop();
        }
    }

    fn adopt(&mut self, step: &Step, below: Self) {
        if !below.is_empty() {
            self.children.insert(step.clone(), below);
        }
    }
}
