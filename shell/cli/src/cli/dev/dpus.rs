//! The prerequisites of the DPUService example: DPU clusters, their kubeconfigs, and Argo CD's namespace.

use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::yaml;
use lockstep_external::argocd::Charts;
use lockstep_external::dpu_clusters::Access;
use serde_json::{Value, json};

/// The namespace of the example.
pub(super) const NAMESPACE: &str = "dpu-services";
/// The name of the example.
pub(super) const SERVICE: &str = "firewall";
/// The namespace of the clusters.
pub(super) const DPF: &str = "dpf-operator-system";

const EXAMPLE: &str = include_str!("../../../../../deploy/examples/dpuservice/service-chain.yaml");
const OTHERS: [&str; 2] = [
    include_str!("../../../../../deploy/examples/dpuservice/minimal.yaml"),
    include_str!("../../../../../deploy/examples/dpuservice/accelerated.yaml"),
];
const CLUSTERS: [&str; 2] = ["dpu-cluster-01", "dpu-cluster-02"];

/// Returns the example and its prerequisites, in the order in which they are applied.
pub(super) fn objects() -> anyhow::Result<Vec<Value>> {
    let namespace =
        |name: &str| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let mut objects: Vec<Value> = [NAMESPACE, DPF, ARGO_NAMESPACE].map(namespace).into();
    for cluster in CLUSTERS {
        let secret = format!("{cluster}-admin-kubeconfig");
        let access = Access::by_token(&format!("https://{cluster}.example.com:6443"), "dev");
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "namespace": DPF, "name": secret },
            "data": access.secret_data(),
        }));
        objects.push(json!({
            "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
            "kind": "DPUCluster",
            "metadata": { "namespace": DPF, "name": cluster },
            "spec": { "type": "kamaji", "kubeconfig": secret },
        }));
    }
    objects.extend(yaml::read_all(EXAMPLE)?);
    Ok(objects)
}

/// Returns the charts of all examples.
pub(super) fn charts() -> anyhow::Result<Charts> {
    let mut charts = Charts::new();
    for text in [EXAMPLE].iter().chain(&OTHERS) {
        for object in yaml::read_all(text)? {
            let text = |field: &str| object["spec"]["source"][field].as_str().unwrap_or_default().to_owned();
            // The repository in the form that Argo CD gets.
            let repository = text("repoURL");
            let repository = repository.strip_prefix("oci://").unwrap_or(&repository).to_owned();
            charts.insert((repository, text("chart")));
        }
    }
    Ok(charts)
}

/// Returns the commands to try, after `kubectl`.
pub(super) fn commands() -> [String; 4] {
    [
        "get dpusvc --all-namespaces".to_owned(),
        format!("--namespace {ARGO_NAMESPACE} get applications.argoproj.io,appprojects.argoproj.io,secrets"),
        format!("--namespace {DPF} delete dpucluster {}", CLUSTERS[1]),
        format!("--namespace {NAMESPACE} delete dpusvc {SERVICE}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_can_be_deployed_but_unknown_charts_can_not() {
        let charts = charts().unwrap();
        let chart = |repository: &str, name: &str| (repository.to_owned(), name.to_owned());
        assert!(charts.contains(&chart("https://helm.ngc.nvidia.com/nvidia", SERVICE)), "{charts:?}");
        assert!(charts.contains(&chart("registry.example.com/charts", "telemetry")), "{charts:?}");
        assert!(!charts.contains(&chart("https://helm.ngc.nvidia.com/nvidia", "nginx")), "{charts:?}");
    }
}
