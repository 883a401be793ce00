//! An older HyperShift: it does not report the version of the control plane, or can't allocate the CIDRs of nodes.

use std::time::Duration;

use lockstep_external::{System, hypershift};
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{NAMESPACE, UPGRADE, bridge};
use super::scenarios;

/// Returns a cluster with a ready bridge and such a HyperShift.
fn ready(has_nodes: bool) -> Bench {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_secs(2));
    scenarios::annotate(&mut bench, hypershift::REPORTS, &json!(hypershift::VERSION_ONLY));
    if !has_nodes {
        scenarios::annotate(&mut bench, hypershift::NODES, &json!(hypershift::NO_NODES));
    }
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    let status = bench.get("HostedCluster", NAMESPACE, "prod")["status"].clone();
    assert_eq!(status["controlPlaneVersion"], json!(null));
    assert_eq!(status["version"]["history"][0]["state"] == "Completed", has_nodes);
    bench.transitions();
    bench
}

/// The cluster has not failed, and no Event says that it is unhealthy. Returns what has changed.
fn stays_ready(bench: &mut Bench) -> String {
    bench.settle();
    let transitions = bench.transitions();
    assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady", "{transitions}");
    let fails = ("Ready".to_owned(), "Failed".to_owned());
    assert!(!bench.edges.contains(&fails), "{transitions}");
    assert!(!bench.events().contains("Warning"), "{}\n{transitions}", bench.events());
    transitions
}

/// The history of the control plane begins with the rollout in progress. So no version in it is complete.
#[test]
fn a_cluster_stays_ready_while_hypershift_is_updated() {
    for has_nodes in [true, false] {
        for is_upgraded in [true, false] {
            let mut bench = ready(has_nodes);
            scenarios::annotate(&mut bench, hypershift::REPORTS, &Value::Null);
            if is_upgraded {
                bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
            }
            stays_ready(&mut bench);
            let status = bench.get("HostedCluster", NAMESPACE, "prod")["status"].clone();
            let history = status["controlPlaneVersion"]["history"].as_array().expect("a history");
            assert_eq!((history.len(), &history[0]["state"]), (1, &json!("Completed")), "{status:#}");
        }
    }
}

/// A rollout replaces replicas one by one. Without nodes, the version of the whole cluster never completes.
#[test]
fn a_cluster_stays_ready_while_its_replicas_are_replaced() {
    for has_nodes in [true, false] {
        let mut bench = ready(has_nodes);
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
        let transitions = stays_ready(&mut bench);
        assert!(transitions.contains("HostedClusterDegraded=True/UnavailableReplicas"), "{transitions}");
        assert_eq!(bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"], UPGRADE);
    }
}

/// It refuses an update that contains the field.
#[test]
fn a_cluster_is_upgraded_by_a_hypershift_that_cannot_allocate_node_cidrs() {
    let mut bench = Bench::new();
    bench.delete("CustomResourceDefinition", "", "hostedclusters.hypershift.openshift.io");
    for crd in lockstep_external::older_hypershift() {
        if crd["spec"]["names"]["kind"] == "HostedCluster" {
            bench.create(&crd);
        }
    }
    bench.create(&bridge("prod"));
    bench.settle();
    let allocation = |bench: &mut Bench| {
        bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["networking"]["allocateNodeCIDRs"].clone()
    };
    assert_eq!(allocation(&mut bench), Value::Null);
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.settle();
    assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied");
    assert_eq!(bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"], UPGRADE);
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);

    // HyperShift is updated.
    let current = lockstep_external::definitions(&[System::HyperShift]);
    let current = current.iter().find(|crd| crd["spec"]["names"]["kind"] == "HostedCluster");
    let versions = &current.expect("the CRD")["spec"]["versions"];
    let crd = "hostedclusters.hypershift.openshift.io";
    bench.merge("CustomResourceDefinition", "", crd, &json!({ "spec": { "versions": versions } }));
    bench.change("prod", &json!({ "clusterType": "dpf-dev" }));
    bench.settle();
    assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied");
    assert_eq!(allocation(&mut bench), Value::Null, "a cluster keeps its networks");
}
