//! The injection of the hosted cluster's kubeconfig into the DPUCluster.
//!
//! A copy of HyperShift's Secret is written into the namespace of the DPUCluster, under the key that DPF reads. Then its name
//! is set in the DPUCluster. The Secret is watched, so a copy that another client changes is restored.
//!
//! Source: "Field: `kubeconfigSecretRef`", "Cleanup Operations".

use std::sync::Arc;

use lockstep_engine::action::Action;
use lockstep_engine::conditions::{Finding, Status};
use lockstep_engine::object::{Name, metadata, text};
use serde_json::json;

use super::names::{self, condition, reason};
use super::secrets::{SecretRole, SecretState};
use super::source::Source;
use super::view::{BridgeSnapshot, OwnedObject, unwatched};
use super::world::Index;

/// Returns whether HyperShift has created the kubeconfig: the Secret belongs to the HostedCluster, which names it.
pub fn is_made(view: &BridgeSnapshot<'_>) -> bool {
    let source = SecretRole::Kubeconfig.source(view.key, view.spec);
    let Some(cluster) = view.hosted_cluster().ours() else { return false };
    let Ok(Some(secret)) = view.world.find(Source::Secrets, &source) else { return false };
    let owners = secret["metadata"]["ownerReferences"].as_array();
    let is_theirs =
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == metadata(cluster, "uid")));
    is_theirs && text(cluster, "/status/kubeconfig/name") == Some(&source.name)
}

/// Returns the name of a kubeconfig in the DPUCluster that this bridge did not set.
pub fn of_others<'a>(view: &BridgeSnapshot<'a>) -> Option<&'a str> {
    let ours = SecretRole::Kubeconfig.copy(view.key, view.bridge.dpu_cluster.as_ref())?;
    text(view.dpu_cluster()?, "/spec/kubeconfig").filter(|name| *name != ours.name)
}

/// Returns the other bridge that set the DPUCluster's kubeconfig, if one did. Without it the cluster of that bridge is cut
/// off.
fn other_bridge<'a>(view: &BridgeSnapshot<'a>) -> Option<&'a Name> {
    let (theirs, dpu_cluster) = (of_others(view)?, view.bridge.dpu_cluster.as_ref()?);
    let mut bridges = view.world.bridges.keys_by(&Index::DpuCluster(dpu_cluster.clone()));
    bridges.find(|bridge| {
        SecretRole::Kubeconfig.copy(bridge, Some(dpu_cluster)).is_some_and(|copy| copy.name == theirs)
    })
}

/// Returns the write that sets the DPUCluster's kubeconfig; `None` if it has this one or another one.
pub fn write(view: &BridgeSnapshot<'_>) -> Option<Action> {
    let (object, name) = (view.dpu_cluster()?, view.bridge.dpu_cluster.as_ref()?);
    let is_free = text(object, "/spec/kubeconfig").is_none();
    if !is_free || view.secret(SecretRole::Kubeconfig) != SecretState::Copied || !is_made(view) {
        return None;
    }
    let copy = SecretRole::Kubeconfig.copy(view.key, Some(name))?;
    let patch =
        json!({ "metadata": { "uid": metadata(object, "uid") }, "spec": { "kubeconfig": copy.name } });
    let target = name.object(&names::dpu_cluster());
    Some(Action::Patch { target, subresource: None, patch: Arc::new(patch) })
}

/// Returns the finding about `KubeconfigInjected`, unless a write of this pass overrides it.
pub fn judge(view: &BridgeSnapshot<'_>) -> Finding {
    let copy = SecretRole::Kubeconfig.copy(view.key, view.bridge.dpu_cluster.as_ref());
    let injected = view.dpu_cluster().and_then(|object| text(object, "/spec/kubeconfig"));
    let (status, reason, message) = if let Some(theirs) = of_others(view) {
        let message = match other_bridge(view) {
            Some(other) => format!(
                "the DPUCluster uses the kubeconfig {theirs} of DPFHCPBridge {other}; leave it as it is, and create this \
                 DPFHCPBridge for another DPUCluster"
            ),
            None => format!(
                "the DPUCluster uses the kubeconfig {theirs}, which belongs to no existing DPFHCPBridge; remove spec.kubeconfig of the \
                 DPUCluster only if no other control plane serves it"
            ),
        };
        (Status::False, reason::DPU_CLUSTER_HAS_ITS_OWN, message)
    } else if let OwnedObject::Unknown(failure) = view.hosted_cluster() {
        unwatched(Source::HostedClusters, failure)
    } else if let Some(failure) = view.refusal(Source::Secrets) {
        unwatched(Source::Secrets, failure)
    } else {
        match view.secret(SecretRole::Kubeconfig) {
            _ if !is_made(view) => (
                Status::False,
                reason::KUBECONFIG_PENDING,
                "HyperShift has not made the cluster's kubeconfig yet".to_owned(),
            ),
            SecretState::Bad(complaint) => (Status::False, reason::INJECTION_FAILED, complaint.to_owned()),
            SecretState::Copied if injected.is_some() => {
                let name = copy.map(|copy| copy.name).unwrap_or_default();
                (Status::True, reason::INJECTED, format!("the DPUCluster uses the kubeconfig {name}"))
            }
            SecretState::Missing | SecretState::Unknown(_) | SecretState::Unread | SecretState::Copied => (
                Status::False,
                reason::KUBECONFIG_PENDING,
                "the DPUCluster has not been given the kubeconfig yet".to_owned(),
            ),
        }
    };
    Finding { condition: condition::KUBECONFIG_INJECTED, status, reason, message }
}
