//! Node pools of platform None: no machines are created for them.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::conditions::Status::{False, True};
use lockstep_engine::finalizer;
use lockstep_engine::object::{ObjectRef, annotation, is_deleting, metadata};
use lockstep_sim::conditions;
use serde_json::{Value, json};

use super::model::{FINALIZER, RELEASES, UNREACHABLE, hosted_cluster_kind};
use super::release;
use crate::read_view::ReadView;
use crate::status::{Findings, is_true};

pub(super) fn reconcile(look: &mut ReadView<'_>, target: &ObjectRef, pool: &Value) {
    if is_deleting(pool) {
        let let_go = finalizer::remove(target, pool, FINALIZER);
        if let Some(let_go) = let_go
            && look.after(target, "drain")
        {
            look.ask(let_go);
        }
        return;
    }
    if let Some(enter) = finalizer::add(target, pool, FINALIZER) {
        if look.after(target, "finalizer") {
            look.ask(enter);
        }
        return;
    }
    let name = pool["spec"]["clusterName"].as_str().unwrap_or_default();
    let cluster = ObjectRef::namespaced(&hosted_cluster_kind(), metadata(pool, "namespace"), name);
    let Some(cluster) = look.get(&cluster) else { return };
    if let Some(own) = own(target, pool, cluster) {
        look.ask(own);
    }
    if !pool["status"]["conditions"].is_array() && !look.after(target, "status") {
        return;
    }
    let status = status(look, target, pool, cluster);
    look.keep_status(target, pool, &status);
}

/// Adds the cluster after the existing owner references.
fn own(target: &ObjectRef, pool: &Value, cluster: &Value) -> Option<Action> {
    let uid = metadata(cluster, "uid");
    let mut owners = pool["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    if owners.iter().any(|owner| owner["uid"] == uid) {
        return None;
    }
    let kind = hosted_cluster_kind();
    owners.push(json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": metadata(cluster, "name"),
        "uid": uid,
    }));
    let patch = json!({ "metadata": {
        "uid": metadata(pool, "uid"),
        "resourceVersion": metadata(pool, "resourceVersion"),
        "ownerReferences": owners,
    } });
    Some(Action::Kube(KubeRequest::Patch {
        target: target.clone(),
        subresource: None,
        patch: Arc::new(patch),
    }))
}

fn status(look: &mut ReadView<'_>, target: &ObjectRef, pool: &Value, cluster: &Value) -> Value {
    let spec = &pool["spec"];
    let mut status = pool["status"].clone();
    let mut findings = Findings::of(pool, look.now);
    findings.set("AutoscalingEnabled", False, "AsExpected", "");
    findings.set("UpdateManagementEnabled", True, "AsExpected", "");
    findings.set("ReconciliationActive", True, "ReconciliationActive", "");
    let image = spec["release"]["image"].as_str().unwrap_or_default();
    let is_complete = match release(image, cluster) {
        Err(message) => {
            findings.set("ValidReleaseImage", False, "ValidationFailed", &message);
            true
        }
        Ok(version) => {
            findings.set("ValidReleaseImage", True, "AsExpected", &format!("Using release image: {image}"));
            status["version"] = version.into();
            let (state, reason, message) = skew(version, cluster).map_or_else(
                || (True, "AsExpected", "Release image version is valid".to_owned()),
                |message| (False, "UnsupportedSkew", message),
            );
            findings.set("SupportedVersionSkew", state, reason, &message);
            ignition(look, target, pool, cluster, &mut findings)
        }
    };
    if is_complete {
        // No machines are created, so no replicas exist.
        let (reason, message) = match spec["replicas"].as_i64().unwrap_or(0) {
            0 => ("AsExpected", "NodePool set to no replicas"),
            _ => ("NoMachines", "Platform None makes no machines."),
        };
        findings.set("AllMachinesReady", False, reason, message);
        findings.set("AllNodesHealthy", False, reason, message);
    }
    status["replicas"] = 0.into();
    status["conditions"] = json!(findings.into_conditions());
    status
}

/// Evaluates the progress of the ignition payload. A pass stops at the first missing prerequisite; returns whether none is
/// missing.
fn ignition(
    look: &mut ReadView<'_>,
    target: &ObjectRef,
    pool: &Value,
    cluster: &Value,
    findings: &mut Findings,
) -> bool {
    if !is_true(cluster, "IgnitionEndpointAvailable") {
        let message = "Ignition endpoint not available, waiting";
        findings.set("IgnitionEndpointAvailable", False, "IgnitionEndpointMissing", message);
        return false;
    }
    findings.remove("IgnitionEndpointAvailable");
    findings.set("ValidArchPlatform", True, "AsExpected", "");
    if !is_true(pool, "ValidMachineConfig") && !look.after(target, "core configs") {
        let message = "expected 3 core ignition configs, found 0";
        findings.set("ValidMachineConfig", False, "ValidationFailed", message);
        return false;
    }
    findings.set("ValidMachineConfig", True, "AsExpected", "");
    if has_payload(look, target, pool) {
        findings.set("ValidGeneratedPayload", True, "AsExpected", "Payload generated successfully");
    } else {
        let message = "Unable to get status data from token secret";
        findings.set("ValidGeneratedPayload", False, "NotFound", message);
    }
    findings.set("UpdatingVersion", False, "AsExpected", "");
    findings.set("UpdatingConfig", False, "AsExpected", "");
    true
}

/// Returns the versions of a cluster's history, newest first, and whether each is complete.
fn history(cluster: &Value) -> impl DoubleEndedIterator<Item = (&str, bool)> {
    let history = cluster["status"]["version"]["history"].as_array().into_iter().flatten();
    history.filter_map(|entry| Some((entry["version"].as_str()?, entry["state"] == "Completed")))
}

/// Returns the version of a release image. Its minor version must not be above that of the cluster: the newest complete version,
/// or at first that of its spec.
fn release<'a>(image: &'a str, cluster: &Value) -> Result<&'a str, String> {
    if annotation(cluster, RELEASES) == Some(UNREACHABLE) {
        return Err(release::unreachable(image));
    }
    let version = release::version(image).ok_or_else(|| format!("{image} is no release image"))?;
    let complete = history(cluster).find(|(_, is_complete)| *is_complete).map(|(version, _)| version);
    let wanted = cluster["spec"]["release"]["image"].as_str().and_then(release::version);
    match complete.or(wanted) {
        Some(hosted) if release::minor(version) > release::minor(hosted) => {
            Err(format!("the latest version supported is: {hosted:?}. Attempting to use: {version:?}"))
        }
        _ => Ok(version),
    }
}

/// Returns why a version does not match that of the cluster: the newest complete version, or at first the oldest of all.
fn skew(version: &str, cluster: &Value) -> Option<String> {
    let complete = history(cluster).find(|(_, is_complete)| *is_complete);
    let (hosted, _) = complete.or_else(|| history(cluster).next_back())?;
    (release::order(version) > release::order(hosted)).then(|| {
        format!("NodePool version {version} cannot be higher than the HostedCluster version {hosted}")
    })
}

/// Returns whether the ignition payload is generated. Each change of the spec has a token of its own, and its Secret takes a
/// while.
fn has_payload(look: &mut ReadView<'_>, target: &ObjectRef, pool: &Value) -> bool {
    let Some(before) = conditions::find(pool, "ValidGeneratedPayload") else { return false };
    let is_old = before["observedGeneration"] != pool["metadata"]["generation"];
    !is_old && (before["status"] == "True" || look.after(target, "payload"))
}
