//! The kinds that are watched.

use std::sync::Arc;

use lockstep_engine::action::Scope;
use lockstep_engine::object::Kind;
use serde::{Deserialize, Serialize};

use super::names::{self, ARGO_NAMESPACE, PROJECT};

/// The kinds that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Source {
    /// DPUServices.
    Services,
    /// DPUClusters, of DPF.
    Clusters,
    /// Secrets, by their metadata.
    Secrets,
    /// The AppProject.
    Projects,
    /// The Applications in Argo CD's namespace.
    Applications,
}

impl Source {
    /// All sources.
    pub const ALL: [Self; 5] =
        [Self::Services, Self::Clusters, Self::Secrets, Self::Projects, Self::Applications];

    /// Returns the kind.
    pub fn kind(self) -> Arc<Kind> {
        match self {
            Self::Services => names::service(),
            Self::Clusters => names::dpu_cluster(),
            Self::Secrets => names::secret(),
            Self::Projects => names::project(),
            Self::Applications => names::application(),
        }
    }

    /// Returns the source that a kind is watched for.
    pub fn of(kind: &Kind) -> Option<Self> {
        Self::ALL.into_iter().find(|source| *source.kind() == *kind)
    }

    /// Returns which objects are watched, and which of their fields.
    pub fn scope(self) -> Scope {
        let argo = Some(ARGO_NAMESPACE.to_owned());
        match self {
            Self::Services | Self::Clusters => Scope::default(),
            Self::Secrets => Scope { metadata_only: true, ..Scope::default() },
            Self::Projects => Scope { namespace: argo, name: Some(PROJECT.to_owned()), ..Scope::default() },
            // This includes the Applications of other owners. Another client may have removed our labels, and their names are
            // taken.
            Self::Applications => Scope { namespace: argo, ..Scope::default() },
        }
    }
}
