//! The resources of the HyperFleet API: the fields that the Sentinel needs, in both dialects of the API.
//!
//! Source: HyperFleet Sentinel, "Resource Watcher". The dialect `search` is that of the released API (0.3).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The maximum length of the name of a kind of resources.
const NAME_MAX: usize = 63;

/// The dialect of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dialect {
    /// A `labels` parameter; `status.phase` and `status.lastTransitionTime`.
    Labels,
    /// A `search` parameter; `status.conditions`.
    Search,
}

/// The kind of watched resources: its plural, as configurations, paths and metrics name it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceType(String);

impl ResourceType {
    /// Parses a plural: lowercase letters, digits and hyphens, with no hyphen at either end. The chart uses it as a label.
    pub fn read(plural: &str) -> Option<Self> {
        let is_plural = plural.len() <= NAME_MAX
            && plural.starts_with(|c: char| c.is_ascii_lowercase())
            && !plural.ends_with('-')
            && plural.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        is_plural.then(|| Self(plural.to_owned()))
    }

    /// Returns the plural.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the kind of a resource that does not name its own.
    pub fn kind(&self) -> &str {
        match self.name() {
            "clusters" => "Cluster",
            "nodepools" => "NodePool",
            other => other,
        }
    }

    /// Returns the kind as types of events name it: the kind that a resource names, in lowercase letters.
    pub fn singular(&self, kind: &str) -> String {
        let is_plain = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        match self.name() {
            "clusters" | "nodepools" => self.kind().to_ascii_lowercase(),
            other if !is_plain => other.to_owned(),
            _ => kind.to_ascii_lowercase(),
        }
    }
}

/// One resource, with the fields that the Sentinel needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resource {
    /// Its id.
    pub id: String,
    /// Its kind, if the API returns it.
    pub kind: Option<String>,
    /// Its path in the API.
    pub href: Option<String>,
    /// Its generation.
    pub generation: Option<i64>,
    /// Whether its labels match the selector. If the API does not return labels, it has filtered by them.
    pub is_selected: bool,
    /// Its owner.
    pub owner_references: Option<Owner>,
    /// Whether it is Ready.
    pub is_ready: bool,
    /// When adapters last reported on it, or when it was created if they never did.
    pub since: Option<Timestamp>,
    /// The kept fields as JSON, if expressions read them and they are not too large.
    pub document: Option<Box<str>>,
}

impl Resource {
    /// Returns the hash of its id.
    pub(super) fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.id.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the size of all its fields that events contain.
    pub(super) fn kept(&self) -> usize {
        let owner = self.owner_references.iter().flat_map(|owner| [&owner.id, &owner.kind, &owner.href]);
        let texts = [&self.kind, &self.href].into_iter().chain(owner).flatten();
        self.id.len() + texts.map(String::len).sum::<usize>()
    }
}

/// The owner of a resource, with the fields that consumers read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(expecting = "an owner")]
pub struct Owner {
    /// Its id.
    pub id: Option<String>,
    /// Its kind.
    pub kind: Option<String>,
    /// Its path in the API.
    pub href: Option<String>,
}
