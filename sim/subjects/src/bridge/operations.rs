//! The operations of users, admins and other controllers.

use std::sync::Arc;

use lockstep_bridge::names;
use lockstep_crds::bridge::GENERATED;
use lockstep_engine::object::{Kind, Name, ObjectRef, annotation, is_deleting, metadata};
use lockstep_engine::random::Random;
use lockstep_external::hypershift;
use lockstep_external::registry::Health;
use lockstep_sim::history::reference;
use lockstep_sim::invariant::SECRET;
use lockstep_sim::subject::{Client, Operation};
use serde_json::{Value, json};

use self::bridges::{at, bridge, change};
use self::hosted_clusters::{annotate, hosted_cluster};
use self::keys::{key_of, restore_keys};
use super::setup::{
    self, BRIDGES, DPF, DPU_CLUSTERS, IMAGES, KUBECONFIG_OF_OTHERS, NAMESPACE, OWN_VIPS, PULL_SECRETS,
    SSH_SECRETS, STORAGE_CLASS, VIPS,
};
use crate::dpf;

mod bridges;
mod hosted_clusters;
mod keys;
mod metallb;
mod mistakes;
mod node_ports;
mod own_pool;

pub(super) use self::bridges::target;

/// Addresses that bridges request and that an unrelated Service has at times.
const SHARED: [&str; 2] = ["192.0.2.50", "192.0.2.51"];

/// A network of pods that is not the default.
pub(super) const OTHER_NETWORK: &str = "10.128.0.0/14";

pub(super) const OPERATIONS: &[Operation] = &[
    Operation::new("create a bridge", "user", 12, create_bridge),
    Operation::new("create a bridge under an impossible name", "user", 1, mistakes::create_impossible),
    Operation::new(
        "create or delete a bridge with the names of another",
        "user",
        6,
        mistakes::toggle_namesake,
    ),
    Operation::new("delete a bridge", "user", 5, delete_bridge),
    Operation::new("replace a bridge", "user", 2, replace_bridge),
    Operation::new("choose a release image", "user", 6, choose_image),
    Operation::new("choose an address", "user", 4, choose_address),
    Operation::new("swap the addresses of two bridges", "user", 3, swap_addresses),
    Operation::new("move an address out of every pool", "user", 2, leave_pools),
    Operation::new("name other Secrets", "user", 3, choose_secrets),
    Operation::new("name a Secret that can't exist", "user", 2, mistakes::misname_secret),
    Operation::new("change what can be changed", "user", 3, change_mutable),
    Operation::new("change what can't be changed", "user", 3, change_immutable),
    Operation::new("rotate a Secret", "admin", 6, rotate),
    Operation::new("break a Secret", "admin", 4, break_secret),
    Operation::new("delete a Secret", "admin", 3, delete_secret),
    Operation::new("put everything right", "admin", 6, restore),
    Operation::new("break the StorageClass", "admin", 2, break_storage_class),
    Operation::new("remove or move the Node", "admin", 2, node_ports::change_node),
    Operation::new("delete the pool", "admin", 2, delete_pool),
    Operation::new("dedicate the pool to some Services", "admin", 3, metallb::dedicate_pool),
    Operation::new("delete the CRDs of MetalLB", "admin", 1, metallb::uninstall),
    Operation::new("create the CRDs of MetalLB", "admin", 3, |client, _| setup::install_metallb(client)),
    Operation::new("take an address", "admin", 3, take_address),
    Operation::new("request the address of another Service", "user", 3, request_address_of_another),
    Operation::new("request one address for a bridge and a Service", "user", 12, request_for_another),
    Operation::new("let an address go", "other controller", 12, let_go),
    Operation::new("stop HyperShift's operator", "admin", 2, stop_hypershift),
    Operation::new("put the registry out of order", "admin", 4, disturb_registry),
    Operation::new("take a permission to watch", "admin", 6, forbid_watches),
    dpf::DELETE_CRD,
    dpf::CREATE_CRD,
    super::hypershift_crds::DELETE_CRD,
    super::hypershift_crds::CREATE_CRDS,
    super::hypershift_crds::UPDATE,
    Operation::new("delete a DPUCluster", "admin", 3, delete_dpu_cluster),
    Operation::new("create a DPUCluster", "admin", 4, create_dpu_cluster),
    Operation::new("give a DPUCluster a kubeconfig", "admin", 2, give_kubeconfig),
    Operation::new("make a control plane unhealthy", "other controller", 6, hosted_clusters::make_unhealthy),
    Operation::new("replace HyperShift by another version", "admin", 2, hosted_clusters::replace_hypershift),
    Operation::new("keep the nodes away", "other controller", 3, hosted_clusters::keep_nodes_away),
    Operation::new("pause HyperShift", "admin", 3, hosted_clusters::pause_hypershift),
    Operation::new("cut HyperShift off from its images", "admin", 3, hosted_clusters::cut_off),
    Operation::new("hold a teardown up", "other controller", 2, hosted_clusters::hold_teardown_up),
    Operation::new("delete a HostedCluster", "other controller", 2, hosted_clusters::delete_hosted_cluster),
    Operation::new("delete a NodePool", "other controller", 2, hosted_clusters::delete_node_pool),
    Operation::new("edit a HostedCluster", "other controller", 3, hosted_clusters::edit_hosted_cluster),
    super::rival::TOGGLE,
    Operation::new("change a copy", "other controller", 4, change_copy),
    Operation::new("damage a key for etcd", "other controller", 2, keys::damage),
    Operation::new("delete a copy", "other controller", 3, delete_copy),
    Operation::new("change the pool of a bridge", "other controller", 4, own_pool::change),
    Operation::new("create a pool", "admin", 2, own_pool::create_overlapping),
    Operation::new("occupy a name", "other controller", 6, occupy),
];

