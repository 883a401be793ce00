//! Random changes of one value somewhere in an object. Most of them make the object invalid.

use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::{Index, select};
use serde_json::{Value, json};

/// What happens to the value.
#[derive(Debug, Clone)]
pub(super) enum Mutation {
    Remove,
    Replace(Value),
    /// An unknown field is added to the object that holds it.
    AddUnknown,
}

/// Returns a mutation and its place; only an unknown field, if nothing else can be compared.
pub(super) fn mutation(only_unknown: bool) -> BoxedStrategy<(Index, Mutation)> {
    let kinds = if only_unknown {
        Just(Mutation::AddUnknown).boxed()
    } else {
        prop_oneof![
            2 => Just(Mutation::Remove),
            6 => select(values()).prop_map(Mutation::Replace),
            1 => Just(Mutation::AddUnknown),
        ]
        .boxed()
    };
    (any::<Index>(), kinds).boxed()
}

/// Returns values of each type, among them the bounds of common checks.
pub(super) fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(3),
        json!(1.5),
        json!(2_147_483_648_u32),
        json!(""),
        json!("x"),
        json!("X_y"),
        json!("5%"),
        json!("a".repeat(64)),
        json!([]),
        json!(["x", "x"]),
        json!({}),
        json!({"x": "1"}),
    ]
}

/// Applies a mutation to an object.
pub(super) fn mutate(object: &mut Value, (index, mutation): (Index, Mutation)) {
    let places = pointers(object);
    if places.is_empty() {
        return;
    }
    let place = &places[index.index(places.len())];
    match mutation {
        Mutation::Replace(value) => {
            if let Some(found) = object.pointer_mut(place) {
                *found = value;
            }
        }
        Mutation::Remove => remove(object, place),
        Mutation::AddUnknown => {
            if let Some(Value::Object(fields)) = object.pointer_mut(parent(place)) {
                fields.insert("junk".to_owned(), 1.into());
            }
        }
    }
}

fn parent(pointer: &str) -> &str {
    pointer.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn remove(object: &mut Value, pointer: &str) {
    let key = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    match object.pointer_mut(parent(pointer)) {
        Some(Value::Object(fields)) => {
            fields.remove(&key);
        }
        Some(Value::Array(items)) => {
            if let Ok(index) = key.parse::<usize>() {
                items.remove(index);
            }
        }
        _ => {}
    }
}

/// Returns the JSON pointers of all values below the root, without the metadata.
pub(super) fn pointers(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(object, "", &mut found);
    found.retain(|pointer| !pointer.starts_with("/metadata"));
    found
}

fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    let mut visit = |key: &str, value: &Value| {
        let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        found.push(pointer.clone());
        collect(value, &pointer, found);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| visit(key, value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| visit(&index.to_string(), value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
