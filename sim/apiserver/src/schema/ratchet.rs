//! Matches old values with new ones, so that unchanged values are not validated again.

use serde_json::Value;

use super::node::{At, DEPTH_MAX, ListType};

/// Returns the old item that matches a new one of a list with keys.
pub(super) fn matching<'v>(at: At<'_>, old: &'v Value, item: &Value) -> Option<&'v Value> {
    let Some(ListType::Map(keys)) = &at.node().list else { return None };
    // Items without a key can't be distinguished.
    let key =
        |item: &Value| -> Option<Vec<Value>> { keys.iter().map(|key| item.get(key).cloned()).collect() };
    let wanted = key(item)?;
    old.as_array()?.iter().find(|other| key(other).as_ref() == Some(&wanted))
}

/// Returns whether nothing changed, as far as the schema allows old and new values to be matched.
pub(super) fn unchanged(at: At<'_>, old: &Value, new: &Value, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    match (old, new) {
        (Value::Array(old_list), Value::Array(list)) => {
            if old_list.len() != list.len() {
                return false;
            }
            if !matches!(at.node().list, Some(ListType::Map(_))) {
                return old_list == list;
            }
            let Some(items) = at.items() else { return false };
            list.iter()
                .all(|item| matching(at, old, item).is_some_and(|old| unchanged(items, old, item, depth + 1)))
        }
        (Value::Object(old), Value::Object(new)) => {
            old.len() == new.len()
                && new.iter().all(|(key, new)| match (at.declared(key), old.get(key)) {
                    (Some(child), Some(old)) => unchanged(child, old, new, depth + 1),
                    _ => false,
                })
        }
        _ => old == new,
    }
}
