//! DPF: DPU clusters, which are ready once their kubeconfig works.

use std::sync::Arc;

use lockstep_engine::conditions::Status;
use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, ObjectRef, is_deleting};
use serde_json::{Value, json};

use super::dpu_clusters::{Kubeconfigs, cluster_kind, is_reachable};
use super::kinds::{reference, secret_kind};
use super::level::Controller;
use super::read_view::ReadView;
use super::status::{self, Findings};

/// The finalizers that keep a DPUCluster until DPF has cleaned up.
pub const FINALIZERS: [&str; 2] = [
    "provisioning.dpu.nvidia.com/cluster-manager-clean-up",
    "provisioning.dpu.nvidia.com/cluster-manager-internal-clean-up",
];

/// DPF's provisioning controller, and the manager of static clusters.
#[derive(Debug, Clone, Default)]
pub struct Dpf {
    kubeconfigs: Kubeconfigs,
}

impl Controller for Dpf {
    const NAME: &'static str = "dpf";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![cluster_kind(), secret_kind()]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        for cluster in look.all(&cluster_kind()) {
            let target = reference(&cluster_kind(), cluster);
            if is_deleting(cluster) {
                let go = FINALIZERS.iter().find_map(|held| finalizer::remove(&target, cluster, held));
                if let Some(go) = go
                    && look.after(&target, "clean up")
                {
                    look.ask(go);
                }
                continue;
            }
            match FINALIZERS.iter().find_map(|held| finalizer::add(&target, cluster, held)) {
                Some(enter) => look.ask(enter),
                None => reconcile(look, &target, cluster, &mut self.kubeconfigs),
            }
        }
    }
}

fn reconcile(look: &mut ReadView<'_>, target: &ObjectRef, cluster: &Value, kubeconfigs: &mut Kubeconfigs) {
    let mut status = cluster["status"].clone();
    let phase = status["phase"].as_str().unwrap_or("Pending").to_owned();
    if phase == "Pending" {
        if look.after(target, "create") {
            status["phase"] = json!("Creating");
            look.keep_status(target, cluster, &status);
        }
        return;
    }
    let kubeconfig = cluster["spec"]["kubeconfig"].as_str().unwrap_or_default();
    let mut findings = Findings::of(cluster, look.now);
    if !kubeconfig.is_empty() {
        findings.set("Created", Status::True, "Created", "The cluster is created.");
    } else if cluster["spec"]["type"] == "static" {
        findings.set("Created", Status::False, "EmptyKubeconfig", "spec.kubeconfig is empty.");
    }
    // Without the other conditions there is no health check, and `Ready` stays as it was.
    if matches!(&*phase, "Ready" | "NotReady") && !findings.are_true_except("Ready") {
        status["phase"] = json!("NotReady");
        status["conditions"] = json!(findings.into_conditions());
        look.keep_status(target, cluster, &status);
        return;
    }
    let sickness = sickness(look, cluster, kubeconfigs);
    let was_ready = status::is_true(cluster, "Ready");
    // A health check takes time, with either result.
    let is_ready = match (was_ready, &sickness) {
        (false, None) => look.after(target, "healthy"),
        (true, Some(_)) => !look.after(target, "unhealthy"),
        (same, _) => same,
    };
    if is_ready {
        findings.set("Ready", Status::True, "HealthCheckPassed", "The cluster answers.");
        status["phase"] = json!("Ready");
    } else {
        let message = sickness.unwrap_or_else(|| "The cluster was not asked yet.".to_owned());
        findings.set("Ready", Status::False, "HealthCheckFailed", &message);
        if phase == "Ready" {
            status["phase"] = json!("NotReady");
        }
    }
    status["conditions"] = json!(findings.into_conditions());
    look.keep_status(target, cluster, &status);
}

/// Returns why the cluster is not healthy: its kubeconfig is invalid, or it is unreachable.
fn sickness(look: &ReadView<'_>, cluster: &Value, kubeconfigs: &mut Kubeconfigs) -> Option<String> {
    match kubeconfigs.access(look, cluster) {
        Err(problem) => Some(problem),
        Ok(access) => (!is_reachable(cluster)).then(|| format!("{} does not answer.", access.server)),
    }
}
