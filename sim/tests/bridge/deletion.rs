//! The deletion of a bridge: what it waits for, and what it leaves as it is. The order of the requests is in `flows.rs`.

use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use lockstep_external::hypershift;
use lockstep_sim::cluster::{Change, FaultVerdict, SlowAnswers};
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE, bridge};
use super::prerequisites::OTHER;
use super::scenarios;

#[test]
fn a_bridge_can_go_though_hypershift_and_dpf_are_gone() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.settle();
    for kind in [
        "hostedclusters.hypershift.openshift.io",
        "nodepools.hypershift.openshift.io",
        "dpuclusters.provisioning.dpu.nvidia.com",
    ] {
        bench.delete("CustomResourceDefinition", "", kind);
        bench.cluster.advance(Duration::from_mins(3));
    }
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.bridge("prod"), Value::Null);
    let kubeconfig = "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig";
    assert_eq!(bench.get("Secret", DPF, kubeconfig), Value::Null);
}

#[test]
fn a_deletion_reports_what_it_waits_for() {
    let mut bench = scenarios::hosted_cluster_held();
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(10));
    let waits = "waiting for HostedCluster dpf-hcp-bridge-system/prod to be gone";
    assert_eq!(bench.bridge("prod")["status"]["message"], waits);
    let (ready, message) = bench.condition("prod", "Ready");
    assert_eq!((ready.as_str(), message.as_str()), ("False/WaitingForControlPlane", waits));
    assert_eq!(bench.phase("prod"), "Deleting");

    // HyperShift is removed in the middle of the deletion, and the finalizers of its objects are removed as well.
    bench.merge("HostedCluster", NAMESPACE, "prod", &json!({ "metadata": { "finalizers": null } }));
    bench.delete("CustomResourceDefinition", "", "hostedclusters.hypershift.openshift.io");
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.bridge("prod"), Value::Null);
}

/// Namespaces and names contain hyphens, so the kubeconfigs of two bridges can have one name. The advice for the younger bridge is to
/// create it under another name.
#[test]
fn a_bridge_with_the_same_name_of_its_kubeconfig_leaves_the_dpucluster_connected() {
    a_namesake_leaves_the_dpucluster_connected(ErrorKind::Unavailable, |_| false);
}

/// Without the copy, it is not known to which bridge the reference belongs.
#[test]
fn a_bridge_that_cannot_read_its_kubeconfig_leaves_the_dpucluster_connected() {
    a_namesake_leaves_the_dpucluster_connected(ErrorKind::Unavailable, |read| read < 3);
    a_namesake_leaves_the_dpucluster_connected(ErrorKind::Forbidden, |_| true);
}

/// Deletes a bridge with the same name of its kubeconfig as another. Some of its reads of the copy fail.
fn a_namesake_leaves_the_dpucluster_connected(failure: ErrorKind, fails: fn(u32) -> bool) {
    let mut bench = Bench::ready();
    bench.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": OTHER } }));
    let mut younger = bridge("system-prod");
    younger["metadata"]["namespace"] = json!(OTHER);
    younger["spec"]["metalLBVirtualIP"] = json!("192.0.2.11");
    bench.create(&younger);
    bench.settle();
    let before = bench.get("DPUCluster", DPF, "dpus");
    assert_eq!(before["spec"]["kubeconfig"], "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig");
    let mut reads = 0;
    bench.cluster.interfere(move |_, action| {
        let is_copy = action.target().is_some_and(|it| it.name.ends_with("-dpucluster-kubeconfig"));
        if !is_copy || action.name() != "get" {
            return FaultVerdict::Served;
        }
        reads += 1;
        if fails(reads - 1) { FaultVerdict::failed(failure) } else { FaultVerdict::Served }
    });
    bench.delete("DPFHCPBridge", OTHER, "system-prod");
    bench.settle();
    assert_eq!(bench.get("DPFHCPBridge", OTHER, "system-prod"), Value::Null);
    let after = bench.get("DPUCluster", DPF, "dpus");
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(
        after["metadata"]["generation"], before["metadata"]["generation"],
        "it was never disconnected"
    );
}

/// HyperShift may need tens of minutes.
#[test]
fn the_bridge_waits_for_a_slow_teardown() {
    let mut bench = Bench::ready();
    let stuck = |stuck: Value| json!({ "metadata": { "annotations": { hypershift::STUCK: stuck } } });
    bench.merge("HostedCluster", NAMESPACE, "prod", &stuck(json!("true")));
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(5));
    let deleted = bench.bridge("prod");
    let status = deleted["status"].clone();
    assert_eq!(status["phase"], "Deleting");
    assert_eq!(status["observedGeneration"], deleted["metadata"]["generation"], "a deletion is a generation");
    assert_eq!(status["message"], "waiting for HostedCluster dpf-hcp-bridge-system/prod to be gone");
    bench.cluster.journal.clear();
    bench.cluster.advance(Duration::from_hours(1));
    assert_eq!(bench.bridge("prod")["status"], status);
    let carried: Vec<_> = bench.cluster.carried().map(|(_, carried)| carried.action.name()).collect();
    assert!(carried.iter().all(|action| *action == "get"), "{carried:?}");
    assert_eq!(carried.len(), 360 * 4, "four objects are read every 10 s");
    bench.merge("HostedCluster", NAMESPACE, "prod", &stuck(Value::Null));
    bench.cluster.advance(Duration::from_mins(1));
    assert_eq!(bench.bridge("prod"), Value::Null);
}

