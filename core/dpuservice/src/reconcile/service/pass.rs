//! The state of a pass of a service: what the server has confirmed, and the attempted writes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lockstep_engine::action::Failure;
use lockstep_engine::object::Name;
use lockstep_engine::pairs;
use serde::{Deserialize, Serialize};

use crate::store::repairs::Written;

/// The state of a pass.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pass {
    /// Whether the server has confirmed that the service exists.
    pub(super) is_there: bool,
    /// Clusters that are being deleted or gone, confirmed by the server.
    pub(super) gone: BTreeSet<Name>,
    /// Clusters with more than one Application, confirmed by the server.
    pub(super) doubled: BTreeSet<Name>,
    /// The attempted writes, with what distinguishes an apply from others: the desired state may have changed in the meantime.
    #[serde(with = "pairs")]
    pub(super) tried: BTreeMap<Task, String>,
    /// The clusters with an Application that differs although it was applied, in this pass or shortly before.
    #[serde(default)]
    pub(super) contested: BTreeSet<Name>,
    /// When the first of them is applied again.
    #[serde(default)]
    pub(super) repairs_in: Option<Duration>,
    /// Whether the cache turned out to be stale.
    pub(super) lags: bool,
    /// The failures, by cluster.
    #[serde(with = "pairs")]
    pub(super) failures: BTreeMap<Name, Failure>,
}

/// A cached state that the server must confirm, because an Application would be created or removed because of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Doubt {
    /// The service exists.
    Service,
    /// The cluster is being deleted, or is gone.
    Cluster(Name),
    /// This is the first of several Applications on a cluster, which stays.
    First(Name, Name),
}

/// One write: of the Application of a cluster, or the removal of an Application.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    pub(super) cluster: Name,
    pub(super) application: Name,
    pub(super) what: What,
}

impl Task {
    /// Returns the record of the write with this mark; `None` if the task is no write that other clients could undo.
    pub(super) fn written(&self, mark: String) -> Option<Written> {
        let creates = self.what == What::Create;
        let is_repeatable = creates || self.what == What::Apply;
        is_repeatable.then(|| Written { of: self.cluster.clone(), creates, content: mark })
    }
}

/// The kind of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum What {
    Create,
    Apply,
    Remove,
    /// Ends the operation of an Application that is being removed, or an operation that delays a change.
    Terminate,
}
