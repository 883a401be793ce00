//! Access to the keywords of a schema as its author wrote it.

use serde_json::{Map, Value};

use crate::schema::node::DEPTH_MAX;

pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

pub(super) fn flag(schema: &Map<String, Value>, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn text<'v>(schema: &'v Map<String, Value>, key: &str) -> &'v str {
    schema.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the schemas under the names of a map.
pub(super) fn entries<'v>(
    schema: &'v Map<String, Value>,
    key: &str,
) -> impl Iterator<Item = (&'v String, &'v Map<String, Value>)> {
    let map = schema.get(key).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|(name, value)| Some((name, value.as_object()?)))
}

/// Returns whether the server can convert a schema, so that it has a structure: none of its keywords is unsupported.
pub(super) fn is_convertible(schema: &Value, depth: usize) -> bool {
    const UNSUPPORTED: [&str; 6] =
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
    const SINGLE: [&str; 3] = ["items", "not", "additionalProperties"];
    let Some(map) = schema.as_object().filter(|_| depth <= DEPTH_MAX) else { return true };
    let is_set = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
    if UNSUPPORTED.iter().any(|key| is_set(key))
        || map.get("items").is_some_and(Value::is_array)
        || map.get(PRESERVE) == Some(&Value::Bool(false))
    {
        return false;
    }
    let single = SINGLE.iter().filter_map(|key| map.get(*key));
    let listed = ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| map.get(*key)?.as_array()).flatten();
    let named = map.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values);
    single.chain(listed).chain(named).all(|below| is_convertible(below, depth + 1))
}
