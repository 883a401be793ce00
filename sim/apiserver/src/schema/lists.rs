//! Lists that are sets, or maps by key, must not contain duplicates.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::node::{At, DEPTH_MAX, ListType};
use super::place::Place;
use crate::cause::Cause;

/// Returns the causes for duplicate items.
pub(super) fn causes(root: At<'_>, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if object.is_object() {
        walk(root, object, Place::Root, 0, &mut causes);
    }
    causes
}

fn walk(at: At<'_>, value: &Value, path: Place<'_>, depth: usize, causes: &mut Vec<Cause>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let Some(child) = at.declared(key) else { continue };
                walk(child, value, at.place_of(&path, key), depth + 1, causes);
            }
        }
        Value::Array(list) => {
            match &at.node().list {
                Some(ListType::Set) => causes.extend(
                    twins(list)
                        .into_iter()
                        .map(|index| Cause::duplicate(format!("{path}[{index}]"), &list[index])),
                ),
                Some(ListType::Map(keys)) => by_key(keys, list, path, causes),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(items) = at.items() {
                for (index, item) in list.iter().enumerate() {
                    walk(items, item, Place::Item(&path, index), depth + 1, causes);
                }
            }
        }
        _ => {}
    }
}

fn by_key(keys: &[String], list: &[Value], path: Place<'_>, causes: &mut Vec<Cause>) {
    if let Some((index, item)) =
        list.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let detail = "must be an object for an array of list-type map";
        causes.push(Cause::invalid(format!("{path}[{index}]"), item, detail));
        return;
    }
    let key = |item: &Value| -> Value {
        let fields = keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(fields.collect::<Map<String, Value>>())
    };
    let identities: Vec<Value> = list.iter().map(key).collect();
    causes.extend(
        twins(&identities)
            .into_iter()
            .map(|index| Cause::duplicate(format!("{path}[{index}]"), &identities[index])),
    );
}

/// Returns the indexes of second occurrences.
fn twins(list: &[Value]) -> Vec<usize> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut second = |item: &Value| {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        *times == 2
    };
    list.iter().enumerate().filter(|(_, item)| second(item)).map(|(index, _)| index).collect()
}
