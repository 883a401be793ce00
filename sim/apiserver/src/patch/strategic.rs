//! Strategic merge patch: a merge patch that merges some lists by key.

use serde_json::{Map, Value, json};

use super::error::PatchError;
use super::order;
use crate::cause::text;
use crate::schema::Schema;
use crate::schema::node::{At, DEPTH_MAX, Kind, PatchMeta};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// A field's type, and how patches handle it.
struct Lookup<'a> {
    at: Option<At<'a>>,
    meta: PatchMeta,
}

/// Merges a patch into an object of a built-in kind.
pub(super) fn apply(schema: &Schema, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !schema.is_built_in() {
        return Err(PatchError::BadRequest("strategic merge patch format is not supported".to_owned()));
    }
    let (Value::Object(current), Value::Object(patch)) = (current.clone(), patch.clone()) else {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    };
    maps(Some(schema.root()), current, patch, 0).map(Value::Object)
}

fn maps(
    at: Option<At<'_>>,
    mut current: Map<String, Value>,
    mut patch: Map<String, Value>,
    depth: usize,
) -> Result<Map<String, Value>, PatchError> {
    if depth > DEPTH_MAX {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    }
    if let Some(directive) = patch.get(DIRECTIVE).cloned() {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_directive(&directive, &patch)),
        };
    }
    retain_keys(&mut current, &mut patch)?;
    ordered_lists(at, &mut current, &mut patch, depth)?;
    for (key, value) in patch {
        let (key, deletes) = match key.strip_prefix(DELETE_PRIMITIVES) {
            Some(rest) => (strip_slash(rest, "invalid patch format of primitive list")?, true),
            None => (key, false),
        };
        field(at, &mut current, key, value, deletes, depth)?;
    }
    Ok(current)
}

/// Merges one field of a map.
fn field(
    at: Option<At<'_>>,
    current: &mut Map<String, Value>,
    key: String,
    value: Value,
    deletes: bool,
    depth: usize,
) -> Result<(), PatchError> {
    if value.is_null() {
        current.remove(&key);
        return Ok(());
    }
    let old = current.get_mut(&key).map(Value::take);
    let merged = match (old, value) {
        (Some(Value::Object(old)), Value::Object(value)) => {
            let lookup = lookup(at, &key, false)?;
            if lookup.meta.replace {
                Some(Value::Object(value))
            } else {
                Some(Value::Object(maps(lookup.at, old, value, depth + 1)?))
            }
        }
        (Some(Value::Array(old)), Value::Array(value)) => {
            let lookup = lookup(at, &key, true)?;
            Some(Value::Array(list_field(&lookup, old, value, deletes, depth)?))
        }
        (None, _) if deletes => None,
        (Some(old), value) if deletes && !same_type(&old, &value) => Some(old),
        (_, mut value) => {
            discard_nulls(&mut value);
            without_directives(value)
        }
    };
    match merged {
        Some(merged) => current.insert(key, merged),
        None => current.remove(&key),
    };
    Ok(())
}

fn same_type(left: &Value, right: &Value) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// Applies `$retainKeys`: removes the keys that the list does not contain.
fn retain_keys(current: &mut Map<String, Value>, patch: &mut Map<String, Value>) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let malformed = || PatchError::BadRequest("invalid patch format of retainKeys".to_owned());
    let retained = retained.as_array().ok_or_else(malformed)?;
    let names = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    for (key, value) in patch.iter() {
        let is_parallel = key.starts_with(DELETE_PRIMITIVES) || key.starts_with(SET_ORDER);
        if !value.is_null() && !is_parallel && !names(key) {
            return Err(malformed());
        }
    }
    current.retain(|key, _| names(key));
    Ok(())
}

/// Applies `$setElementOrder/<list>`: merges the list and orders it.
fn ordered_lists(
    at: Option<At<'_>>,
    current: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    depth: usize,
) -> Result<(), PatchError> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let Some(wanted) = patch.remove(&directive) else { continue };
        let Value::Array(wanted) = wanted else { return Err(not_a_list(&wanted)) };
        let key = strip_slash(&directive[SET_ORDER.len()..], MALFORMED_ORDER)?;
        let old = take_list(current, &key)?;
        let new = take_list(patch, &key)?;
        let lookup = lookup(at, &key, true)?;
        let merge_key = lookup.meta.merge_key.as_deref();
        check_order(new.as_deref().unwrap_or_default(), &wanted, merge_key)?;
        let server_order = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) => list_field(&lookup, old, new, false, depth)?,
            (None, None) => continue,
        };
        check_keys(merge_key, &merged)?;
        check_keys(merge_key, &wanted)?;
        let (named, rest) = order::partition(merged, &wanted, merge_key);
        current.insert(key, Value::Array(order::weave(named, rest, &wanted, &server_order, merge_key)));
    }
    Ok(())
}

const MALFORMED_ORDER: &str = "invalid patch format of setElementOrder list";

fn take_list(map: &mut Map<String, Value>, key: &str) -> Result<Option<Vec<Value>>, PatchError> {
    match map.remove(key) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(not_a_list(&other)),
    }
}

/// Checks that the items of the patch are in the wanted order, and that the order contains them.
fn check_order(new: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    if new.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut remaining = wanted.iter();
    for item in new.iter().filter(|item| key.is_none() || item.get(DIRECTIVE).is_none()) {
        let same = |other: &Value| match key {
            Some(key) => item.get(key) == other.get(key),
            None => item == other,
        };
        if !remaining.any(same) {
            return Err(PatchError::Internal(format!(
                "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
                text::plain(&Value::Array(new.to_vec())),
                text::plain(&Value::Array(wanted.to_vec()))
            )));
        }
    }
    Ok(())
}

