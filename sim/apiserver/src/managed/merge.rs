//! Merges a configuration into an object, and removes fields from one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::path::Step;
use super::set::Set;
use super::typed::{Form, Forms, is_atomic_list, is_atomic_map, item_step};
use crate::schema::node::{At, DEPTH_MAX};

/// Returns the live value with everything from the configuration.
pub(super) fn merge(at: At<'_>, live: Option<&Value>, config: Option<&Value>, depth: usize) -> Option<Value> {
    let keep = || config.or(live).cloned();
    if depth > DEPTH_MAX {
        return keep();
    }
    let form = if config.is_none() { Forms::of(at, live) } else { Forms::of(at, config) }.form();
    match form {
        Form::Scalar => keep(),
        Form::Map => {
            let (left, right) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            let is_empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
            if is_atomic_map(at) || (is_empty(left) && is_empty(right)) {
                return keep();
            }
            let merged = merge_maps(at, left, right, depth);
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Form::List => {
            let (left, right) = (live.and_then(Value::as_array), config.and_then(Value::as_array));
            let is_empty = |list: Option<&Vec<Value>>| list.is_none_or(Vec::is_empty);
            if is_atomic_list(at) || (is_empty(left) && is_empty(right)) {
                return keep();
            }
            let slice = |list: Option<&Vec<Value>>| list.cloned().unwrap_or_default();
            let merged = merge_lists(at, &slice(left), &slice(right), depth);
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

fn merge_maps(
    at: At<'_>,
    live: Option<&Map<String, Value>>,
    config: Option<&Map<String, Value>>,
    depth: usize,
) -> Map<String, Value> {
    let mut out = Map::new();
    let keys: BTreeSet<&String> =
        live.into_iter().flat_map(Map::keys).chain(config.into_iter().flat_map(Map::keys)).collect();
    for key in keys {
        let (left, right) = (live.and_then(|map| map.get(key)), config.and_then(|map| map.get(key)));
        let merged = match at.child(key) {
            Some(child) => merge(child, left, right, depth + 1),
            None => right.or(left).cloned(),
        };
        if let Some(merged) = merged {
            out.insert(key.clone(), merged);
        }
    }
    out
}

/// Merges the items of two associative lists. Items of the live list keep their positions, as far as the order of the
/// configuration permits.
fn merge_lists(at: At<'_>, live: &[Value], config: &[Value], depth: usize) -> Vec<Value> {
    let Some(items) = at.items() else { return config.to_vec() };
    let steps =
        |list: &[Value]| -> Vec<Step> { list.iter().filter_map(|item| item_step(at, item).ok()).collect() };
    let (left, right) = (steps(live), steps(config));
    if left.len() != live.len() || right.len() != config.len() {
        return config.to_vec();
    }
    // Duplicate items of the live list are replaced, not merged.
    let mut in_live: BTreeMap<&Step, Option<&Value>> = BTreeMap::new();
    for (step, item) in left.iter().zip(live) {
        in_live.entry(step).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let in_config: BTreeMap<&Step, &Value> = right.iter().zip(config).collect();
    let null = Value::Null;
    let both = |step: &Step| {
        let live = in_live.get(step).map(|item| item.unwrap_or(&null));
        merge(items, live, in_config.get(step).copied(), depth + 1)
    };
    let mut shared: VecDeque<&Step> = right.iter().filter(|step| in_live.contains_key(step)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged: BTreeSet<&Step> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some(step), Some(other)) = (left.get(l), right.get(r)) {
            if step == other {
                merged.insert(step);
                out.extend(both(step));
                l += 1;
                r += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if in_config.contains_key(step) && next_shared.is_some_and(|shared| shared != step) {
                // The item is in both lists, and is merged later.
                l += 1;
                continue;
            }
        }
        if let Some(step) = left.get(l) {
            if !in_config.contains_key(step) {
                out.extend(merge(items, live.get(l), None, depth + 1));
                l += 1;
                continue;
            }
            if merged.contains(step) {
                l += 1;
            }
        }
        if let Some(step) = right.get(r) {
            merged.insert(step);
            out.extend(both(step));
            r += 1;
            if next_shared == Some(step) {
                next_shared = shared.pop_front();
            }
        }
    }
    out
}

/// Returns the value without the given fields; none if a map or list would be empty.
pub(super) fn remove(at: At<'_>, value: &Value, gone: &Set, depth: usize) -> Option<Value> {
    if depth > DEPTH_MAX {
        return Some(value.clone());
    }
    match Forms::of(at, Some(value)).form() {
        Form::Scalar => Some(value.clone()),
        Form::Map => {
            let map = value.as_object().filter(|map| !map.is_empty() && !is_atomic_map(at))?;
            let mut out = Map::new();
            for (key, value) in map {
                let step = Step::field(key);
                if gone.has(&step) {
                    continue;
                }
                let value = match (gone.below(&step), at.child(key)) {
                    (Some(gone), Some(child)) => remove(child, value, gone, depth + 1).unwrap_or(Value::Null),
                    _ => value.clone(),
                };
                out.insert(key.clone(), value);
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        Form::List => {
            let list = value.as_array().filter(|list| !list.is_empty() && !is_atomic_list(at))?;
            let mut out = Vec::new();
            for item in list {
                let step = item_step(at, item).ok();
                if step.as_ref().is_some_and(|step| gone.has(step)) {
                    continue;
                }
                let below = step.as_ref().and_then(|step| gone.below(step));
                out.push(match (below, at.items()) {
                    (Some(gone), Some(items)) => remove(items, item, gone, depth + 1).unwrap_or(Value::Null),
                    _ => item.clone(),
                });
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
    }
}
