//! The rollout of a release by HyperShift: whether a HostedCluster has completed it, or can't make progress.

use lockstep_engine::image::ImageReference;
use lockstep_engine::object::generation;
use serde_json::Value;

use super::hypershift::condition;
use crate::names::reason;
use crate::parse::version::{is_release, named_by};

/// Returns whether HyperShift has completed the rollout of a release.
pub fn is_complete(cluster: &Value, image: &str) -> bool {
    if cluster["spec"]["release"]["image"] != *image {
        return false;
    }
    let Some(history) = deciding_history(cluster) else { return true };
    let Some(newest) = history.first() else { return false };
    newest["state"] == "Completed" && is_of(newest, image).unwrap_or_else(|| is_at_expected_version(cluster))
}

/// Returns the history that shows when an upgrade is complete: that of the whole cluster, which needs nodes. Before the first
/// node has joined, none of its versions is complete. Then the history of the control plane is used, which an older
/// HyperShift lacks.
pub fn deciding_history(cluster: &Value) -> Option<&[Value]> {
    let decides = if was_complete(cluster) { "version" } else { "controlPlaneVersion" };
    history(cluster, decides)
}

/// Returns whether HyperShift has ever completed a version of the whole cluster.
pub fn was_complete(cluster: &Value) -> bool {
    history(cluster, "version").into_iter().flatten().any(|entry| entry["state"] == "Completed")
}

fn history<'a>(cluster: &'a Value, of: &str) -> Option<&'a [Value]> {
    cluster["status"][of]["history"].as_array().map(Vec::as_slice)
}

/// Returns whether an entry of a history is about an image; `None` if that is unknown. Histories name images by digest.
fn is_of(entry: &Value, image: &str) -> Option<bool> {
    if entry["image"] == *image {
        return Some(true);
    }
    let reference = ImageReference::parse(image).ok()?;
    if let Some(digest) = &reference.digest {
        // HyperShift may name the image of one architecture while the spec names the multi-architecture image.
        let is_same = entry["image"].as_str()?.rsplit('@').next() == Some(digest);
        return is_same.then_some(true);
    }
    is_release(entry["version"].as_str()?, named_by(reference.tag.as_deref()?)?)
}

/// Returns whether HyperShift reports that the cluster has reached the release in its current spec. HyperShift observes a spec
/// minutes before it enters the upgrade into a history (decision 51).
fn is_at_expected_version(cluster: &Value) -> bool {
    let is_done = condition(cluster, "Progressing").is_some_and(|progressing| {
        let observed = progressing["observedGeneration"].as_i64();
        progressing["status"] == "False" && observed.is_some_and(|observed| observed >= generation(cluster))
    });
    is_done && !is_blocked(cluster)
}

