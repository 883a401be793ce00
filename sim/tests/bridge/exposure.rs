//! The exposure of a cluster that serves.

use std::time::Duration;

use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::NAMESPACE;
use super::scenarios::node_ports;

/// HyperShift stops reconciling such a cluster, which goes on serving (decision 52).
#[test]
fn an_invalid_configuration_does_not_affect_the_exposure_of_a_cluster_that_serves() {
    for (ready, exposed) in
        [(Bench::ready as fn() -> Bench, "True/LoadBalancerReady"), (node_ports, "True/NodePortReady")]
    {
        let mut bench = ready();
        let before = bench.condition("prod", "ServiceExposureReady");
        assert_eq!(before.0, exposed);
        bench.silence("HostedCluster");
        bench.set_condition("HostedCluster", "ValidConfiguration", "False", "InvalidConfiguration");
        bench.set_condition("HostedCluster", "Progressing", "False", "Blocked");
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.condition("prod", "ServiceExposureReady"), before);
        let (ready, message) = bench.condition("prod", "Ready");
        assert_eq!((ready.as_str(), bench.phase("prod").as_str()), ("True/ClusterReady", "Ready"));
        assert!(message.contains("HyperShift can't change it now: Blocked: as a test wants it"), "{message}");
    }
}

/// Sets the addresses of the Node.
fn address(bench: &mut Bench, addresses: &Value) {
    bench.merge("Node", "", "worker-1/status", &json!({ "status": { "addresses": addresses } }));
}

fn is_exposed(bench: &mut Bench) -> bool {
    bench.settle();
    let (exposure, message) = bench.condition("prod", "ServiceExposureReady");
    let ready = bench.condition("prod", "Ready");
    if exposure == "True/NodePortReady" {
        assert_eq!((ready.0.as_str(), bench.phase("prod").as_str()), ("True/ClusterReady", "Ready"));
        return true;
    }
    assert_eq!(exposure, "False/NodePortUnreachable");
    assert!(message.starts_with("no Node has the address 198.51.100.7 any more"), "{message}");
    assert_eq!(ready, ("False/WaitingForInfrastructure".to_owned(), message));
    assert_eq!(bench.phase("prod"), "Failed");
    false
}

/// The address is in a field of the HostedCluster that can't be changed.
#[test]
fn a_node_port_at_an_address_that_no_node_has_is_reported() {
    let mut bench = node_ports();
    assert!(is_exposed(&mut bench));
    address(&mut bench, &json!([{ "type": "InternalIP", "address": "198.51.100.8" }]));
    assert!(!is_exposed(&mut bench));
    // Any address of any Node is reachable.
    address(
        &mut bench,
        &json!([{ "type": "InternalIP", "address": "198.51.100.8" }, { "type": "ExternalIP", "address": "198.51.100.7" }]),
    );
    assert!(is_exposed(&mut bench));
    bench.delete("Node", "", "worker-1");
    assert!(!is_exposed(&mut bench));
    bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } }));
    address(&mut bench, &json!([{ "type": "InternalIP", "address": "198.51.100.7" }]));
    assert!(is_exposed(&mut bench));
}

/// The exposure of a HostedCluster can't be changed, so its node port still counts.
#[test]
fn a_lost_node_is_noticed_although_the_spec_asks_for_a_load_balancer() {
    let mut bench = node_ports();
    bench.change("prod", &json!({ "exposeThroughLoadBalancer": true, "metalLBVirtualIP": "192.0.2.10" }));
    assert!(is_exposed(&mut bench));
    bench.delete("Node", "", "worker-1");
    assert!(!is_exposed(&mut bench));
}

#[test]
fn a_node_port_stays_ready_while_nodes_can_not_be_watched() {
    let mut bench = node_ports();
    bench.forbid_watch("Node");
    bench.cluster.advance(Duration::from_mins(10));
    bench.delete("Node", "", "worker-1");
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.condition("prod", "ServiceExposureReady").0, "True/NodePortReady");
    assert_eq!(bench.phase("prod"), "Ready");
    assert_ne!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
    bench.permit_watch();
    assert!(!is_exposed(&mut bench));
}
