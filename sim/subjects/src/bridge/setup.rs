//! The prerequisites of bridges, in their correct state.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_bridge::names;
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_external::registry::{Health, Image, Registry};
use lockstep_external::{System, hypershift, metallb};
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use crate::kinds;

pub(super) const NAMESPACE: &str = "bridges";
pub(crate) const DPF: &str = "dpf";
const METALLB: &str = metallb::NAMESPACE;
pub(super) const STORAGE_CLASS: &str = "ceph-rbd";
pub(crate) const DPU_CLUSTERS: [&str; 3] = ["north", "south", "west"];
pub(super) const VIPS: [&str; 3] = ["192.0.2.10", "192.0.2.20", "192.0.2.30"];
/// The names of bridges: one for each DPUCluster, and one that has to wait.
pub(super) const BRIDGES: [&str; 4] = ["prod", "edge-stage", "dev", "lab"];
/// Another namespace. With a bridge's name in it, the control plane and the kubeconfig's copy have the names of the second bridge's.
pub(super) const NAMESAKE_NAMESPACE: &str = "bridges-edge";
/// That bridge's name.
pub(super) const NAMESAKE: &str = "stage";
/// The addresses of bridges with pools of their own, which are in no other pool: below and above the shared one.
pub(super) const OWN_VIPS: [&str; 3] = ["10.0.113.10", "203.0.113.20", "203.0.113.30"];
/// The first two images are valid.
pub(super) const IMAGES: [&str; 4] = [
    "registry.example.com/ocp-release:4.19.0-multi",
    "registry.example.com/ocp-release:4.20.1-multi",
    "registry.example.com/ocp-release:4.3.0-multi",
    "registry.example.com/ocp-release:4.20.9-multi",
];
/// The Secrets that bridges may refer to.
pub(super) const PULL_SECRETS: [&str; 2] = ["pull", "pull-too"];
pub(super) const SSH_SECRETS: [&str; 2] = ["ssh", "ssh-too"];

/// The Node, and its address after a restore.
pub(super) const NODE: &str = "worker";
const NODE_ADDRESS: &str = "198.51.100.7";

const PROVISIONER: &str = "rbd.csi.ceph.com";

/// The type of DPUClusters that DPF itself provides.
pub(super) const KAMAJI: &str = "kamaji";
/// A kubeconfig that another client sets on a DPUCluster.
pub(super) const KUBECONFIG_OF_OTHERS: &str = "theirs";

const SSH_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1vbnRhZ25lIGVzdCBoYXV0ZSBldCBsb2ludGFpbmUu";

/// Returns a registry that has all images but the last.
pub(super) fn registry() -> Registry {
    let has = IMAGES[..3].iter().map(|image| {
        let digest = format!("sha256:{:x}", image.len());
        ((*image).to_owned(), Image { digest, release: None, credentials: None })
    });
    Registry { images: has.collect(), health: Health::Up }
}

/// Changes the registry, for example to make it fail.
pub(super) fn with_registry(client: &mut dyn Client, change: impl FnOnce(&mut Registry)) {
    if let Some(registry) = client.outside().and_then(|(outside, _)| outside.find_mut()) {
        change(registry);
    }
}

pub(super) fn namespace() -> Arc<Kind> {
    Kind::known("", "v1", "Namespace", "namespaces", false)
}

/// Creates the prerequisites before the start.
pub(super) fn begin(client: &mut dyn Client) {
    install(client);
    restore(client);
}

/// Creates the prerequisites of one bridge.
pub(super) fn begin_small(client: &mut dyn Client) {
    install(client);
    restore_dpu_cluster(client, DPU_CLUSTERS[0]);
    restore_storage(client);
    create_pool(client);
    write_secret(client, PULL_SECRETS[0], ".dockerconfigjson", &docker_config("1"));
    write_secret(client, SSH_SECRETS[0], "ssh-publickey", &ssh_keys("1"));
}

/// Creates the namespaces, and installs HyperShift.
fn install(client: &mut dyn Client) {
    for name in [NAMESPACE, NAMESAKE_NAMESPACE, DPF, METALLB] {
        client.create(&namespace(), &json!({ "metadata": { "name": name } }));
    }
    for object in hypershift::installation() {
        let kind = match object["kind"].as_str() {
            Some("Namespace") => namespace(),
            Some("Deployment") => names::deployment(),
            _ => names::config_map(),
        };
        client.create(&kind, &object);
    }
}

pub(super) fn storage_class() -> ObjectRef {
    ObjectRef::cluster(&names::storage_class(), STORAGE_CLASS)
}

pub(super) fn create_storage(client: &mut dyn Client, provisioner: &str) {
    let object = json!({ "metadata": { "name": STORAGE_CLASS }, "provisioner": provisioner });
    client.create(&names::storage_class(), &object);
}

/// Creates the StorageClass, or replaces one with another provisioner, which can't be changed.
fn restore_storage(client: &mut dyn Client) {
    let existing = client.server().object(&storage_class());
    if existing.is_some_and(|existing| existing["provisioner"] != PROVISIONER) {
        client.delete(&storage_class());
    }
    create_storage(client, PROVISIONER);
}

/// Creates the Node with an address, or changes its address.
pub(super) fn create_node(client: &mut dyn Client, address: &str) {
    client.create(&names::node(), &json!({ "metadata": { "name": NODE } }));
    let status = json!({ "addresses": [{ "type": "InternalIP", "address": address }] });
    client.merge_status(&ObjectRef::cluster(&names::node(), NODE), &status);
}

/// Creates the CRDs of MetalLB, if they do not exist.
pub(super) fn install_metallb(client: &mut dyn Client) {
    kinds::install(client, System::MetalLb);
}