/// Returns whether HyperShift reports that it can't make progress.
pub fn is_blocked(cluster: &Value) -> bool {
    condition(cluster, "Progressing").is_some_and(|progressing| {
        progressing["status"] == "False" && progressing["reason"] == reason::BLOCKED
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TAGGED: &str = "registry.example.com/ocp-release:4.20.1-multi";
    const OPAQUE: &str = "registry.example.com/ocp-release:candidate";

    /// Returns a HostedCluster that upgrades to an image, with the newest versions of its histories.
    fn cluster(image: &str, of_all: &[(&str, &str)], of_control_plane: Option<&[(&str, &str)]>) -> Value {
        let entries = |history: &[(&str, &str)]| {
            let entry = |(version, state): &(&str, &str)| json!({ "version": version, "state": state, "image": "registry.example.com/ocp-release@sha256:1" });
            json!({ "history": history.iter().map(entry).collect::<Vec<_>>() })
        };
        let mut status = json!({ "version": entries(of_all) });
        if let Some(history) = of_control_plane {
            status["controlPlaneVersion"] = entries(history);
        }
        let progressing = json!({ "type": "Progressing", "status": "False", "reason": "AsExpected", "observedGeneration": 2 });
        status["conditions"] = json!([progressing]);
        json!({ "metadata": { "generation": 2 }, "spec": { "release": { "image": image } }, "status": status })
    }

    #[test]
    fn an_entry_of_a_history_is_recognised_by_digest_or_version() {
        let is_entry = |entry: &str, version: &str, image: &str| {
            is_of(&json!({ "image": entry, "version": version }), image)
        };
        assert_eq!(is_entry(TAGGED, "", TAGGED), Some(true), "an older HyperShift repeats the name");
        let digest = |number: u8| format!("sha256:{number:064}");
        let by_digest = format!("registry.example.com/ocp-release@{}", digest(1));
        let mirrored = |number: u8| format!("mirror.example.com/release@{}", digest(number));
        assert_eq!(is_entry(&mirrored(1), "4.20.1", &by_digest), Some(true));
        assert_eq!(is_entry(&mirrored(2), "4.20.1", &by_digest), None);
        assert_eq!(is_entry("registry.example.com/ocp-release@sha256:2", "4.20.1", TAGGED), Some(true));
        assert_eq!(is_entry("registry.example.com/ocp-release@sha256:2", "4.20.2", TAGGED), Some(false));
        assert_eq!(is_entry("registry.example.com/ocp-release@sha256:2", "4.20.1", OPAQUE), None);
    }

    const OLD: (&str, &str) = ("4.19.0", "Completed");
    const ON_ITS_WAY: (&str, &str) = ("4.20.1", "Partial");
    const NEW: (&str, &str) = ("4.20.1", "Completed");

    #[test]
    fn a_release_is_complete_when_the_version_of_the_whole_cluster_is() {
        let by_digest = "registry.example.com/ocp-release@sha256:1";
        let of_another = "registry.example.com/ocp-release@sha256:2";
        let misnamed = "registry.example.com/ocp-release:4.20.1-rc.1-multi";
        for (image, of_all, of_control_plane, expected) in [
            (TAGGED, &[NEW, OLD][..], Some(&[NEW][..]), true),
            (TAGGED, &[ON_ITS_WAY, OLD], Some(&[NEW]), false),
            // HyperShift has not begun.
            (TAGGED, &[OLD], Some(&[OLD]), false),
            // No node has ever joined.
            (TAGGED, &[ON_ITS_WAY, ("4.19.0", "Partial")], Some(&[NEW, OLD]), true),
            (TAGGED, &[ON_ITS_WAY, ("4.19.0", "Partial")], Some(&[ON_ITS_WAY, OLD]), false),
            (TAGGED, &[ON_ITS_WAY], None, true),
            (by_digest, &[NEW], None, true),
            // HyperShift reports that it has reached the image.
            (of_another, &[NEW], None, true),
            (misnamed, &[NEW], None, true),
            (OPAQUE, &[NEW], None, true),
        ] {
            let cluster = cluster(image, of_all, of_control_plane);
            assert_eq!(is_complete(&cluster, image), expected, "{cluster:#}");
            assert!(!is_complete(&cluster, "another"));
        }
    }

    /// Neither a digest, nor a tag with the same numbers or none, shows whether the newest version is the new one.
    #[test]
    fn an_image_that_can_not_be_recognised_is_complete_once_hypershift_has_reached_it() {
        let by_digest = format!("registry.example.com/ocp-release@sha256:{}", "2".repeat(64));
        let candidate = "registry.example.com/ocp-release:4.20.1-rc.2-multi";
        for (image, newest) in [
            (OPAQUE, OLD),
            (by_digest.as_str(), OLD),
            (candidate, ("4.20.1-rc.1", "Completed")),
            (TAGGED, ("4.20.1-rc.2", "Completed")),
        ] {
            for (observed, status, reason, expected) in [
                (2, "False", "AsExpected", true),
                (1, "False", "AsExpected", false),
                // It has not begun.
                (2, "True", "Progressing", false),
                (2, "False", "Blocked", false),
            ] {
                let mut cluster = cluster(image, &[newest], None);
                cluster["status"]["conditions"] = json!([
                    { "type": "Available", "status": "True", "reason": "AsExpected", "observedGeneration": 2 },
                    { "type": "Progressing", "status": status, "reason": reason, "observedGeneration": observed },
                ]);
                assert_eq!(is_complete(&cluster, image), expected, "{image}: {observed} {status} {reason}");
            }
        }
    }
}
