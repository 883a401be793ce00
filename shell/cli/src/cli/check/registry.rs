//! Queries the registries of the release images of each DPFHCPBridge, with its pull secret.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use lockstep_bridge::names;
use lockstep_bridge::parse::docker_config::DockerConfig;
use lockstep_engine::action::{Action, ErrorKind, Failure, ResolveImage};
use lockstep_engine::broker::SecretString;
use lockstep_engine::image::ImageReference;
use lockstep_engine::object::{Name, metadata, text};

use super::super::cluster::Cluster;
use super::finding::Finding;

const CHECK: &str = "registry";

pub(super) async fn check(cluster: &Cluster) -> Vec<Finding> {
    let bridges = match cluster.list(&names::bridge(), None).await {
        Ok(bridges) => bridges,
        // A check of its own reports the missing CRD.
        Err(failure) if failure.class == ErrorKind::KindNotServed => return Vec::new(),
        Err(failure) => {
            return vec![Finding::warn(
                CHECK,
                "DPFHCPBridges",
                format!("could not be listed ({failure})"),
                "try again",
            )];
        }
    };
    let images = bridges.iter().filter_map(|bridge| {
        let secret = Name::new(metadata(bridge, "namespace"), text(bridge, "/spec/pullSecretRef/name")?);
        Some((text(bridge, "/spec/ocpReleaseImage")?.to_owned(), secret))
    });
    let mut findings = Vec::new();
    for (image, secret) in images.collect::<BTreeSet<_>>() {
        findings.push(query(cluster, &image, &secret).await);
    }
    findings
}

async fn query(cluster: &Cluster, image: &str, secret: &Name) -> Finding {
    let credentials = match credentials(cluster, image, secret).await {
        Ok(credentials) => credentials,
        Err((message, remedy)) => return Finding::warn(CHECK, image, message, remedy),
    };
    let action = Action::Registry(ResolveImage { image: image.to_owned(), credentials });
    match cluster.execute(&action).await {
        Ok(_) => Finding::ok(CHECK, image, format!("the registry has it, with pull secret {secret}")),
        Err(failure) => judge(image, secret, &failure),
    }
}

/// Judges why there was no answer with the image. It is never a failure: only some bridges need the image, and the controller runs
/// without it.
fn judge(image: &str, secret: &Name, failure: &Failure) -> Finding {
    let message = &failure.message;
    match failure.class {
        ErrorKind::NotFound => {
            let remedy = "correct spec.ocpReleaseImage of its DPFHCPBridges";
            Finding::warn(CHECK, image, "the registry does not have it", remedy)
        }
        ErrorKind::Forbidden => {
            let remedy = format!("add credentials for it to Secret {secret}");
            Finding::warn(CHECK, image, format!("the registry refuses the pull secret ({message})"), remedy)
        }
        ErrorKind::Invalid
        | ErrorKind::KindNotServed
        | ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Gone
        | ErrorKind::Throttled
        | ErrorKind::Unavailable
        | ErrorKind::Unknown => {
            let message = format!("the registry could not be queried from here ({message})");
            Finding::warn(CHECK, image, message, "run the check in a pod of the controller")
        }
    }
}

/// Returns the credentials for an image; otherwise why there are none, and what to do.
async fn credentials(
    cluster: &Cluster,
    image: &str,
    secret: &Name,
) -> Result<Option<SecretString>, (String, String)> {
    let read = cluster.get(secret.object(&names::secret())).await;
    let found = read.map_err(|failure| {
        (
            format!("Secret {secret} could not be read ({failure})"),
            "use an account that may read it".to_owned(),
        )
    })?;
    let create = || (format!("Secret {secret} does not exist"), "create it".to_owned());
    let found = found.ok_or_else(create)?;
    let invalid = |problem: String| (format!("Secret {secret}: {problem}"), "correct it".to_owned());
    let data = found["data"].get(".dockerconfigjson").cloned();
    let data = data.ok_or_else(|| invalid("there is no key .dockerconfigjson".to_owned()))?;
    let data: ByteString = serde_json::from_value(data).map_err(|_| invalid("not base64".to_owned()))?;
    let config = DockerConfig::parse(&data.0).map_err(invalid)?;
    let image = ImageReference::parse(image)
        .map_err(|problem| (problem, "correct spec.ocpReleaseImage".to_owned()))?;
    Ok(config.credentials_for(&image))
}
