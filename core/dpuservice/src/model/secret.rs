//! The metadata of a Secret.

use lockstep_engine::cache::Cached;
use lockstep_engine::object::{Name, ResourceVersion, Uid, annotation, is_deleting, metadata};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::owner::annotated;
use crate::names::{ARGO_NAMESPACE, CLUSTER, SERVER};

/// The relevant metadata of a Secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Secret {
    /// Its uid.
    pub uid: Uid,
    /// Its resource version.
    pub version: ResourceVersion,
    /// When it was created, in the API's time format.
    pub created: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The cluster that it defines for Argo CD, if it is one of ours.
    pub cluster: Option<Name>,
    /// The server of that cluster.
    pub server: Option<String>,
}

impl Secret {
    /// Parses a Secret or its metadata.
    pub fn read(object: &Value) -> Self {
        let is_argo = metadata(object, "namespace") == ARGO_NAMESPACE;
        // Only the annotation counts: a label alone does not make another client's Secret ours.
        let cluster = annotated(object, CLUSTER).filter(|_| is_argo);
        Self {
            uid: Uid::of(object),
            version: ResourceVersion::of(object),
            created: metadata(object, "creationTimestamp").to_owned(),
            deleting: is_deleting(object),
            server: cluster.as_ref().and_then(|_| annotation(object, SERVER)).map(str::to_owned),
            cluster,
        }
    }

    /// Identifies one version of one Secret.
    pub fn marker(&self) -> String {
        format!("{}/{}", self.uid, self.version)
    }
}

/// The index values by which Argo CD's Secrets of clusters are found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretIndex {
    /// Any cluster.
    Any,
    /// The cluster.
    Cluster(Name),
    /// The cluster's server.
    Server(String),
}

impl Cached for Secret {
    type Index = SecretIndex;

    fn resource_version(&self) -> ResourceVersion {
        self.version
    }

    fn indexes(&self) -> Vec<SecretIndex> {
        let Some(cluster) = &self.cluster else { return Vec::new() };
        let server = self.server.clone().map(SecretIndex::Server);
        [SecretIndex::Any, SecretIndex::Cluster(cluster.clone())].into_iter().chain(server).collect()
    }
}