/// Creates a plain bridge, and one that encrypts etcd and has a pool of its own, before the start.
pub(super) fn begin(client: &mut dyn Client) {
    create_named(client, BRIDGES[0], 0);
    let mut other = bridge(BRIDGES[1], 1);
    other["spec"]["etcdEncryption"] = json!(GENERATED);
    own_pool::request(&mut other, at(1));
    client.create(&names::bridge(), &other);
}

/// Creates the bridge of each DPUCluster, if it does not exist.
pub(crate) fn create_bridges(client: &mut dyn Client) {
    for (index, name) in BRIDGES.into_iter().take(DPU_CLUSTERS.len()).enumerate() {
        create_named(client, name, index);
    }
}

/// Creates a bridge for the DPUCluster with this index, if the bridge does not exist.
pub(super) fn create_named(client: &mut dyn Client, name: &str, index: usize) {
    client.create(&names::bridge(), &bridge(name, index));
}

/// After fault injection has ended, gives every bridge a spec that can be satisfied and releases what users have blocked. If DPF
/// or HyperShift is not installed any more, all bridges are deleted.
pub(super) fn settle(client: &mut dyn Client) {
    let blocked =
        [names::hosted_cluster(), names::node_pool(), names::secret(), names::pool(), names::advertisement()];
    for kind in blocked {
        for object in client.server().objects(&kind) {
            if object["metadata"]["annotations"]["squatter"].is_string() {
                client.delete(&reference(&kind, &object));
            }
        }
    }
    for name in BRIDGES {
        let namespace = names::control_plane_namespace(&Name::new(NAMESPACE, name));
        let namespace = ObjectRef::cluster(&names::namespace(), &namespace);
        let found = client.server().object(&namespace);
        let is_squatter = found.is_some_and(|it| annotation(it, "squatter").is_some());
        // A HostedCluster that was created at the same time uses the namespace.
        if is_squatter && client.server().object(&hosted_cluster(name)).is_none() {
            client.delete(&namespace);
        }
    }
    restore_keys(client);
    for object in client.server().objects(&names::hosted_cluster()) {
        let name = metadata(&object, "name");
        annotate(client, name, hypershift::STUCK, None);
        annotate(client, name, hypershift::NODES, None);
        annotate(client, name, hypershift::RELEASES, None);
        client.merge(&hosted_cluster(name), &json!({ "spec": { "pausedUntil": null } }));
        // A degraded control plane still serves requests, so it may remain degraded. One that is only ready at times never
        // settles, and one that was never ready has to become healthy first.
        let bridge = client.server().object(&target(name)).map(|bridge| bridge["status"]["phase"].clone());
        let was_ready = bridge.is_some_and(|phase| phase == "Ready");
        if annotation(&object, hypershift::AILS).is_some() {
            annotate(client, name, hypershift::AILS, was_ready.then_some(hypershift::DEGRADED));
        }
    }
    mistakes::correct(client);
    super::rival::stop(client);
    let is_installed = dpf::is_installed(client) && super::hypershift_crds::is_installed(client);
    for (index, name) in BRIDGES.into_iter().enumerate() {
        if !is_installed {
            client.delete(&target(name));
            continue;
        }
        let wanted = bridge(name, index)["spec"].clone();
        let fields = ["metalLBVirtualIP", "etcdStorageClass", "exposeThroughLoadBalancer"];
        let mut patch = json!({ "ocpReleaseImage": IMAGES[1], "networking": null, "capabilities": null });
        for field in fields {
            patch[field] = wanted[field].clone();
        }
        if own_pool::is_requested(client, name) {
            patch["metalLBVirtualIP"] = json!(OWN_VIPS[at(index)]);
            client.merge(&target(name), &json!({ "spec": patch }));
            continue;
        }
        if node_ports::are_used(client, name) {
            node_ports::request(&mut patch);
            client.merge(&target(name), &json!({ "spec": patch }));
            continue;
        }
        // Who waits for the address of the unrelated Service, which has moved, must get it without another change.
        let asked =
            client.server().object(&target(name)).map(|bridge| bridge["spec"]["metalLBVirtualIP"].clone());
        if let Some(asked) = asked.filter(|asked| SHARED.iter().any(|shared| asked == shared)) {
            patch["metalLBVirtualIP"] = asked;
        }
        client.merge(&target(name), &json!({ "spec": patch }));
    }
}

