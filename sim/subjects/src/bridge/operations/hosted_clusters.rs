//! What other clients do to HostedClusters and NodePools, and the faults of control planes.

use lockstep_bridge::names;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::random::Random;
use lockstep_external::hypershift;
use lockstep_sim::subject::Client;
use serde_json::json;

use crate::bridge::setup::{BRIDGES, IMAGES, NAMESPACE};

/// Returns the HostedCluster of a bridge.
pub(super) fn hosted_cluster(name: &str) -> ObjectRef {
    ObjectRef::namespaced(&names::hosted_cluster(), NAMESPACE, name)
}

/// Starts or ends a fault of a bridge's control plane.
pub(super) fn annotate(client: &mut dyn Client, name: &str, what: &str, value: Option<&str>) {
    client.merge(&hosted_cluster(name), &json!({ "metadata": { "annotations": { what: value } } }));
}

pub(super) fn make_unhealthy(client: &mut dyn Client, random: &mut Random) {
    let how = random.pick(&[Some(hypershift::DEGRADED), Some(hypershift::FLAPPING), None]);
    annotate(client, random.pick(&BRIDGES), hypershift::AILS, how);
}

/// Upgrades complete when the nodes are ready.
pub(super) fn keep_nodes_away(client: &mut dyn Client, random: &mut Random) {
    let nodes = random.pick(&[Some(hypershift::NO_NODES), None]);
    annotate(client, random.pick(&BRIDGES), hypershift::NODES, nodes);
}

/// An older HyperShift does not report the version of the control plane.
pub(super) fn replace_hypershift(client: &mut dyn Client, random: &mut Random) {
    let reports = random.pick(&[Some(hypershift::VERSION_ONLY), None]);
    annotate(client, random.pick(&BRIDGES), hypershift::REPORTS, reports);
}

pub(super) fn pause_hypershift(client: &mut dyn Client, random: &mut Random) {
    let until = random.pick(&[Some("true"), None]);
    client.merge(&hosted_cluster(random.pick(&BRIDGES)), &json!({ "spec": { "pausedUntil": until } }));
}

pub(super) fn cut_off(client: &mut dyn Client, random: &mut Random) {
    let releases = random.pick(&[Some(hypershift::UNREACHABLE), None]);
    annotate(client, random.pick(&BRIDGES), hypershift::RELEASES, releases);
}

pub(super) fn hold_teardown_up(client: &mut dyn Client, random: &mut Random) {
    let held = random.pick(&[Some("true"), None]);
    annotate(client, random.pick(&BRIDGES), hypershift::STUCK, held);
}

pub(super) fn delete_hosted_cluster(client: &mut dyn Client, random: &mut Random) {
    client.delete(&hosted_cluster(random.pick(&BRIDGES)));
}

pub(super) fn delete_node_pool(client: &mut dyn Client, random: &mut Random) {
    client.delete(&ObjectRef::namespaced(&names::node_pool(), NAMESPACE, random.pick(&BRIDGES)));
}

pub(super) fn edit_hosted_cluster(client: &mut dyn Client, random: &mut Random) {
    let cluster = hosted_cluster(random.pick(&BRIDGES));
    let patch = if random.below(2) == 0 {
        json!({ "spec": { "release": { "image": IMAGES[0] } } })
    } else {
        json!({ "metadata": { "labels": { "dpf.hcp.bridge.com/cluster-type": "another", "team": "x" } } })
    };
    client.merge(&cluster, &patch);
}
