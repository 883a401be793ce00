//! HyperShift: hosted control planes on platform None, step by step.
//!
//! ```text
//!  HostedCluster ─▶ finalizer, ids ─▶ namespace <ns>-<name> ─▶ Service kube-apiserver ─▶ endpoint ─▶ admin kubeconfig
//!                                                                           └▶ etcd ─▶ API server ─▶ available ─▶ version
//! ```
//!
//! No Pod of a control plane runs; the [`Pace`](super::Pace) sets the delays. Nodes join automatically, so `status.version`
//! completes some time after `status.controlPlaneVersion`. Annotations of the HostedCluster cause failures of its control plane:
//! [`AILS`], [`NODES`], [`RELEASES`], [`STUCK`]. [`REPORTS`] is that of an older HyperShift.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest, Subresource};
use lockstep_engine::object::{Kind, ObjectRef, is_deleting};
use serde_json::{Value, json};

use super::kinds::{namespace_kind, reference, secret_kind, service_kind};
use super::level::Controller;
use super::read_view::ReadView;

mod control_plane;
mod endpoint;
mod judge;
mod model;
mod node_pool;
mod release;
mod status;
mod teardown;

pub use self::model::{
    AILS, DEGRADED, FINALIZER, FLAPPING, NO_NODES, NODES, RELEASES, REPORTS, STUCK, UNREACHABLE,
    VERSION_ONLY, control_plane_namespace, hosted_cluster_kind, node_pool_kind,
};

/// The namespace of HyperShift itself.
pub const NAMESPACE: &str = "hypershift";
/// Its Deployment.
pub const OPERATOR: &str = "operator";
/// The ConfigMap with the versions that it can host.
pub const SUPPORTED_VERSIONS: &str = "supported-versions";

fn deployment_kind() -> Arc<Kind> {
    Kind::known("apps", "v1", "Deployment", "deployments", true)
}

/// HyperShift's operator.
#[derive(Debug, Clone, Copy)]
pub struct HyperShift {
    /// Whether the management cluster has OpenShift Routes.
    pub routes: bool,
}

impl Default for HyperShift {
    fn default() -> Self {
        Self { routes: true }
    }
}

impl Controller for HyperShift {
    const NAME: &'static str = "hypershift";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![
            hosted_cluster_kind(),
            node_pool_kind(),
            namespace_kind(),
            service_kind(),
            secret_kind(),
            deployment_kind(),
        ]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        let operator = ObjectRef::namespaced(&deployment_kind(), NAMESPACE, OPERATOR);
        if let Some(deployment) = look.get(&operator) {
            keep_deployment(look, &operator, deployment);
            if deployment["spec"]["replicas"] == 0 {
                return;
            }
        }
        for pool in look.all(&node_pool_kind()) {
            let target = reference(&node_pool_kind(), pool);
            look.part(&target, |look| node_pool::reconcile(look, &target, pool));
        }
        for cluster in look.all(&hosted_cluster_kind()) {
            let target = reference(&hosted_cluster_kind(), cluster);
            if is_deleting(cluster) {
                teardown::reconcile(look, &target, cluster);
            } else {
                look.part(&target, |look| control_plane::reconcile(look, &target, cluster, self.routes));
            }
        }
    }
}

/// Returns whether a HostedCluster has ever completed an image, so that a NodePool may use it. It checks the versions of the
/// whole cluster, or those of its control plane if none of the former is complete. A HostedCluster without history permits any
/// image.
pub fn has_completed(cluster: &Value, image: &str) -> bool {
    let history = |field: &str| cluster["status"][field]["history"].as_array().cloned().unwrap_or_default();
    let (of_all, of_control_plane) = (history("version"), history("controlPlaneVersion"));
    let is_complete = |entry: &&Value| entry["state"] == "Completed";
    let deciding = if of_all.iter().any(|entry| is_complete(&entry)) { &of_all } else { &of_control_plane };
    let resolved = release::resolved(image);
    deciding.is_empty() || deciding.iter().filter(is_complete).any(|entry| entry["image"] == resolved)
}

/// Returns the objects of an installation of HyperShift, in the order of their creation.
pub fn installation() -> Vec<Value> {
    let labels = json!({ "app": OPERATOR });
    let versions = json!({ "versions": ["4.20", "4.19", "4.18", "4.17", "4.16", "4.15", "4.14"] });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": OPERATOR, "namespace": NAMESPACE },
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": OPERATOR, "image": "registry.example.com/hypershift:1" }] },
                },
            },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": SUPPORTED_VERSIONS,
                "namespace": NAMESPACE,
                "labels": { "hypershift.openshift.io/supported-versions": "true" },
            },
            "data": { "server-version": "0000000000000000000000000000000000000000", "supported-versions": versions.to_string() },
        }),
    ]
}

/// Updates HyperShift's Deployment: its Pods are ready as soon as they are requested.
fn keep_deployment(look: &mut ReadView<'_>, target: &ObjectRef, deployment: &Value) {
    let replicas = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let generation = deployment["metadata"]["generation"].clone();
    let (available, seen) =
        (&deployment["status"]["availableReplicas"], &deployment["status"]["observedGeneration"]);
    if available.as_i64().unwrap_or(0) == replicas && *seen == generation {
        return;
    }
    let time = json!(look.now.wall.timestamp_seconds().to_string());
    let condition = json!({
        "type": "Available",
        "status": if replicas > 0 { "True" } else { "False" },
        "reason": if replicas > 0 { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" },
        "message": "As many Pods run as are wanted.",
        "lastTransitionTime": time,
        "lastUpdateTime": time,
    });
    let status = json!({
        "observedGeneration": generation,
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": replicas,
        "availableReplicas": replicas,
        "conditions": [condition],
    });
    let patch = Arc::new(json!({ "status": status }));
    look.ask(Action::Kube(KubeRequest::Patch {
        target: target.clone(),
        subresource: Some(Subresource::Status),
        patch,
    }));
}
