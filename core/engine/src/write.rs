//! Writes that bring an object to its desired state, and do not change the objects of other owners.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::action::{Action, KubeRequest};
use crate::object::{ObjectRef, ResourceVersion, Uid};

/// Creates an object, or applies it to the existing one with the seen uid. A missing object is created and not applied,
/// because an apply would adopt another client's object that was created in between.
pub fn create_or_apply(target: ObjectRef, mut manifest: Value, seen_uid: Option<&Uid>) -> Action {
    match seen_uid {
        Some(uid) => {
            manifest["metadata"]["uid"] = json!(uid);
            Action::Kube(KubeRequest::Apply { target, manifest: Arc::new(manifest) })
        }
        None => Action::Kube(KubeRequest::Create { target, manifest: Arc::new(manifest) }),
    }
}

/// Deletes this version of an object: not one that another client has created or changed since.
pub fn delete(target: ObjectRef, seen: &Value) -> Action {
    let resource_version = Some(ResourceVersion::of(seen));
    Action::Kube(KubeRequest::Delete { target, uid: Uid::of(seen), resource_version })
}

/// Returns whether a value has all wanted fields. Further fields of objects are ignored; lists must be equal item by item.
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

/// Returns the merge patch (RFC 7386) that changes one value to another; `None` if they are equal. It can't write a null.
pub fn merge_patch(from: &Value, to: &Value) -> Option<Value> {
    match (from, to) {
        (Value::Object(from), Value::Object(to)) => {
            let gone = from.keys().filter(|field| !to.contains_key(*field));
            let gone = gone.map(|field| (field.clone(), Value::Null));
            let changed = to.iter().filter_map(|(field, to)| {
                let patch = merge_patch(from.get(field).unwrap_or(&Value::Null), to)?;
                Some((field.clone(), patch))
            });
            let patch: Map<String, Value> = gone.chain(changed).collect();
            (!patch.is_empty() || from.len() != to.len()).then(|| patch.into())
        }
        (from, to) => (from != to).then(|| to.clone()),
    }
}

/// Returns the result of a merge patch (RFC 7386) on a value.
pub fn merged(target: &Value, patch: &Value) -> Value {
    let Some(fields) = patch.as_object() else { return patch.clone() };
    let mut target = target.as_object().cloned().unwrap_or_default();
    for (field, patch) in fields {
        if patch.is_null() {
            target.remove(field);
        } else {
            let before = target.get(field).cloned().unwrap_or_default();
            target.insert(field.clone(), merged(&before, patch));
        }
    }
    target.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::object::Kind;

    #[test]
    fn what_was_seen_is_applied_and_nothing_else_is() {
        let target = ObjectRef::namespaced(&Kind::known("", "v1", "Secret", "secrets", true), "a", "b");
        let manifest = json!({ "metadata": { "name": "b" } });
        let created = create_or_apply(target.clone(), manifest.clone(), None);
        let expected = Action::Kube(KubeRequest::Create {
            target: target.clone(),
            manifest: Arc::new(manifest.clone()),
        });
        assert_eq!(created, expected);
        let applied = create_or_apply(target.clone(), manifest, Some(&"u-1".into()));
        let manifest = Arc::new(json!({ "metadata": { "name": "b", "uid": "u-1" } }));
        assert_eq!(applied, Action::Kube(KubeRequest::Apply { target, manifest }));
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

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(4, 16, 3, |inner| {
            let fields = proptest::collection::btree_map("[a-c]", inner.clone(), 0..3);
            prop_oneof![
                proptest::collection::vec(inner, 0..3).prop_map(Value::from),
                fields.prop_map(|fields| fields.into_iter().collect::<Value>()),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_merge_patch_leads_from_one_to_the_other(from in value(), to in value()) {
            match merge_patch(&from, &to) {
                None => prop_assert_eq!(from, to),
                Some(patch) => prop_assert_eq!(merged(&from, &patch), to),
            }
        }
    }
}
