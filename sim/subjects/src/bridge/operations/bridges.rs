//! The bridges of the simulation.

use lockstep_bridge::names;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::random::Random;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use crate::bridge::setup::{
    BRIDGES, DPF, DPU_CLUSTERS, IMAGES, NAMESPACE, PULL_SECRETS, SSH_SECRETS, STORAGE_CLASS, VIPS,
};

pub(in crate::bridge) fn target(name: &str) -> ObjectRef {
    ObjectRef::namespaced(&names::bridge(), NAMESPACE, name)
}

/// Returns the index of the DPUCluster and the address of a bridge.
pub(super) fn at(index: usize) -> usize {
    index.min(DPU_CLUSTERS.len() - 1)
}

pub(super) fn bridge(name: &str, index: usize) -> Value {
    let at = at(index);
    json!({
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "dpuClusterRef": { "namespace": DPF, "name": DPU_CLUSTERS[at] },
            "baseDomain": "clusters.example.com",
            "ocpReleaseImage": IMAGES[0],
            "sshKeySecretRef": { "name": SSH_SECRETS[0] },
            "pullSecretRef": { "name": PULL_SECRETS[0] },
            "etcdStorageClass": STORAGE_CLASS,
            "controlPlaneAvailabilityPolicy": "HighlyAvailable",
            "infrastructureAvailabilityPolicy": "HighlyAvailable",
            "exposeThroughLoadBalancer": true,
            "metalLBVirtualIP": VIPS[at],
            "clusterType": "dpf-production",
        },
    })
}

/// Changes the spec of a random bridge.
pub(super) fn change(client: &mut dyn Client, random: &mut Random, spec: &Value) {
    client.merge(&target(random.pick(&BRIDGES)), &json!({ "spec": spec }));
}