/// Another client removes the finalizer and creates the bridge again, while its deletion is in progress.
#[test]
fn a_bridge_that_is_replaced_during_its_deletion_becomes_ready() {
    for wait in (0..8000).step_by(500) {
        let mut bench = Bench::ready();
        let mut again = bridge("prod");
        again["metadata"]["finalizers"] = bench.bridge("prod")["metadata"]["finalizers"].clone();
        bench.cluster.weather = Box::new(SlowAnswers(Duration::from_secs(1)));
        bench.delete("DPFHCPBridge", NAMESPACE, "prod");
        bench.cluster.advance(Duration::from_millis(wait));
        bench.merge("DPFHCPBridge", NAMESPACE, "prod", &json!({ "metadata": { "finalizers": null } }));
        bench.create(&again);
        bench.cluster.journal.clear();
        bench.cluster.advance(Duration::from_mins(30));
        assert_eq!(bench.phase("prod"), "Ready", "after {wait} ms: {}", bench.bridge("prod")["status"]);
        let lost = |change: &Change| {
            let is_held = |bridge: &Value| bridge["metadata"]["finalizers"][0].is_string();
            change.object.kind.kind == "DPFHCPBridge" && !change.new.as_deref().is_some_and(is_held)
        };
        let mut changes = bench.cluster.journal.iter().filter_map(|entry| entry.by_process());
        assert!(!changes.any(|(_, change)| lost(change)), "after {wait} ms it loses its finalizer");
    }
}

#[test]
fn a_forbidden_cleanup_is_reported_and_skipped() {
    let mut bench = Bench::ready();
    bench.cluster.interfere(|_, action| {
        let is_dpfs = action.target().is_some_and(|target| target.kind.kind == "DPUCluster");
        if is_dpfs && action.is_write() {
            FaultVerdict::failed(ErrorKind::Forbidden)
        } else {
            FaultVerdict::Served
        }
    });
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    assert_eq!(bench.bridge("prod"), Value::Null);
    let warning = "Warning CleanupForbidden: the DPUCluster's reference to the kubeconfig is left as it is";
    assert!(bench.events().contains(warning), "{}", bench.events());
}

/// A permission can be missing for a moment, while it is written again.
#[test]
fn a_cleanup_that_is_forbidden_for_a_moment_is_complete() {
    let mut bench = Bench::ready();
    let copy = "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig";
    let mut reads = 0;
    bench.cluster.interfere(move |_, action| {
        let is_read = action.target().is_some_and(|it| it.name == copy) && action.name() == "get";
        reads += u32::from(is_read);
        // HyperShift has deleted its objects by the time of the third read.
        if is_read && reads > 2 && reads < 5 {
            FaultVerdict::failed(ErrorKind::Forbidden)
        } else {
            FaultVerdict::Served
        }
    });
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.bridge("prod"), Value::Null);
    assert_eq!(bench.get("Secret", DPF, copy), Value::Null);
    assert_eq!(bench.get("DPUCluster", DPF, "dpus")["spec"]["kubeconfig"], Value::Null);
    assert!(!bench.events().contains("CleanupForbidden"), "{}", bench.events());
}

/// A starting API server or a proxy answers like this, also if there are objects of the kind.
#[test]
fn objects_of_a_kind_that_is_not_served_for_a_moment_are_removed() {
    let copy = "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig";
    for kind in ["HostedCluster", "NodePool", "Secret", "DPUCluster"] {
        let mut bench = Bench::ready();
        let mut reads = 0;
        bench.cluster.interfere(move |_, action| {
            let is_read = action.target().is_some_and(|it| it.kind.kind == kind) && action.name() == "get";
            reads += u32::from(is_read);
            if is_read && reads < 4 {
                FaultVerdict::failed(ErrorKind::KindNotServed)
            } else {
                FaultVerdict::Served
            }
        });
        bench.delete("DPFHCPBridge", NAMESPACE, "prod");
        bench.cluster.advance(Duration::from_mins(10));
        assert_eq!(bench.bridge("prod"), Value::Null, "{kind}");
        assert_eq!(bench.get("Secret", DPF, copy), Value::Null, "{kind}");
        assert_eq!(bench.get("DPUCluster", DPF, "dpus")["spec"]["kubeconfig"], Value::Null, "{kind}");
    }
}

/// The control plane would go on without its bridge.
#[test]
fn a_bridge_stays_as_long_as_its_hosted_cluster_may_not_be_deleted() {
    let mut bench = Bench::ready();
    bench.cluster.interfere(|_, action| {
        let is_cluster = action.target().is_some_and(|target| target.kind.kind == "HostedCluster");
        if is_cluster && action.name() == "delete" {
            FaultVerdict::failed(ErrorKind::Forbidden)
        } else {
            FaultVerdict::Served
        }
    });
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(10));
    let message = bench.bridge("prod")["status"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(
        message.starts_with("HostedCluster dpf-hcp-bridge-system/prod can't be removed: "),
        "{message:?}"
    );
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.bridge("prod"), Value::Null);
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
}
