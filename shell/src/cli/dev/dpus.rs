//! What an example of the DPUService controller needs: clusters of DPUs, their kubeconfigs, and Argo CD's namespace.

use lockstep_core::dpuservice::names::ARGO_NAMESPACE;
use lockstep_core::yaml;
use lockstep_sim::worlds::dpu_clusters::Access;
use serde_json::{Value, json};

/// The namespace of the example.
pub(super) const NAMESPACE: &str = "dpu-services";
/// The example.
pub(super) const SERVICE: &str = "firewall";
/// The namespace of the clusters.
pub(super) const DPF: &str = "dpf-operator-system";

const EXAMPLE: &str = include_str!("../../../../deploy/examples/dpuservice/service-chain.yaml");
const CLUSTERS: [&str; 2] = ["dpu-cluster-01", "dpu-cluster-02"];

/// The example and all that it needs, in the order in which it is applied.
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

/// What to try, after `kubectl`.
pub(super) fn commands() -> [String; 4] {
    [
        "get dpusvc --all-namespaces".to_owned(),
        format!("--namespace {ARGO_NAMESPACE} get applications.argoproj.io,appprojects.argoproj.io,secrets"),
        format!("--namespace {DPF} delete dpucluster {}", CLUSTERS[1]),
        format!("--namespace {NAMESPACE} delete dpusvc {SERVICE}"),
    ]
}
