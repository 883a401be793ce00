//! The namespace of a control plane: HyperShift uses an existing one, and deletes it with the HostedCluster.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind};
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{NAMESPACE, bridge};
use super::prerequisites::{OTHER, of_another_cluster};

/// The namespace of the control plane of prod.
const CONTROL_PLANE: &str = "dpf-hcp-bridge-system-prod";

/// Creates the namespace, with a ConfigMap in it.
fn occupy(bench: &mut Bench, labels: &Value) {
    let metadata = json!({ "name": CONTROL_PLANE, "labels": labels });
    bench.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }));
    let metadata = json!({ "namespace": CONTROL_PLANE, "name": "shop" });
    bench.create(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata }));
}

#[test]
fn the_namespace_of_another_client_outlives_the_bridge() {
    let mut bench = Bench::new();
    occupy(&mut bench, &json!({ "team": "web" }));
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(30));
    assert_eq!(bench.phase("prod"), "Failed");
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    assert_eq!(bench.bridge("prod"), Value::Null);
    assert_ne!(bench.get("ConfigMap", CONTROL_PLANE, "shop"), Value::Null);
}

/// Namespaces are not watched.
#[test]
fn a_cluster_is_created_soon_after_the_namespace_is_deleted() {
    let mut bench = Bench::new();
    occupy(&mut bench, &json!({}));
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(30));
    bench.delete("Namespace", "", CONTROL_PLANE);
    bench.cluster.advance(Duration::from_mins(1));
    assert_ne!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
}

/// HyperShift leaves it if the finalizer of the HostedCluster was removed.
#[test]
fn the_namespace_of_an_earlier_cluster_is_used() {
    let mut bench = Bench::new();
    occupy(&mut bench, &json!({ "hypershift.openshift.io/hosted-control-plane": "true" }));
    bench.create(&bridge("prod"));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn nothing_is_created_while_the_namespace_can_not_be_read() {
    for (class, advice) in
        [(ErrorKind::Forbidden, "; grant the operator get on namespaces"), (ErrorKind::Unavailable, "")]
    {
        let mut bench = Bench::new();
        bench.cluster.interfere(move |_, action: &Action| {
            let is_namespace = action.target().is_some_and(|target| target.kind.kind == "Namespace");
            if is_namespace { FaultVerdict::failed(class) } else { FaultVerdict::Served }
        });
        bench.create(&bridge("prod"));
        bench.cluster.advance(Duration::from_mins(30));
        let (unmet, message) = bench.condition("prod", "PrerequisitesMet");
        assert_eq!(unmet, "False/WaitingForPrerequisites");
        let expected =
            format!("Namespace {CONTROL_PLANE} of the control plane can't be read (injected){advice}");
        assert_eq!(message, expected);
        assert_eq!(bench.phase("prod"), "Pending");
        assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
        bench.cluster.interfere(|_, _| FaultVerdict::Served);
        bench.settle();
        assert_eq!(bench.phase("prod"), "Ready");
    }
}

/// `dpf-hcp-bridge/system-prod` and `dpf-hcp-bridge-system/prod` have the same namespace.
#[test]
fn a_bridge_waits_until_the_cluster_with_its_namespace_is_gone() {
    let mut bench = of_another_cluster();
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
    bench.delete("HostedCluster", OTHER, "system-prod");
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
}
