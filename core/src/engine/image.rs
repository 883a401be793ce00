//! Container images: how they are named, and what a registry tells of one.

use serde::{Deserialize, Serialize};

/// An image that a registry has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundImage {
    /// The digest of its manifest, such as `sha256:…`.
    pub digest: String,
    /// The OpenShift version that its label `io.openshift.release` tells; read only where the reference names no tag.
    pub release: Option<String>,
}
