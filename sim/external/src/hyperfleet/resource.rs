//! Clusters and node pools, and their JSON in each dialect.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::dialect::API;

/// The phase of a resource after its adapters have completed their work.
pub(super) const READY: &str = "Ready";
/// The condition about whether all adapters have completed their work for this generation.
pub(super) const RECONCILED: &str = "Reconciled";

/// The kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// A cluster.
    Cluster,
    /// A node pool, which belongs to a cluster.
    NodePool,
}

impl Kind {
    /// Returns the kind's name in paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Cluster => "clusters",
            Self::NodePool => "nodepools",
        }
    }

    pub(super) fn from_plural(plural: &str) -> Option<Self> {
        [Self::Cluster, Self::NodePool].into_iter().find(|kind| kind.plural() == plural)
    }
}

/// The labels of a resource.
pub type Labels = BTreeMap<String, String>;

/// A cluster or a node pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// Its kind.
    pub kind: Kind,
    /// A UUID v7, unless it was inserted with another id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The id of the cluster to which a node pool belongs.
    pub owner: Option<String>,
    /// Counts the versions of its specification.
    pub generation: i64,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its specification.
    pub spec: Arc<Value>,
    /// When it was created.
    pub created: Timestamp,
    /// When it was last changed, without reports.
    pub updated: Timestamp,
    /// When its deletion was requested.
    pub deleted: Option<Timestamp>,
    /// The state that adapters have reported.
    pub status: Status,
    /// Its JSON, once it was listed.
    pub(super) written: Written,
}

/// The JSON of a resource, which is listed far more often than it changes. A clone is about to change, so it has none.
#[derive(Debug, Default)]
pub(super) struct Written(OnceLock<Box<RawValue>>);

impl Clone for Written {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The state of a resource, in the form of its dialect.
#[derive(Debug, Clone, PartialEq)]
pub enum Status {
    /// The documented form.
    Phase {
        /// Such as `Ready`.
        phase: String,
        /// The time of the last report.
        last_transition: Timestamp,
    },
    /// The released form.
    Conditions(Vec<Condition>),
}

/// One condition of the released form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Condition {
    /// Its type.
    pub r#type: Cow<'static, str>,
    /// Its status.
    pub status: State,
    /// The reason, in one word.
    pub reason: Cow<'static, str>,
    /// The generation to which it refers.
    pub observed_generation: i64,
    /// When it first appeared.
    pub created_time: Timestamp,
    /// When it was last reported.
    pub last_updated_time: Timestamp,
    /// When its status last changed.
    pub last_transition_time: Timestamp,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum State {
    /// The condition is true.
    True,
    /// The condition is false.
    False,
    /// The state is unknown; only adapters report this.
    Unknown,
}

impl State {
    /// Returns its name in JSON and in searches.
    pub const fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl Resource {
    /// Returns its JSON.
    pub(super) fn written(&self) -> &RawValue {
        self.written.0.get_or_init(|| to_raw_value(self).expect("maps have string keys only"))
    }

    /// Returns the path of the resource.
    pub fn href(&self) -> String {
        match &self.owner {
            Some(owner) => format!("{API}/clusters/{owner}/nodepools/{}", self.id),
            None => format!("{API}/{}/{}", self.kind.plural(), self.id),
        }
    }

    /// Returns its conditions, if the dialect has them.
    pub fn conditions(&self) -> &[Condition] {
        match &self.status {
            Status::Conditions(conditions) => conditions,
            Status::Phase { .. } => &[],
        }
    }

    /// Returns one condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions().iter().find(|condition| condition.r#type == kind)
    }

    /// Returns whether its adapters have completed their work.
    pub fn is_ready(&self) -> bool {
        match &self.status {
            Status::Phase { phase, .. } => phase == READY,
            Status::Conditions(_) => {
                self.condition(RECONCILED).is_some_and(|condition| condition.status == State::True)
            }
        }
    }

    /// Returns when its status was last reported, as the API returns it.
    pub fn last_report(&self) -> Option<Timestamp> {
        match &self.status {
            Status::Phase { last_transition, .. } => Some(*last_transition),
            Status::Conditions(_) => self.condition(RECONCILED).map(|condition| condition.last_updated_time),
        }
    }
}

/// The JSON of its dialect, which follows from its status.
impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("id", &self.id)?;
        if let Status::Phase { phase, last_transition } = &self.status {
            map.serialize_entry("href", &self.href())?;
            map.serialize_entry("generation", &self.generation)?;
            map.serialize_entry("labels", &self.labels)?;
            if let Some(owner) = &self.owner {
                map.serialize_entry("owner_references", &Owner(owner))?;
            }
            // The documentation shows no specification.
            if self.spec.as_object().is_none_or(|spec| !spec.is_empty()) {
                map.serialize_entry("spec", &self.spec)?;
            }
            map.serialize_entry("status", &Phase { phase, last_transition_time: last_transition })?;
            return map.end();
        }
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("href", &self.href())?;
        map.serialize_entry("generation", &self.generation)?;
        map.serialize_entry("labels", &self.labels)?;
        if let Some(owner) = &self.owner {
            map.serialize_entry("owner_references", &Owner(owner))?;
        }
        map.serialize_entry("spec", &self.spec)?;
        map.serialize_entry("created_time", &self.created)?;
        map.serialize_entry("updated_time", &self.updated)?;
        if let Some(deleted) = &self.deleted {
            map.serialize_entry("deleted_time", deleted)?;
        }
        map.serialize_entry("created_by", USER)?;
        map.serialize_entry("updated_by", USER)?;
        map.serialize_entry("status", &Conditions { conditions: self.conditions() })?;
        map.end()
    }
}

/// The user who creates and changes everything here.
pub(super) const USER: &str = "ops@example.com";

#[derive(Serialize)]
struct Phase<'a> {
    phase: &'a str,
    #[serde(rename = "lastTransitionTime")]
    last_transition_time: &'a Timestamp,
}

#[derive(Serialize)]
struct Conditions<'a> {
    conditions: &'a [Condition],
}

/// The reference of a node pool to its cluster.
struct Owner<'a>(&'a str);

impl Serialize for Owner<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("kind", &Kind::Cluster)?;
        map.serialize_entry("id", self.0)?;
        map.serialize_entry("href", &format_args!("{API}/clusters/{}", self.0))?;
        map.end()
    }
}
