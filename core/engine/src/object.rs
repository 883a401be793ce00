//! Names of kinds and objects, and the metadata that every object has.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

/// One served resource: the data that a path to its objects needs. Kinds are in the order of their fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// The kind, such as `ConfigMap`.
    pub kind: String,
    /// The name in paths, such as `configmaps`.
    pub plural: String,
    /// Whether its objects are in a namespace.
    pub namespaced: bool,
}

impl Ord for Kind {
    fn cmp(&self, other: &Self) -> Ordering {
        // Most references in a map share their kind: its names need no comparison.
        if std::ptr::eq(self, other) {
            return Ordering::Equal;
        }
        self.fields().cmp(&other.fields())
    }
}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Kind {
    /// Returns a kind that is known at compile time.
    pub fn known(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Arc<Self> {
        Arc::new(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced,
        })
    }

    fn fields(&self) -> (&str, &str, &str, &str, bool) {
        (&self.group, &self.version, &self.kind, &self.plural, self.namespaced)
    }

    /// Returns group and version as objects write them: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{}", self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

/// The full name of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Its namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl ObjectRef {
    /// Returns the reference of an object in a namespace.
    pub fn namespaced(kind: &Arc<Kind>, namespace: &str, name: &str) -> Self {
        Self { kind: Arc::clone(kind), namespace: Some(namespace.to_owned()), name: name.to_owned() }
    }

    /// Returns the reference of a cluster-scoped object.
    pub fn cluster(kind: &Arc<Kind>, name: &str) -> Self {
        Self { kind: Arc::clone(kind), namespace: None, name: name.to_owned() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {}/{}", self.kind, namespace, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

/// An object's namespace (empty for cluster-scoped kinds) and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name in it.
    pub name: String,
}

impl Name {
    /// Combines a namespace and a name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the name of an object.
    pub fn of(object: &Value) -> Self {
        Self::new(metadata(object, "namespace"), metadata(object, "name"))
    }

    /// Returns the reference of the object of that name and kind.
    pub fn object(&self, kind: &Arc<Kind>) -> ObjectRef {
        let namespace = Some(self.namespace.clone()).filter(|namespace| !namespace.is_empty());
        ObjectRef { kind: Arc::clone(kind), namespace, name: self.name.clone() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}", self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The uid of an object. An object that is created again under the same name has another one.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(String);

impl Uid {
    /// Returns the uid of an object; empty if it has none.
    pub fn of(object: &Value) -> Self {
        metadata(object, "uid").into()
    }

    /// Returns the text that the server uses.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The resource version of an object. Those of one kind can be compared: the API server increases it with each change. The
/// default, zero, stands for none, and for a text that is no number, as some aggregated API servers have it (`1234/`): such
/// texts can't be compared, so the object that a watch showed last counts, and writes have no precondition but the uid. It is
/// stored as the text that the API has.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ResourceVersion(u64);

impl ResourceVersion {
    /// Returns the resource version of an object; none if it has none, or one that can't be compared.
    pub fn of(object: &Value) -> Self {
        Self(metadata(object, "resourceVersion").parse().unwrap_or_default())
    }

    /// Returns whether it stands for none.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl TryFrom<String> for ResourceVersion {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl Serialize for ResourceVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl From<u64> for ResourceVersion {
    fn from(version: u64) -> Self {
        Self(version)
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns a metadata field that is a string; empty if the object lacks it or has another type there.
pub fn metadata<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns a label's value.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key)?.as_str()
}

/// Returns an annotation's value.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(key)?.as_str()
}

/// Returns a non-empty text field, by its JSON pointer.
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str().filter(|text| !text.is_empty())
}

/// Parses a field of an object, such as `spec`. An error names the wrong field by its path.
pub fn read<T: DeserializeOwned>(object: &Value, field: &str) -> Result<T, String> {
    // Only an error needs its path, which takes longer to keep than the value to parse.
    T::deserialize(&object[field]).or_else(|_| serde_path_to_error::deserialize(&object[field])).map_err(
        |error| {
            let path = error.path().to_string();
            let place = if path == "." { field.to_owned() } else { format!("{field}.{path}") };
            format!("{place}: {}", error.into_inner())
        },
    )
}

/// Returns whether the object is being deleted (its deletion timestamp is set).
pub fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Returns the generation, which increases with each change except changes of the status only; zero if there is none.
pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or(0)
}

/// Returns the metadata of a patch that applies only to this version of an object.
pub fn precondition(object: &Value) -> Value {
    json!({ "uid": metadata(object, "uid"), "resourceVersion": metadata(object, "resourceVersion") })
}

/// Returns the reference by which an object owns another as its controller. The garbage collector deletes objects without an
/// owner; an owner that is deleted in the foreground waits for it.
pub fn controller_reference(kind: &Kind, name: &str, uid: &Uid) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": name,
        "uid": uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// Returns the uid of the owner that is marked as controller.
pub fn controller_uid(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == true)?["uid"].as_str()
}

/// Returns whether the owner with this uid is marked as controller.
pub fn is_controlled_by(object: &Value, owner: &Uid) -> bool {
    controller_uid(object) == Some(owner.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_kinds_need_not_be_the_same() {
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        let copy = Kind::known("apps", "v1", "Deployment", "deployments", true);
        let later = Kind::known("apps", "v1", "Deployment", "deployments", false);
        assert_eq!(kind.cmp(&kind), Ordering::Equal);
        assert_eq!(kind.cmp(&copy), Ordering::Equal);
        assert_eq!((kind.cmp(&later), later.cmp(&kind)), (Ordering::Greater, Ordering::Less));
    }
}
