//! Writes that bring an object to what it should be, and leave the objects of others alone.

use std::sync::Arc;

use serde_json::{Value, json};

use super::action::Action;
use crate::object::{ObjectRef, metadata};

/// Creates an object, or applies it to the one that was seen. What is not there is created and not applied, because an
/// apply would take over an object of somebody else that has come in between.
pub fn create_or_apply(target: ObjectRef, mut manifest: Value, seen: Option<&Value>) -> Action {
    match seen {
        Some(seen) => {
            manifest["metadata"]["uid"] = json!(metadata(seen, "uid"));
            Action::Apply { target, manifest: Arc::new(manifest) }
        }
        None => Action::Create { target, manifest: Arc::new(manifest) },
    }
}

/// Whether a value has all that is wanted of it. Further fields of objects are none of our business; lists have to agree
/// item by item.
pub fn covers(existing: &Value, wanted: &Value) -> bool {
    match (existing, wanted) {
        (Value::Object(existing), Value::Object(wanted)) => wanted
            .iter()
            .all(|(field, wanted)| existing.get(field).is_some_and(|existing| covers(existing, wanted))),
        (Value::Array(existing), Value::Array(wanted)) => {
            existing.len() == wanted.len()
                && existing.iter().zip(wanted).all(|(existing, wanted)| covers(existing, wanted))
        }
        (existing, wanted) => existing == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;

    #[test]
    fn what_was_seen_is_applied_and_nothing_else_is() {
        let target = ObjectRef::namespaced(&Kind::known("", "v1", "Secret", "secrets", true), "a", "b");
        let manifest = json!({ "metadata": { "name": "b" } });
        let created = create_or_apply(target.clone(), manifest.clone(), None);
        let expected = Action::Create { target: target.clone(), manifest: Arc::new(manifest.clone()) };
        assert_eq!(created, expected);
        let applied =
            create_or_apply(target.clone(), manifest, Some(&json!({ "metadata": { "uid": "u-1" } })));
        let manifest = Arc::new(json!({ "metadata": { "name": "b", "uid": "u-1" } }));
        assert_eq!(applied, Action::Apply { target, manifest });
    }

    #[test]
    fn what_others_have_added_does_not_count() {
        let existing = json!({ "a": 1, "b": { "c": [{ "d": 2, "e": 3 }], "f": null }, "g": 4 });
        for covered in [json!({}), json!({ "a": 1 }), json!({ "b": { "c": [{ "d": 2 }], "f": null } })] {
            assert!(covers(&existing, &covered), "{covered}");
        }
        let missing = [
            json!({ "a": "1" }),
            json!({ "z": null }),
            json!({ "b": { "c": [] } }),
            json!({ "b": { "c": [{ "d": 3 }] } }),
            json!({ "b": { "c": [{ "d": 2 }, { "d": 2 }] } }),
            json!({ "a": { "b": 1 } }),
        ];
        for missing in missing {
            assert!(!covers(&existing, &missing), "{missing}");
        }
    }
}