/// Merges the list of a field.
fn list_field(
    lookup: &Lookup<'_>,
    old: Vec<Value>,
    new: Vec<Value>,
    deletes: bool,
    depth: usize,
) -> Result<Vec<Value>, PatchError> {
    if !lookup.meta.merge && !deletes {
        return Ok(new);
    }
    if old.is_empty() && new.is_empty() {
        return Ok(old);
    }
    if !element_type(&old, &new)? {
        if deletes {
            return Ok(old.into_iter().filter(|item| !new.contains(item)).collect());
        }
        let mut merged: Vec<Value> = Vec::with_capacity(old.len() + new.len());
        for item in old.iter().chain(&new) {
            if !merged.contains(item) {
                merged.push(item.clone());
            }
        }
        let (named, rest) = order::partition(merged, &new, None);
        return Ok(order::weave(named, rest, &new, &old, None));
    }
    let key = lookup
        .meta
        .merge_key
        .as_deref()
        .ok_or_else(|| PatchError::Internal("cannot merge lists without merge key for ".to_owned()))?;
    let (old, new) = special_elements(old, new, key)?;
    let merged = by_key(lookup.at, old.clone(), &new, key, depth)?;
    check_keys(Some(key), &merged)?;
    let (named, rest) = order::partition(merged, &new, Some(key));
    Ok(order::weave(named, rest, &new, &old, Some(key)))
}

/// Returns whether both lists contain maps; lists of different types and lists of lists are refused.
fn element_type(old: &[Value], new: &[Value]) -> Result<bool, PatchError> {
    let mut first: Option<&Value> = None;
    for item in old.iter().chain(new) {
        match first {
            None if item.is_array() => {
                return Err(PatchError::Unprocessable("lists of lists are not supported".to_owned()));
            }
            None => first = Some(item),
            Some(first) if text::type_name(first) != text::type_name(item) => {
                return Err(PatchError::Internal(format!(
                    "list element types are not identical: {}",
                    text::plain(&json!([old, new]))
                )));
            }
            Some(_) => {}
        }
    }
    Ok(first.is_some_and(Value::is_object))
}

/// Executes the `$patch` directives inside of a list.
fn special_elements(
    mut old: Vec<Value>,
    new: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut plain = Vec::with_capacity(new.len());
    let mut replaces = false;
    for item in new {
        let Some(directive) = item.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = item.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                old.retain(|other| other.get(key) != Some(wanted));
            }
            Some("replace") => replaces = true,
            Some("merge") => {
                let text = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Internal(text.to_owned()));
            }
            _ => return Err(bad_directive(directive, item.as_object().unwrap_or(&Map::new()))),
        }
    }
    Ok(if replaces { (plain, Vec::new()) } else { (old, plain) })
}

fn by_key(
    items: Option<At<'_>>,
    mut old: Vec<Value>,
    new: &[Value],
    key: &str,
    depth: usize,
) -> Result<Vec<Value>, PatchError> {
    for item in new {
        let wanted = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
        let found = old.iter_mut().find(|other| other.get(key) == Some(wanted));
        match (found, item) {
            (Some(found), Value::Object(item)) => {
                let Value::Object(current) = found.take() else { continue };
                *found = Value::Object(maps(items, current, item.clone(), depth + 1)?);
            }
            _ => old.push(item.clone()),
        }
    }
    Ok(old)
}

fn check_keys(key: Option<&str>, list: &[Value]) -> Result<(), PatchError> {
    let Some(key) = key else { return Ok(()) };
    match list.iter().find(|item| item.get(key).is_none()) {
        Some(item) if item.is_object() => Err(no_merge_key(item, key)),
        Some(item) => Err(PatchError::Internal(format!(
            "expected a map[string]interface {{}}, but received a {}",
            text::type_name(item)
        ))),
        None => Ok(()),
    }
}

/// Looks up a field. For a list, returns the type of its items.
fn lookup<'a>(at: Option<At<'a>>, key: &str, list: bool) -> Result<Lookup<'a>, PatchError> {
    let Some(at) = at else { return Ok(Lookup { at: None, meta: PatchMeta::default() }) };
    match at.child(key) {
        Some(child) => {
            let meta = child.node().patch.clone();
            let below = if list { child.items() } else { Some(child) };
            Ok(Lookup { at: below, meta })
        }
        None if at.node().kind == Kind::Object => Err(PatchError::Internal(format!(
            "unable to find api field in struct for the json field {}",
            text::quote(key)
        ))),
        None => Ok(Lookup { at: None, meta: PatchMeta::default() }),
    }
}

fn strip_slash(rest: &str, malformed: &str) -> Result<String, PatchError> {
    rest.strip_prefix('/').map(str::to_owned).ok_or_else(|| PatchError::BadRequest(malformed.to_owned()))
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// Returns the value without directives inside; none if it is a directive itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

fn no_merge_key(item: &Value, key: &str) -> PatchError {
    PatchError::Internal(format!("map: {} does not contain declared merge key: {key}", text::plain(item)))
}

fn not_a_list(value: &Value) -> PatchError {
    PatchError::Internal(format!("expected a []interface {{}}, but received a {}", text::type_name(value)))
}

fn bad_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    PatchError::Internal(format!(
        "unknown patch type: {} in map: {}",
        text::plain(directive),
        text::plain(&Value::Object(map.clone()))
    ))
}
