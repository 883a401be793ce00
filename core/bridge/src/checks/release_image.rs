//! The release image: whether the registry has it, and whether HyperShift supports its version.
//!
//! Source: "Field: `ocpReleaseImage`".

use lockstep_engine::image::ImageReference;
use lockstep_engine::object::Name;
use serde_json::Value;

use super::serving::serves;
use super::unmet::Unmet;
use crate::model::image::Checked;
use crate::model::rollout::is_complete;
use crate::model::source::Source;
use crate::names::{HYPERSHIFT, SUPPORTED_VERSIONS, condition, reason};
use crate::parse::version::{ReleaseVersion, supported_versions};
use crate::snapshot::BridgeSnapshot;

/// Returns whether the registry has to be queried for the release image: the HostedCluster does not have it yet, or got it
/// unchecked.
pub fn image_matters(snapshot: &BridgeSnapshot<'_>) -> bool {
    if snapshot.has_unwatchable_cluster() {
        return false;
    }
    let checked = snapshot.checked_image().is_some_and(Checked::is_found);
    snapshot
        .hosted_cluster()
        .ours()
        .is_none_or(|cluster| !has_image(snapshot, cluster) || !(checked || was_checked(snapshot, cluster)))
}

/// Returns whether the HostedCluster has the release image.
fn has_image(snapshot: &BridgeSnapshot<'_>, cluster: &Value) -> bool {
    cluster["spec"]["release"]["image"] == snapshot.spec.ocp_release_image
}

/// Returns whether the status reports that the release image of the HostedCluster was checked. After a change of the spec it
/// may refer to another image, unless HyperShift runs this one.
fn was_checked(snapshot: &BridgeSnapshot<'_>, cluster: &Value) -> bool {
    snapshot.bridge.condition(condition::PREREQUISITES_MET).is_some_and(|before| {
        let is_current = before.observed_generation == Some(snapshot.bridge.generation);
        before.reason == reason::ALL_MET
            && (is_current || is_complete(cluster, &snapshot.spec.ocp_release_image))
    })
}

/// Returns whether the release image may be set: the HostedCluster has it, or the registry was queried, whatever it answered.
pub fn may_give_image(snapshot: &BridgeSnapshot<'_>) -> bool {
    let has_image = snapshot.hosted_cluster().ours().is_some_and(|cluster| has_image(snapshot, cluster));
    has_image || snapshot.checked_image().is_some()
}

/// Returns the report about a release image that could not be checked. A check that is still due is reported only if nothing
/// is unmet.
pub fn doubt(snapshot: &BridgeSnapshot<'_>, unmet: &[Unmet]) -> Option<String> {
    if !image_matters(snapshot) {
        return None;
    }
    let Some(checked) = snapshot.checked_image() else {
        let image = &snapshot.spec.ocp_release_image;
        return unmet.is_empty().then(|| format!("release image {image} is not checked yet"));
    };
    // Once HyperShift runs the image, a registry's refusal no longer matters.
    let is_under_way = || {
        snapshot.hosted_cluster().ours().is_some_and(|cluster| {
            let is_complete = is_complete(cluster, &snapshot.spec.ocp_release_image);
            has_image(snapshot, cluster) && serves(snapshot) && !is_complete
        })
    };
    let refusal = || checked.refusal().filter(|_| is_under_way());
    checked.doubt().or_else(|| Some(format!("HyperShift was given the release image, but {}", refusal()?)))
}

/// Returns why the release image can't be used, if that is known.
pub fn check(snapshot: &BridgeSnapshot<'_>) -> Option<Unmet> {
    let checked = snapshot.checked_image();
    let given = snapshot.hosted_cluster().ours().filter(|cluster| has_image(snapshot, cluster));
    if let Some(message) = checked.and_then(Checked::refusal) {
        // A cluster that runs the image needs no registry.
        return (given.is_none() || !serves(snapshot)).then(|| Unmet::user_action(message));
    }
    if given.is_some() {
        return None;
    }
    let version = version_by_tag(&snapshot.spec.ocp_release_image).or_else(|| checked?.release())?;
    let name = Name::new(HYPERSHIFT, SUPPORTED_VERSIONS);
    let config_map = snapshot.store.find(Source::Versions, &name).ok().flatten();
    unsupported(version, config_map).map(Unmet::user_action)
}

/// Returns the version in an image's tag.
fn version_by_tag(image: &str) -> Option<ReleaseVersion> {
    ReleaseVersion::of_tag(&ImageReference::parse(image).ok()?.tag?)
}

/// Returns why the installed HyperShift can't install a version, according to the ConfigMap of its supported versions. If
/// that is missing or can't be parsed, HyperShift decides later.
fn unsupported(version: ReleaseVersion, config_map: Option<&Value>) -> Option<String> {
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
