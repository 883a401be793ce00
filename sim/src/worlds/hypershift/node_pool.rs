//! Node pools of platform None: nobody makes machines for them.

use std::sync::Arc;

use lockstep_core::engine::action::Action;
use lockstep_core::engine::conditions::Status::{False, True};
use lockstep_core::engine::finalizer;
use lockstep_core::object::{ObjectRef, is_deleting, metadata};
use serde_json::{Value, json};

use super::{FINALIZER, hosted_cluster_kind, node_pool_kind, release};
use crate::worlds::look::Look;
use crate::worlds::reference;
use crate::worlds::status::Findings;

pub(super) fn tend(look: &mut Look<'_>, pool: &Value) {
    let target = reference(&node_pool_kind(), pool);
    if is_deleting(pool) {
        let let_go = finalizer::remove(&target, pool, FINALIZER);
        if let Some(let_go) = let_go
            && look.after(&target, "drain")
        {
            look.ask(let_go);
        }
        return;
    }
    if let Some(enter) = finalizer::add(&target, pool, FINALIZER) {
        if look.after(&target, "finalizer") {
            look.ask(enter);
        }
        return;
    }
    let name = pool["spec"]["clusterName"].as_str().unwrap_or_default();
    let cluster = ObjectRef::namespaced(&hosted_cluster_kind(), metadata(pool, "namespace"), name);
    let Some(cluster) = look.get(&cluster) else { return };
    if let Some(own) = own(&target, pool, cluster) {
        look.ask(own);
    }
    if !pool["status"]["conditions"].is_array() && !look.after(&target, "status") {
        return;
    }
    let status = status(look, pool);
    look.keep_status(&target, pool, &status);
}

/// Enters the cluster behind the owners that are there.
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
    Some(Action::Patch { target: target.clone(), subresource: None, patch: Arc::new(patch) })
}

fn status(look: &Look<'_>, pool: &Value) -> Value {
    let spec = &pool["spec"];
    let mut status = pool["status"].clone();
    let mut findings = Findings::of(pool, look.now);
    findings.set("AutoscalingEnabled", False, "AsExpected", "");
    findings.set("UpdateManagementEnabled", True, "AsExpected", "");
    findings.set("ReconciliationActive", True, "ReconciliationActive", "");
    let image = spec["release"]["image"].as_str().unwrap_or_default();
    let version = release::version(image);
    if version.is_some() {
        findings.set("ValidReleaseImage", True, "AsExpected", &format!("Using release image: {image}"));
    } else {
        let message = format!("{image} is no release image");
        findings.set("ValidReleaseImage", False, "ValidationFailed", &message);
    }
    if let Some(version) = version {
        status["version"] = version.into();
        for condition in ["ValidArchPlatform", "ValidMachineConfig", "SupportedVersionSkew"] {
            findings.set(condition, True, "AsExpected", "");
        }
        findings.set("UpdatingVersion", False, "AsExpected", "");
        findings.set("UpdatingConfig", False, "AsExpected", "");
    }
    // Of replicas that nobody makes, none is there either.
    let (reason, message) = match spec["replicas"].as_i64().unwrap_or(0) {
        0 => ("AsExpected", "NodePool set to no replicas"),
        _ => ("NoMachines", "Platform None makes no machines."),
    };
    findings.set("AllMachinesReady", False, reason, message);
    findings.set("AllNodesHealthy", False, reason, message);
    status["replicas"] = 0.into();
    status["conditions"] = json!(findings.into_conditions());
    status
}
