//! The keys that the controller reconciles.

use std::time::Duration;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::object::{Name, ObjectRef};
use serde::{Deserialize, Serialize};

use crate::model::project;
use crate::model::service::service_ref;
use crate::names;

/// The backoff of a failing key: a second, doubled up to five minutes.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(1), max: Duration::from_mins(5) };

/// The reconcilers, in the order of their dependencies.
pub(crate) const RECONCILERS: &[&str] = &["cluster", "project", "service"];

/// The keys that the controller reconciles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A DPUCluster. Its reconcile gives Argo CD access to it.
    Cluster(Name),
    /// The AppProject. Its reconcile ensures that it permits what has to be deployed.
    Project,
    /// A DPUService. Its reconcile deploys it to every cluster.
    Service(Name),
}

impl Key {
    /// Returns the name of the reconciler of the key.
    pub(crate) fn reconciler(&self) -> &'static str {
        match self {
            Self::Cluster(_) => RECONCILERS[0],
            Self::Project => RECONCILERS[1],
            Self::Service(_) => RECONCILERS[2],
        }
    }

    /// Returns the object of the key.
    pub(crate) fn object(&self) -> ObjectRef {
        match self {
            Self::Cluster(name) => name.object(&names::dpu_cluster()),
            Self::Project => project::name().object(&names::project()),
            Self::Service(name) => service_ref(name),
        }
    }
}