/// Every other bridge encrypts etcd. One in three has a pool of its own, and one in six is reached through node ports.
fn create_bridge(client: &mut dyn Client, random: &mut Random) {
    let index = usize::try_from(random.below(BRIDGES.len() as u64)).unwrap_or(0);
    let mut bridge = bridge(BRIDGES[index], index);
    if random.below(2) == 0 {
        bridge["spec"]["etcdEncryption"] = json!(GENERATED);
    }
    match random.below(6) {
        0 | 1 => own_pool::request(&mut bridge, at(index)),
        2 => node_ports::request(&mut bridge["spec"]),
        _ => {}
    }
    client.create(&names::bridge(), &bridge);
}

fn delete_bridge(client: &mut dyn Client, random: &mut Random) {
    client.delete(&target(random.pick(&BRIDGES)));
}

/// Deletes a bridge, removes its finalizer, as an impatient user does, and creates it again as it was, with the finalizer. Without
/// that, nothing would remove what the finalizer was for. These bridges have no rival that could get their DPUCluster meanwhile.
fn replace_bridge(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&BRIDGES[..2]);
    let target = target(name);
    if let Some(bridge) = client.server().object(&target).cloned() {
        client.delete(&target);
        client.merge(&target, &json!({ "metadata": { "finalizers": null } }));
        let finalizers = &bridge["metadata"]["finalizers"];
        let metadata = json!({ "namespace": NAMESPACE, "name": name, "finalizers": finalizers });
        client.create(&names::bridge(), &json!({ "metadata": metadata, "spec": bridge["spec"] }));
    }
}

fn choose_image(client: &mut dyn Client, random: &mut Random) {
    let image = random.pick(&IMAGES);
    change(client, random, &json!({ "ocpReleaseImage": image }));
}

fn choose_address(client: &mut dyn Client, random: &mut Random) {
    // The last one is in no pool.
    let address = random.pick(&[VIPS[0], VIPS[1], VIPS[2], "192.0.2.40", own_pool::SPARE]);
    change(client, random, &json!({ "metalLBVirtualIP": address }));
}

fn swap_addresses(client: &mut dyn Client, random: &mut Random) {
    let names = [random.pick(&BRIDGES), random.pick(&BRIDGES)];
    // Bridges with pools of their own can't swap.
    if names.iter().any(|name| own_pool::is_requested(client, name)) {
        return;
    }
    let bridges = client.server().objects(&names::bridge());
    let address = |name: &str| {
        let bridge = bridges.iter().find(|bridge| metadata(bridge, "name") == name)?;
        Some(bridge["spec"]["metalLBVirtualIP"].clone())
    };
    let Some((first, second)) = address(names[0]).zip(address(names[1])) else { return };
    for (name, address) in [(names[0], second), (names[1], first)] {
        client.merge(&target(name), &json!({ "spec": { "metalLBVirtualIP": address } }));
    }
}

fn leave_pools(client: &mut dyn Client, random: &mut Random) {
    change(client, random, &json!({ "metalLBVirtualIP": "198.51.100.1" }));
}

fn choose_secrets(client: &mut dyn Client, random: &mut Random) {
    let (pull, ssh) = (random.pick(&PULL_SECRETS), random.pick(&SSH_SECRETS));
    change(client, random, &json!({ "pullSecretRef": { "name": pull }, "sshKeySecretRef": { "name": ssh } }));
}

