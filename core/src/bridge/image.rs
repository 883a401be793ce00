//! The release image: whether the registry has it, and whether HyperShift supports its version.
//!
//! A registry that does not answer proves nothing: the last answer counts, and without one the image is let pass. The status
//! says so, and the registry is asked again until it has answered. What was checked once is not asked for again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names::SUPPORTED_VERSIONS;
use super::parse::version::{ReleaseVersion, supported_versions};
use crate::engine::action::{Class, Failure};
use crate::engine::image::{FoundImage, ImageReference};
use crate::time::Monotonic;

/// For how long a registry's answer is believed.
const FRESH: Duration = Duration::from_mins(10);
/// After how long a registry that did not answer is asked again.
const RETRY: Duration = Duration::from_mins(1);

/// What a registry said of an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    image: String,
    /// The version of the pull secret that was used.
    secret: String,
    at: Monotonic,
    answer: Result<FoundImage, Failure>,
    /// What kept the registry from answering since.
    trouble: Option<Failure>,
}

impl Checked {
    /// Takes an answer in. Where the registry did not answer, the last answer about the same image stays.
    pub fn take(
        before: Option<Self>,
        image: &str,
        secret: String,
        answer: Result<FoundImage, Failure>,
        now: Monotonic,
    ) -> Self {
        match (before.filter(|before| before.is_of(image) && before.is_definite()), answer) {
            (Some(before), Err(failure)) if !is_definite(&failure) => {
                Self { secret, at: now, trouble: Some(failure), ..before }
            }
            (_, answer) => Self { image: image.to_owned(), secret, at: now, answer, trouble: None },
        }
    }

    /// Whether it is about this image.
    pub fn is_of(&self, image: &str) -> bool {
        self.image == image
    }

    /// When the registry is to be asked again, if that is the pull secret.
    pub fn due(&self, secret: &str) -> Monotonic {
        if self.secret == secret { self.at + self.fresh() } else { Monotonic::START }
    }

    /// How long until the registry is to be asked again, unless it has the image.
    pub fn pause(&self, now: Monotonic) -> Option<Duration> {
        self.answer.is_err().then(|| (self.at + self.fresh()).since(now))
    }

    fn fresh(&self) -> Duration {
        let failure = self.trouble.as_ref().or(self.answer.as_ref().err());
        let wish = failure.and_then(|failure| failure.retry_after).unwrap_or_default();
        wish.max(if self.is_definite() && self.trouble.is_none() { FRESH } else { RETRY })
    }

    fn is_definite(&self) -> bool {
        self.answer.as_ref().map_or_else(is_definite, |_| true)
    }

    /// Whether the registry has the image, as far as is known.
    pub fn is_found(&self) -> bool {
        self.answer.is_ok()
    }

    /// Why it is not known whether the registry has the image, and when it is asked again.
    pub fn doubt(&self) -> Option<String> {
        let failure = self.answer.as_ref().err().filter(|failure| !is_definite(failure))?;
        Some(format!(
            "release image {} could not be checked ({}); the registry is asked again until it answers, and HyperShift pulls \
             the image itself",
            self.image, failure.message
        ))
    }

    /// The version that the registry told.
    pub fn release(&self) -> Option<ReleaseVersion> {
        ReleaseVersion::of_release(self.answer.as_ref().ok()?.release.as_deref()?)
    }

    /// Why the image can't be used, and how to mend that.
    pub fn refusal(&self) -> Option<String> {
        let (image, failure) = (&self.image, self.answer.as_ref().err()?);
        match failure.class {
            Class::NotFound => Some(format!(
                "release image {image} does not exist in its registry; mend spec.ocpReleaseImage"
            )),
            Class::Forbidden => Some(format!(
                "the registry of release image {image} does not accept the pull secret ({}); add credentials for it to the \
                 Secret that spec.pullSecretRef names",
                failure.message
            )),
            Class::Invalid => Some(format!("release image {image}: {}", failure.message)),
            // Nobody knows; the cluster is created all the same.
            Class::AlreadyExists
            | Class::Conflict
            | Class::Gone
            | Class::Throttled
            | Class::Unavailable
            | Class::Unknown => None,
        }
    }
}

fn is_definite(failure: &Failure) -> bool {
    matches!(failure.class, Class::NotFound | Class::Forbidden | Class::Invalid)
}

/// The version that an image's tag tells.
pub fn version_by_tag(image: &str) -> Option<ReleaseVersion> {
    ReleaseVersion::of_tag(&ImageReference::parse(image).ok()?.tag?)
}

/// Why a version can't be installed by the HyperShift that is here, by the ConfigMap in which it tells what it supports.
/// Where that is missing or can't be read, HyperShift decides later.
pub fn unsupported(version: ReleaseVersion, config_map: Option<&Value>) -> Option<String> {
    let supported = supported_versions(config_map?["data"][SUPPORTED_VERSIONS].as_str()?).ok()?;
    if supported.is_empty() || supported.contains(&version) {
        return None;
    }
    let (lowest, highest) = (supported.iter().min()?, supported.iter().max()?);
    Some(format!(
        "OpenShift {version} is not supported by the installed HyperShift, which supports {lowest} to {highest}; choose \
         another spec.ocpReleaseImage, or update HyperShift"
    ))
}
