//! Objects as users write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "dpf-hcp-bridge-system";
pub(crate) const DPF: &str = "dpf-operator-system";
pub(crate) const RELEASE: &str = "registry.example.com/ocp-release:4.19.0-multi";
pub(crate) const UPGRADE: &str = "registry.example.com/ocp-release:4.20.1-multi";
pub(crate) const VIP: &str = "192.0.2.10";
/// If this is in any output for users, a secret has leaked.
pub(crate) const PASSWORD: &str = "correct-horse-battery-staple";
pub(crate) const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1vbnRhZ25lIGVzdCBoYXV0ZSBldCBsb2ludGFpbmUu admin@example.com";

pub(crate) fn bridge(name: &str) -> Value {
    json!({
        "apiVersion": "dpf.hcp.bridge.com/v1alpha1",
        "kind": "DPFHCPBridge",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "dpuClusterRef": { "name": "dpus", "namespace": DPF },
            "baseDomain": "clusters.example.com",
            "ocpReleaseImage": RELEASE,
            "sshKeySecretRef": { "name": "ssh" },
            "pullSecretRef": { "name": "pull" },
            "etcdStorageClass": "ceph-rbd",
            "controlPlaneAvailabilityPolicy": "HighlyAvailable",
            "infrastructureAvailabilityPolicy": "HighlyAvailable",
            "exposeThroughLoadBalancer": true,
            "metalLBVirtualIP": VIP,
            "clusterType": "dpf-production",
        },
    })
}

pub(crate) fn dpu_cluster(name: &str) -> Value {
    json!({
        "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
        "kind": "DPUCluster",
        "metadata": { "name": name, "namespace": DPF },
        "spec": { "type": "static" },
    })
}

pub(crate) fn storage_class(name: &str, provisioner: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": provisioner,
    })
}

pub(crate) fn pool(name: &str, range: &str) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": { "name": name, "namespace": "metallb-system" },
        "spec": { "addresses": [range], "autoAssign": false },
    })
}

pub(crate) fn secret(name: &str, key: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "data": { key: STANDARD.encode(content) },
    })
}

pub(crate) fn pull_secret() -> Value {
    secret("pull", ".dockerconfigjson", &docker_config(PASSWORD))
}

pub(crate) fn docker_config(password: &str) -> String {
    let auth = STANDARD.encode(format!("puller:{password}"));
    json!({ "auths": { "registry.example.com": { "auth": auth } } }).to_string()
}

pub(crate) fn ssh_secret() -> Value {
    secret("ssh", "ssh-publickey", SSH_KEY)
}
