//! The documents of images: indexes, manifests and configurations (OCI Image Specification; Docker's formats are the same in
//! the fields that are read here).

use std::collections::BTreeMap;

use lockstep_engine::image::is_digest;
use serde::Deserialize;

/// The media types of all these documents, for `Accept`.
pub(super) const MEDIA_TYPES: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// The label with the OpenShift version.
const RELEASE_LABEL: &str = "io.openshift.release";

/// The maximum length of an accepted version, in bytes.
const RELEASE_MAX: usize = 128;

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
}

#[derive(Deserialize)]
struct Image {
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    #[serde(rename = "Labels")]
    labels: BTreeMap<String, String>,
}

/// Returns the digest of the first manifest of an index. All of its manifests have the same version.
pub(super) fn first_of_index(document: &[u8]) -> Option<String> {
    let manifest: Manifest = serde_json::from_slice(document).ok()?;
    digest(manifest.manifests.into_iter().next()?)
}

/// Returns the digest of the configuration of a manifest.
pub(super) fn config(document: &[u8]) -> Option<String> {
    let manifest: Manifest = serde_json::from_slice(document).ok()?;
    digest(manifest.config?)
}

/// Returns the OpenShift version in the labels of a configuration.
pub(super) fn release(document: &[u8]) -> Option<String> {
    let image: Image = serde_json::from_slice(document).ok()?;
    image.config.labels.get(RELEASE_LABEL).filter(|release| release.len() <= RELEASE_MAX).cloned()
}

/// Returns the digest of a descriptor, if it is valid: a URL may contain nothing else.
fn digest(descriptor: Descriptor) -> Option<String> {
    Some(descriptor.digest).filter(|digest| is_digest(digest))
}