/// Creates the pool, or lets it serve all Services.
fn create_pool(client: &mut dyn Client) {
    client.create(
        &names::pool(),
        &json!({ "metadata": { "namespace": METALLB, "name": "vips" }, "spec": { "addresses": ["192.0.2.0/24"], "autoAssign": false } }),
    );
    client.merge(&pool(), &json!({ "spec": { "serviceAllocation": null } }));
}

/// Restores everything that an operation has broken. DPF is not installed again.
pub(super) fn restore(client: &mut dyn Client) {
    with_registry(client, |registry| registry.health = Health::Up);
    client.permit_all_watches(&watched());
    run_hypershift(client, true);
    for name in DPU_CLUSTERS {
        restore_dpu_cluster(client, name);
    }
    restore_storage(client);
    create_node(client, NODE_ADDRESS);
    install_metallb(client);
    create_pool(client);
    for name in PULL_SECRETS {
        write_secret(client, name, ".dockerconfigjson", &docker_config("1"));
    }
    for name in SSH_SECRETS {
        write_secret(client, name, "ssh-publickey", &ssh_keys("1"));
    }
    move_stranger(client, "192.0.2.69");
    for name in [NAMESPACE, METALLB] {
        client.delete(&ObjectRef::namespaced(&names::service(), name, "squatter"));
    }
}

/// Returns an unrelated Service with an address of the same pool.
fn stranger() -> ObjectRef {
    ObjectRef::namespaced(&names::service(), METALLB, "stranger")
}

/// Makes the unrelated Service request an address that no other Service may have.
pub(super) fn move_stranger(client: &mut dyn Client, address: &str) {
    let target = stranger();
    let annotations = json!({ "metallb.io/loadBalancerIPs": address });
    if client.server().object(&target).is_some() {
        client.merge(&target, &json!({ "metadata": { "annotations": annotations } }));
        return;
    }
    let metadata = json!({ "namespace": target.namespace, "name": target.name, "annotations": annotations });
    let object =
        json!({ "metadata": metadata, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] } });
    client.create(&names::service(), &object);
}

/// Returns the address of the unrelated Service.
pub(super) fn address_of_stranger(client: &dyn Client) -> Option<String> {
    let service = client.server().object(&stranger())?;
    service["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned)
}

/// Returns the kinds for which the watch permission may be revoked.
pub(super) fn watched() -> [Arc<Kind>; 10] {
    [
        names::bridge(),
        names::hosted_cluster(),
        names::node_pool(),
        names::service(),
        names::secret(),
        names::dpu_cluster(),
        names::pool(),
        names::advertisement(),
        names::storage_class(),
        names::node(),
    ]
}

/// Returns the namespace in which bridges have pools of their own.
pub(super) fn own_pools() -> Value {
    json!({ "namespace": METALLB })
}

/// Returns metadata of an object in the namespace of MetalLB that blocks bridges, until faults have ended.
pub(super) fn squatter(name: &str) -> Value {
    json!({ "namespace": METALLB, "name": name, "annotations": { "squatter": "yes" } })
}

pub(super) fn pool() -> ObjectRef {
    ObjectRef::namespaced(&names::pool(), METALLB, "vips")
}

/// Creates a DPUCluster, if it does not exist.
pub(super) fn create_dpu_cluster(client: &mut dyn Client, name: &str, of_type: &str) {
    let object = json!({ "metadata": { "namespace": DPF, "name": name }, "spec": { "type": of_type } });
    client.create(&names::dpu_cluster(), &object);
}

/// Creates a DPUCluster that a bridge can use. One of another type has to go first.
pub(super) fn restore_dpu_cluster(client: &mut dyn Client, name: &str) {
    create_dpu_cluster(client, name, "static");
    let target = ObjectRef::namespaced(&names::dpu_cluster(), DPF, name);
    let Some(existing) = client.server().object(&target).cloned() else { return };
    if existing["spec"]["type"] == KAMAJI {
        client.delete(&target);
    } else if existing["spec"]["kubeconfig"] == KUBECONFIG_OF_OTHERS {
        client.merge(&target, &json!({ "spec": { "kubeconfig": null } }));
    }
}

pub(super) fn run_hypershift(client: &mut dyn Client, runs: bool) {
    let target = ObjectRef::namespaced(&names::deployment(), names::HYPERSHIFT, names::HYPERSHIFT_OPERATOR);
    client.merge(&target, &json!({ "spec": { "replicas": u8::from(runs) } }));
}

/// Creates a Secret, or replaces its content.
pub(super) fn write_secret(client: &mut dyn Client, name: &str, key: &str, content: &str) {
    let data = json!({ key: STANDARD.encode(content) });
    let object = json!({ "metadata": { "namespace": NAMESPACE, "name": name }, "data": data });
    client.create(&names::secret(), &object);
    client.merge(&ObjectRef::namespaced(&names::secret(), NAMESPACE, name), &json!({ "data": data }));
}

/// Returns one of several pull secrets.
pub(super) fn docker_config(which: &str) -> String {
    let auth = STANDARD.encode(format!("puller:{SECRET}{which}"));
    json!({ "auths": { "registry.example.com": { "auth": auth } } }).to_string()
}

/// Returns one of several sets of SSH keys.
pub(super) fn ssh_keys(which: &str) -> String {
    format!("{SSH_KEY} {SECRET}{which}\n")
}

/// Returns a key of a Secret in the namespace of bridges.
pub(super) fn content<'a>(secret: &'a Value, key: &str) -> Option<&'a str> {
    secret["data"][key].as_str()
}