fn change_mutable(client: &mut dyn Client, random: &mut Random) {
    let policy = random.pick(&["HighlyAvailable", "SingleReplica"]);
    let kind = random.pick(&["dpf-production", "dpf-dev"]);
    change(client, random, &json!({ "infrastructureAvailabilityPolicy": policy, "clusterType": kind }));
}

fn change_immutable(client: &mut dyn Client, random: &mut Random) {
    let policy = random.pick(&["HighlyAvailable", "SingleReplica"]);
    let class = random.pick(&[STORAGE_CLASS, "another"]);
    let capabilities = (class == "another").then(|| json!({ "disabled": ["Console"] }));
    let immutable = json!({
        "controlPlaneAvailabilityPolicy": policy,
        "etcdStorageClass": class,
        "networking": (policy == "SingleReplica").then(|| json!({ "clusterNetwork": OTHER_NETWORK })),
        "capabilities": capabilities,
    });
    change(client, random, &immutable);
    if random.below(4) == 0 {
        node_ports::change(client, random);
    }
}

fn rotate(client: &mut dyn Client, random: &mut Random) {
    let which = random.below(5).to_string();
    if random.below(2) == 0 {
        let name = random.pick(&PULL_SECRETS);
        setup::write_secret(client, name, ".dockerconfigjson", &setup::docker_config(&which));
    } else {
        setup::write_secret(client, random.pick(&SSH_SECRETS), "ssh-publickey", &setup::ssh_keys(&which));
    }
}

fn break_secret(client: &mut dyn Client, random: &mut Random) {
    let broken = format!("{{\"{SECRET}\": ");
    if random.below(2) == 0 {
        setup::write_secret(client, random.pick(&PULL_SECRETS), ".dockerconfigjson", &broken);
    } else {
        setup::write_secret(client, random.pick(&SSH_SECRETS), "ssh-publickey", &broken);
    }
}

fn delete_secret(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&[PULL_SECRETS[0], PULL_SECRETS[1], SSH_SECRETS[0], SSH_SECRETS[1]]);
    client.delete(&ObjectRef::namespaced(&names::secret(), NAMESPACE, name));
}

fn restore(client: &mut dyn Client, _: &mut Random) {
    dpf::install(client);
    super::hypershift_crds::install(client);
    setup::restore(client);
    restore_keys(client);
}

/// Deletes the StorageClass, or replaces it by one that provisions nothing.
fn break_storage_class(client: &mut dyn Client, random: &mut Random) {
    client.delete(&setup::storage_class());
    if random.below(2) == 0 {
        setup::create_storage(client, "kubernetes.io/no-provisioner");
    }
}

fn delete_pool(client: &mut dyn Client, _: &mut Random) {
    client.delete(&setup::pool());
}

fn take_address(client: &mut dyn Client, random: &mut Random) {
    let address = random.pick(&VIPS);
    let metadata = json!({ "namespace": NAMESPACE, "name": "squatter", "annotations": { "metallb.io/loadBalancerIPs": address } });
    let object =
        json!({ "metadata": metadata, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] } });
    client.create(&names::service(), &object);
}

/// Sets the address of a bridge to that of an unrelated Service.
fn request_address_of_another(client: &mut dyn Client, random: &mut Random) {
    if let Some(address) = setup::address_of_stranger(client) {
        change(client, random, &json!({ "metalLBVirtualIP": address }));
    }
}

/// Makes a bridge and an unrelated Service request the same free address at the same time.
fn request_for_another(client: &mut dyn Client, random: &mut Random) {
    let address = random.pick(&SHARED);
    if random.below(2) == 0 {
        setup::move_stranger(client, address);
        change(client, random, &json!({ "metalLBVirtualIP": address }));
    } else {
        change(client, random, &json!({ "metalLBVirtualIP": address }));
        setup::move_stranger(client, address);
    }
}

/// Moves the unrelated Service to another address.
fn let_go(client: &mut dyn Client, random: &mut Random) {
    setup::move_stranger(client, random.pick(&["192.0.2.60", "192.0.2.61"]));
}

fn stop_hypershift(client: &mut dyn Client, _: &mut Random) {
    setup::run_hypershift(client, false);
}

fn disturb_registry(client: &mut dyn Client, random: &mut Random) {
    let health = random.pick(&[Health::Up, Health::Down, Health::Forbidden]);
    setup::with_registry(client, |registry| registry.health = health);
}

/// Revokes the controller's permission to list and watch a kind, or restores it for all kinds.
fn forbid_watches(client: &mut dyn Client, random: &mut Random) {
    let mut kinds = setup::watched().to_vec();
    // The loss of the own kind is the hardest to notice: nothing else shows what is missed.
    kinds.extend([names::bridge(), names::bridge()]);
    client.forbid_or_permit_watches(&kinds, random);
}

