//! Objects as users of the Bridge write them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The SSH key for nodes; its body must appear in no output.
pub const SSH_KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1vbnRhZ25lIGVzdCBoYXV0ZSBldCBsb2ludGFpbmUu admin@example.com";

/// Returns a DPUCluster whose control plane is created elsewhere.
pub fn dpu_cluster(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
        "kind": "DPUCluster",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "type": "static" },
    })
}

/// Returns a StorageClass for etcd.
pub fn storage_class(name: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": name },
        "provisioner": "rbd.csi.ceph.com",
    })
}

/// Returns an address pool of MetalLB.
pub fn pool(name: &str, range: &str) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": { "name": name, "namespace": "metallb-system" },
        "spec": { "addresses": [range], "autoAssign": false },
    })
}

/// Returns a Node with an address.
pub fn node(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name },
        "status": { "addresses": [{ "type": "InternalIP", "address": address }] },
    })
}

/// Returns a Secret.
pub fn secret(namespace: &str, name: &str, key: &str, content: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": namespace },
        "data": { key: STANDARD.encode(content) },
    })
}

/// Returns the content of a pull secret for the user of a registry.
pub fn docker_config(registry: &str, password: &str) -> String {
    json!({ "auths": { registry: { "auth": STANDARD.encode(format!("user:{password}")) } } }).to_string()
}

/// Returns a namespace.
pub fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}
