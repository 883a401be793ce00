//! Validates the spec of a HostedCluster.

use std::net::IpAddr;

use lockstep_engine::object::{ObjectRef, annotation, metadata};
use serde_json::Value;

use super::endpoint::strategy;
use super::model::{KEY, RELEASES, UNREACHABLE, key_source};
use super::release;
use crate::addresses::Range;
use crate::kinds::secret_kind;
use crate::read_view::ReadView;

/// Marks a failure before most conditions are written: `ValidConfiguration` reports it.
pub(super) const NO_ROUTES: &str = "Routes";
/// Marks a failure that only the condition about failed reconciles reports.
pub(super) const RECONCILE_ERROR: &str = "ReconciliationSucceeded";

/// Marks a failure that is only logged, so that no condition reports it.
pub(super) const LOGGED: &str = "";

/// Why a HostedCluster is blocked.
#[derive(Debug)]
pub(super) struct Problem {
    /// The condition that reports it.
    pub(super) condition: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Returns the wanted version, or why the cluster is blocked.
pub(super) fn judge<'a>(look: &ReadView<'_>, cluster: &'a Value, routes: bool) -> Result<&'a str, Problem> {
    if let Some(until) = cluster["spec"]["pausedUntil"].as_str().filter(|until| *until != "false") {
        let message = match until {
            "true" => "Reconciliation paused until field removed".to_owned(),
            time => format!("Reconciliation paused until: {time}"),
        };
        let (condition, reason) = ("ReconciliationActive", "ReconciliationPaused");
        return Err(Problem { condition, reason, message });
    }
    let invalid =
        |message| Problem { condition: "ValidConfiguration", reason: "InvalidConfiguration", message };
    if !routes {
        without_route(cluster).map_err(|message| Problem { condition: NO_ROUTES, ..invalid(message) })?;
    }
    configuration(cluster).map_err(invalid)?;
    pull_secret(look, cluster)?;
    encryption_key(look, cluster)?;
    ssh_key(look, cluster).map_err(|message| Problem {
        condition: RECONCILE_ERROR,
        reason: "ReconciliationError",
        message,
    })?;
    image(cluster).map_err(|message| Problem {
        condition: "ValidReleaseImage",
        reason: "InvalidImage",
        message,
    })
}

/// Finds a service that can't be published because there are no Routes.
fn without_route(cluster: &Value) -> Result<(), String> {
    let mut services = cluster["spec"]["services"].as_array().into_iter().flatten();
    match services.find(|entry| entry["servicePublishingStrategy"]["type"] == "Route") {
        Some(entry) => Err(format!(
            "cluster does not support Routes, but service {} is exposed via a Route",
            entry["service"]
        )),
        None => Ok(()),
    }
}

fn configuration(cluster: &Value) -> Result<(), String> {
    let address = strategy(cluster, "APIServer")["nodePort"]["address"].as_str();
    let address = address.and_then(|address| address.parse::<IpAddr>().ok());
    let networks = cluster["spec"]["networking"]["serviceNetwork"].as_array().into_iter().flatten();
    let mut networks = networks.filter_map(|network| network["cidr"].as_str());
    let within = |address| move |cidr: &&str| Range::parse(cidr).is_some_and(|range| range.contains(address));
    match address.and_then(|address| networks.find(within(address))) {
        Some(network) => {
            Err(format!("the address of the node ports lies within the service network {network}"))
        }
        None => Ok(()),
    }
}

fn pull_secret(look: &ReadView<'_>, cluster: &Value) -> Result<(), Problem> {
    let (name, secret) = secret(look, cluster, "pullSecret");
    let problem = |reason, message| Problem { condition: "ValidReleaseImage", reason, message };
    match secret {
        None => {
            let message = format!("failed to get pull secret: Secret {name:?} not found");
            Err(problem("SecretNotFound", message))
        }
        Some(secret) if secret["data"][".dockerconfigjson"].is_string() => Ok(()),
        Some(_) => Err(problem("InvalidImage", "expected .dockerconfigjson key in pull secret".to_owned())),
    }
}

/// A missing Secret is an error of the reconcile. A Secret without the key ends it without one.
fn encryption_key(look: &ReadView<'_>, cluster: &Value) -> Result<(), Problem> {
    let Some(source) = key_source(cluster) else { return Ok(()) };
    let name = &source.name;
    match look.get(&source) {
        None => {
            let message = format!("failed to get active aescbc secret {name}: Secret {name:?} not found");
            Err(Problem { condition: RECONCILE_ERROR, reason: "ReconciliationError", message })
        }
        Some(secret) if secret["data"][KEY].is_string() => Ok(()),
        Some(_) => {
            let message = "Waiting for hosted control plane to be healthy".to_owned();
            Err(Problem { condition: LOGGED, reason: "WaitingForAvailable", message })
        }
    }
}

fn ssh_key(look: &ReadView<'_>, cluster: &Value) -> Result<(), String> {
    let (name, secret) = secret(look, cluster, "sshKey");
    match secret {
        _ if name.is_empty() => Ok(()),
        None => Err(format!("failed to get hostedcluster SSHKey secret {name}: Secret {name:?} not found")),
        Some(secret) if secret["data"]["id_rsa.pub"].is_string() => Ok(()),
        Some(_) => Err(format!(
            "failed to reconcile controlplane SSHKey secret: hostedcluster SSHKey secret {name:?} must have a \
             id_rsa.pub key"
        )),
    }
}

/// Returns the name of a Secret in a field of a HostedCluster, and the Secret if it exists.
fn secret<'a>(look: &'a ReadView<'_>, cluster: &'a Value, field: &str) -> (&'a str, Option<&'a Value>) {
    let name = cluster["spec"][field]["name"].as_str().unwrap_or_default();
    let target = ObjectRef::namespaced(&secret_kind(), metadata(cluster, "namespace"), name);
    (name, look.get(&target))
}

/// Returns the version of the release image, if the cluster may be upgraded to it.
fn image(cluster: &Value) -> Result<&str, String> {
    let image = cluster["spec"]["release"]["image"].as_str().unwrap_or_default();
    if annotation(cluster, RELEASES) == Some(UNREACHABLE) {
        return Err(release::unreachable(image));
    }
    let version = release::version(image).ok_or_else(|| format!("{image} is no release image"))?;
    let history = &cluster["status"]["version"]["history"];
    let before = history[0]["version"].as_str().unwrap_or(version);
    if release::minor(version) < release::minor(before) {
        return Err(format!("the minor version can't go down from {before} to {version}"));
    }
    Ok(version)
}