fn delete_dpu_cluster(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&DPU_CLUSTERS);
    client.delete(&ObjectRef::namespaced(&names::dpu_cluster(), DPF, name));
}

/// Creates a DPUCluster, sometimes of a type for which no bridge can have a cluster.
fn create_dpu_cluster(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&DPU_CLUSTERS);
    if random.below(2) == 0 {
        setup::create_dpu_cluster(client, name, setup::KAMAJI);
    } else {
        setup::restore_dpu_cluster(client, name);
    }
}

/// Sets the kubeconfig of a DPUCluster in the name of another client, or removes it.
fn give_kubeconfig(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&DPU_CLUSTERS);
    let kubeconfig = random.pick(&[Some(KUBECONFIG_OF_OTHERS), None]);
    let target = ObjectRef::namespaced(&names::dpu_cluster(), DPF, name);
    client.merge(&target, &json!({ "spec": { "kubeconfig": kubeconfig } }));
}

/// Returns a random Secret that a bridge has created.
fn any_copy(client: &dyn Client, random: &mut Random) -> Option<ObjectRef> {
    let kind = names::secret();
    let copies = client.server().objects(&kind);
    let copies: Vec<_> =
        copies.iter().filter(|secret| secret["metadata"]["labels"][names::BRIDGE_NAME].is_string()).collect();
    let index = usize::try_from(random.below(copies.len() as u64)).ok()?;
    copies.get(index).filter(|copy| !is_deleting(copy)).map(|copy| reference(&kind, copy))
}

fn change_copy(client: &mut dyn Client, random: &mut Random) {
    if let Some(copy) = any_copy(client, random) {
        let key = random.pick(&[".dockerconfigjson", "id_rsa.pub", "super-admin.conf", "admin.conf"]);
        client.merge(&copy, &json!({ "data": { key: "e30=" } }));
    }
}

/// Deletes a copy, or the key for etcd.
fn delete_copy(client: &mut dyn Client, random: &mut Random) {
    let copy = any_copy(client, random);
    let keys = BRIDGES.iter().map(|name| key_of(name));
    let keys: Vec<_> = keys.filter(|key| client.server().object(key).is_some()).collect();
    let index = usize::try_from(random.below(2 * keys.len() as u64)).unwrap_or(0);
    if let Some(key) = keys.get(index) {
        client.delete(key);
    } else if let Some(copy) = copy {
        client.delete(&copy);
    }
}

/// Creates an object with a name that a bridge would use.
fn occupy(client: &mut dyn Client, random: &mut Random) {
    let name = random.pick(&BRIDGES);
    let metadata =
        |name: &str| json!({ "namespace": NAMESPACE, "name": name, "annotations": { "squatter": "yes" } });
    let (kind, object): (Arc<Kind>, Value) = match random.below(6) {
        5 => {
            // HyperShift uses a namespace that appears after the HostedCluster.
            if client.server().object(&hosted_cluster(name)).is_some() {
                return;
            }
            let namespace = names::control_plane_namespace(&Name::new(NAMESPACE, name));
            let metadata = json!({ "name": namespace, "annotations": { "squatter": "yes" } });
            (names::namespace(), json!({ "metadata": metadata }))
        }
        4 => {
            let spec = json!({
                "release": { "image": IMAGES[0] },
                "platform": { "type": "None" },
                "pullSecret": { "name": PULL_SECRETS[0] },
                "sshKey": { "name": SSH_SECRETS[0] },
                "services": [{ "service": "APIServer", "servicePublishingStrategy": { "type": "LoadBalancer" } }],
            });
            (names::hosted_cluster(), json!({ "metadata": metadata(name), "spec": spec }))
        }
        3 => own_pool::blocker(name, random),
        0 => {
            let spec = json!({
                "clusterName": name,
                "replicas": 0,
                "release": { "image": IMAGES[0] },
                "platform": { "type": "None" },
                "management": { "upgradeType": "Replace" },
            });
            (names::node_pool(), json!({ "metadata": metadata(name), "spec": spec }))
        }
        which => {
            let copy = if which == 1 { format!("{name}-pull-secret") } else { format!("{name}-ssh-key") };
            let secret = if random.below(2) == 0 { key_of(name).name } else { copy };
            (names::secret(), json!({ "metadata": metadata(&secret) }))
        }
    };
    client.create(&kind, &object);
}
