//! The injection of the hosted cluster's kubeconfig into the DPUCluster.
//!
//! A copy of HyperShift's Secret is written into the namespace of the DPUCluster, under the key that DPF reads. Then its name
//! is set in the DPUCluster. The Secret is watched, so a copy that another client changes is restored.
//!
//! Source: "Field: `kubeconfigSecretRef`", "Cleanup Operations".

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{metadata, text};
use serde_json::json;

use crate::model::secret::SecretRole;
use crate::names;
use crate::snapshot::{BridgeSnapshot, SecretState};

/// Returns the write that sets the DPUCluster's kubeconfig; `None` if it has this one or another one.
pub fn write(snapshot: &BridgeSnapshot<'_>) -> Option<Action> {
    let (object, name) = (snapshot.dpu_cluster()?, snapshot.bridge.dpu_cluster.as_ref()?);
    let is_free = text(object, "/spec/kubeconfig").is_none();
    if !is_free
        || snapshot.secret(SecretRole::Kubeconfig) != SecretState::Copied
        || !snapshot.has_kubeconfig()
    {
        return None;
    }
    let copy = SecretRole::Kubeconfig.copy(snapshot.key, Some(name))?;
    let patch =
        json!({ "metadata": { "uid": metadata(object, "uid") }, "spec": { "kubeconfig": copy.name } });
    let target = name.object(&names::dpu_cluster());
    Some(Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::new(patch) }))
}
