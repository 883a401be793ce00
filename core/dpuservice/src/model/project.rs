//! The AppProject of Argo CD, and the servers that it permits.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockstep_engine::cache::Cached;
use lockstep_engine::object::{Name, ResourceVersion, Uid, is_deleting, label};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::names::{ARGO_NAMESPACE, MANAGED_BY, MANAGER, PROJECT};

/// Returns the AppProject's name.
pub fn name() -> Name {
    Name::new(ARGO_NAMESPACE, PROJECT)
}

/// The AppProject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Its uid.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it is ours.
    pub is_ours: bool,
    /// Its finalizers.
    pub finalizers: Vec<String>,
    /// Its spec.
    pub spec: Arc<Value>,
    /// The servers that it permits.
    pub servers: BTreeSet<String>,
    version: ResourceVersion,
}

impl Project {
    /// Parses a project.
    pub fn read(object: &Value) -> Self {
        let finalizers = object["metadata"]["finalizers"].clone();
        Self {
            uid: Uid::of(object),
            deleting: is_deleting(object),
            is_ours: label(object, MANAGED_BY) == Some(MANAGER),
            finalizers: serde_json::from_value(finalizers).unwrap_or_default(),
            servers: servers_of(&object["spec"]),
            spec: Arc::new(object["spec"].clone()),
            version: ResourceVersion::of(object),
        }
    }

    /// Returns whether both have the same relevant fields.
    pub fn is_same(&self, other: &Self) -> bool {
        *self == Self { version: self.version, ..other.clone() }
    }
}

impl Cached for Project {
    type Index = ();

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<()> {
        Vec::new()
    }
}

/// Returns the servers that a project's spec permits.
pub fn servers_of(spec: &Value) -> BTreeSet<String> {
    let destinations = spec["destinations"].as_array().into_iter().flatten();
    destinations.filter_map(|destination| Some(literal(destination["server"].as_str()?))).collect()
}

/// Characters that are special in Argo CD's patterns, such as the brackets around an IPv6 address.
const PATTERN: [char; 8] = ['*', '?', '[', ']', '{', '}', '\\', '!'];

/// Returns the pattern that matches exactly this text.
pub fn pattern(text: &str) -> String {
    let escaped =
        text.chars().flat_map(|letter| PATTERN.contains(&letter).then_some('\\').into_iter().chain([letter]));
    escaped.collect()
}

/// Returns the text that a pattern matches, if it matches exactly one.
fn literal(pattern: &str) -> String {
    let mut letters = pattern.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        text.push(if letter == '\\' { letters.next().unwrap_or(letter) } else { letter });
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_version_of_the_same_project_is_no_change() {
        let project = |version: &str, server: &str| {
            let metadata =
                json!({ "uid": "a", "resourceVersion": version, "labels": { MANAGED_BY: MANAGER } });
            Project::read(
                &json!({ "metadata": metadata, "spec": { "destinations": [{ "server": server, "namespace": "*" }] } }),
            )
        };
        assert!(project("1", "https://a").is_same(&project("2", "https://a")));
        assert!(!project("1", "https://a").is_same(&project("1", "https://b")));
    }
}
