//! Whether the DPUCluster has the hosted cluster's kubeconfig.
//!
//! Source: "Field: `kubeconfigSecretRef`".

use lockstep_engine::conditions::{Finding, Status};

use super::readiness::serves;
use super::unwatched::unwatched;
use crate::model::secret::SecretRole;
use crate::model::source::Source;
use crate::names::{condition, reason};
use crate::snapshot::{BridgeSnapshot, OwnedObject, SecretState};

/// Returns what a user can do about a DPUCluster that is not ready although its control plane serves. DPF keeps the client that it made
/// of the first kubeconfig until it restarts, also when the address or the certificates have changed since.
fn old_client(snapshot: &BridgeSnapshot<'_>) -> &'static str {
    let phase = snapshot.dpu_cluster().map(|dpu_cluster| &dpu_cluster["status"]["phase"]);
    if serves(snapshot) && phase.is_some_and(|phase| phase == "NotReady") {
        "; DPF reports that it is NotReady: if the address or the certificates of the hosted cluster have changed, restart DPF's \
         provisioning controller, which keeps its first connection"
    } else {
        ""
    }
}

/// Returns the finding about `KubeconfigInjected`, unless a write of this pass overrides it.
pub fn judge(snapshot: &BridgeSnapshot<'_>) -> Finding {
    let copy = SecretRole::Kubeconfig.copy(snapshot.key, snapshot.bridge.dpu_cluster.as_ref());
    let (status, reason, message) = if let Some(theirs) = snapshot.foreign_kubeconfig() {
        let message = match snapshot.connected_bridge() {
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
    } else if let OwnedObject::Unknown(failure) = snapshot.hosted_cluster() {
        unwatched(Source::HostedClusters, failure)
    } else if let Some(failure) = snapshot.refusal(Source::Secrets) {
        unwatched(Source::Secrets, failure)
    } else {
        match snapshot.secret(SecretRole::Kubeconfig) {
            _ if !snapshot.has_kubeconfig() => (
                Status::False,
                reason::KUBECONFIG_PENDING,
                "HyperShift has not made the cluster's kubeconfig yet".to_owned(),
            ),
            SecretState::Bad(problem) => (Status::False, reason::INJECTION_FAILED, problem.to_owned()),
            SecretState::Copied if snapshot.kubeconfig().is_some() => {
                let name = copy.map(|copy| copy.name).unwrap_or_default();
                let message = format!("the DPUCluster uses the kubeconfig {name}{}", old_client(snapshot));
                (Status::True, reason::INJECTED, message)
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
