//! Whether the DPUCluster has the hosted cluster's kubeconfig.
//!
//! Source: "Field: `kubeconfigSecretRef`".

use lockstep_engine::conditions::{Finding, Status};

use super::retried::retried;
use super::serving::{serves, was_ready};
use super::unwatched::unwatched;
use crate::model::managed_object::ManagedObject;
use crate::model::secret::SecretRole;
use crate::model::source::Source;
use crate::names::{condition, is_labelled, reason};
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

/// Returns the message about a copy that the DPUCluster uses, and that may not be up to date: HyperShift's Secret has changed, can't
/// be read for now, or is gone. Clients reach a cluster that was ready with the copy that they have (decision 35). The copy of an
/// earlier HostedCluster does not count.
fn renewal(snapshot: &BridgeSnapshot<'_>) -> Option<String> {
    let is_judged =
        matches!(snapshot.secret(SecretRole::Kubeconfig), SecretState::Copied | SecretState::Bad(_));
    if is_judged && snapshot.has_kubeconfig() {
        return None;
    }
    snapshot.hosted_cluster().ours()?;
    let copy = SecretRole::Kubeconfig.copy(snapshot.key, snapshot.bridge.dpu_cluster.as_ref())?;
    let found = snapshot.store.find(Source::Secrets, &copy).ok().flatten()?;
    let is_used = snapshot.kubeconfig() == Some(&copy.name) && is_labelled(found, snapshot.key);
    (is_used && was_ready(snapshot)).then(|| {
        let state = if snapshot.has_kubeconfig() {
            "which is being brought up to date".to_owned()
        } else {
            let source = SecretRole::Kubeconfig.source(snapshot.key, snapshot.spec);
            format!("and HyperShift has to provide its source, Secret {source}, again")
        };
        let message = format!("the DPUCluster uses the kubeconfig {}, {state}", copy.name);
        let failure = snapshot.failure(ManagedObject::Secret(SecretRole::Kubeconfig));
        failure.map_or_else(|| message.clone(), |failure| retried(&message, failure))
    })
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
    } else if let Some(message) = renewal(snapshot) {
        (Status::True, reason::INJECTED, message)
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

#[cfg(test)]
mod tests {
    use lockstep_engine::object::Name;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{Fixture, NOW};
    use crate::names::labels;

    const COPY: &str = "team-a-dpucluster-kubeconfig";
    const EARLIER: &str = "2026-01-01T11:00:00Z";

    /// Returns a cluster that was ready at a time, and the copy of its kubeconfig. HyperShift's Secret is not compared with the copy.
    fn connected(ready_at: &str, source_of: &str, copy_labels: &Value) -> Fixture {
        let condition = json!({
            "type": "Provisioned", "status": "True", "reason": "Completed", "message": "", "lastTransitionTime": ready_at,
        });
        let mut fixture = Fixture::new(&json!({ "conditions": [condition] }));
        let copy = json!({ "metadata": { "uid": "copy", "labels": copy_labels } });
        fixture.cluster(EARLIER, &json!({ "kubeconfig": { "name": "a-admin-kubeconfig" } }));
        fixture.uses(COPY).see(Source::Secrets, &Name::new("dpf", COPY), copy);
        let source = json!({ "metadata": { "uid": "source", "ownerReferences": [{ "uid": source_of }] } });
        fixture.see(Source::Secrets, &Name::new("team", "a-admin-kubeconfig"), source);
        fixture
    }

    #[test]
    fn a_copy_that_is_used_counts_until_it_is_up_to_date() {
        let (bridge, ours) = (Name::new("team", "a"), "cluster");
        let labelled = labels(&bridge);
        let before = "2026-01-01T10:00:00Z";
        for (ready_at, source_of, copy_labels, expected) in [
            (NOW, ours, &labelled, reason::INJECTED),
            (NOW, "another", &labelled, reason::INJECTED),
            // The cluster is another one than that which was ready.
            (before, ours, &labelled, reason::KUBECONFIG_PENDING),
            (NOW, ours, &json!({}), reason::KUBECONFIG_PENDING),
        ] {
            let fixture = connected(ready_at, source_of, copy_labels);
            let found = judge(&fixture.snapshot());
            assert_eq!(found.reason, expected, "{ready_at} {source_of} {copy_labels}: {}", found.message);
        }
    }
}
