//! Who owns an existing object, from the viewpoint of a binding.
//!
//! Source: decisions on ownership in `docs/decisions`.

use lockstep_engine::object::{ResourceVersion, Uid, label};
use serde_json::Value;

use super::model::{Binding, Resource};
use super::names;

/// The owner of an existing object, from the viewpoint of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ownership {
    /// The binding owns it.
    Owned {
        /// Its uid.
        uid: Uid,
        /// Its resource version.
        version: ResourceVersion,
    },
    /// It existed before the binding adopted it, and has no owner: the binding may change it, but not delete it.
    Adopted {
        /// Its uid.
        uid: Uid,
        /// Its resource version.
        version: ResourceVersion,
    },
    /// It has no controller: it can be adopted.
    Adoptable {
        /// Its uid.
        uid: Uid,
        /// Its resource version.
        version: ResourceVersion,
        /// Whether it existed before any binding applied it.
        existed: bool,
    },
    /// It is being deleted.
    Terminating,
    /// Another controller or another binding owns it.
    OwnedByOther,
}

/// An existing object that has been read.
#[derive(Debug, Clone)]
pub struct Found {
    /// The ownership of the object, from the viewpoint of the binding.
    pub ownership: Ownership,
    /// Its owner, as text for messages.
    pub owner: String,
    /// The class that its label names.
    pub class: Option<String>,
    /// Its metadata.
    pub resource: Resource,
}

impl Found {
    /// Judges an object that was read, with its metadata, from the viewpoint of the binding of a namespace.
    pub fn new(namespace: &str, binding: &Binding, object: &Value, resource: Resource) -> Self {
        let owner = owner_title(object);
        let ownership = match ownership(&resource, binding) {
            // Left over from a deleted binding of this namespace: the garbage collector will remove it.
            Ownership::OwnedByOther if owner == format!("{} {namespace}", names::binding().kind) => {
                Ownership::Terminating
            }
            ownership => ownership,
        };
        let class = label(object, names::CLASS_LABEL).map(str::to_owned);
        Self { ownership, owner, class, resource }
    }
}

/// Returns the ownership of an existing object.
pub fn ownership(resource: &Resource, binding: &Binding) -> Ownership {
    let (uid, version) = (resource.uid.clone(), resource.version);
    match &resource.controller {
        Some(controller) if *controller != binding.uid => Ownership::OwnedByOther,
        None if resource.bindings.iter().any(|other| *other != binding.uid) => Ownership::OwnedByOther,
        _ if resource.deleting => Ownership::Terminating,
        None if resource.bindings.is_empty() && resource.is_adopted_by(binding) => {
            Ownership::Adopted { uid, version }
        }
        None if resource.bindings.is_empty() => {
            Ownership::Adoptable { uid, version, existed: !resource.is_created() }
        }
        _ => Ownership::Owned { uid, version },
    }
}

/// Returns the owner of an object, as text for messages.
fn owner_title(object: &Value) -> String {
    let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    let owner = owners.iter().find(|owner| owner["controller"] == true).or(owners.first());
    owner.map_or_else(
        || "no owner".to_owned(),
        |owner| {
            let text = |field: &str| owner[field].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("kind"), text("name"))
        },
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::{ADOPTED_ANNOTATION, CONTENT_ANNOTATION};

    const OURS: &str = "our binding";

    fn judged(annotations: &Value, owners: &Value, is_applied: bool) -> Ownership {
        let metadata = json!({ "uid": "1", "resourceVersion": "5", "annotations": annotations, "ownerReferences": owners });
        let fields = is_applied.then(|| "{}".into());
        let resource = Resource::read(&json!({ "metadata": metadata }), fields);
        ownership(&resource, &Binding::read(&json!({ "metadata": { "uid": OURS } })))
    }

    fn owner(uid: &str, is_controller: bool) -> Value {
        let binding = names::binding();
        json!({ "apiVersion": binding.api_version(), "kind": binding.kind, "uid": uid, "controller": is_controller })
    }

    #[test]
    fn one_of_several_owners_decides() {
        let other =
            || json!([{ "apiVersion": "v1", "kind": "ConfigMap", "uid": "a" }, owner("other", false)]);
        assert_eq!(judged(&json!({}), &other(), true), Ownership::OwnedByOther);
        assert_eq!(
            judged(&json!({}), &json!([owner(OURS, false), owner("other", true)]), true),
            Ownership::OwnedByOther
        );
        let (uid, version) = ("1".into(), 5.into());
        let shared = json!([owner("other", false), owner(OURS, true)]);
        assert_eq!(judged(&json!({}), &shared, true), Ownership::Owned { uid, version });
    }

    #[test]
    fn an_object_that_we_created_has_not_existed_before() {
        let existed =
            |annotations: &Value, is_applied: bool| match judged(annotations, &json!([]), is_applied) {
                Ownership::Adoptable { existed, .. } => existed,
                other => panic!("{other:?}"),
            };
        assert!(!existed(&json!({ CONTENT_ANNOTATION: "a" }), true));
        assert!(existed(&json!({ CONTENT_ANNOTATION: "a" }), false), "a copy has the annotation too");
        assert!(existed(&json!({}), true));
        assert!(existed(&json!({ CONTENT_ANNOTATION: "a", ADOPTED_ANNOTATION: "another binding" }), true));
    }

    #[test]
    fn the_controller_is_named_before_other_owners() {
        let owned = |owners: Value| owner_title(&json!({ "metadata": { "ownerReferences": owners } }));
        let of = |kind: &str, is_controller: bool| json!({ "kind": kind, "name": "a", "controller": is_controller });
        assert_eq!(owned(json!([of("ConfigMap", false), of("Deployment", true)])), "Deployment a");
        assert_eq!(owned(json!([of("ConfigMap", false), of("Deployment", false)])), "ConfigMap a");
        assert_eq!(owned(json!([])), "no owner");
    }
}
