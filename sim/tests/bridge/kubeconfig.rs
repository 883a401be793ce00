//! The kubeconfig that a DPUCluster uses is renewed: the bridge stays Ready while the copy works.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::action::ErrorKind;
use lockstep_external::dpu_clusters::Access;
use lockstep_sim::cluster::{FaultVerdict, SlowPatches};
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{DPF, NAMESPACE};
use super::scenarios;

const SOURCE: &str = "prod-admin-kubeconfig";
const COPY: &str = "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig";

/// Checks that the bridge has not failed, that the copy is up to date, and that the status says so.
fn assert_renewed(bench: &mut Bench, what: &str) {
    bench.transitions();
    assert!(!bench.edges.contains(&("Ready".to_owned(), "Failed".to_owned())), "{what}: {:?}", bench.edges);
    let source = bench.get("Secret", NAMESPACE, SOURCE)["data"]["kubeconfig"].clone();
    assert_eq!(bench.get("Secret", DPF, COPY)["data"]["super-admin.conf"], source, "{what}");
    let injected = ("True/Injected".to_owned(), format!("the DPUCluster uses the kubeconfig {COPY}"));
    assert_eq!(bench.condition("prod", "KubeconfigInjected"), injected, "{what}");
    assert_eq!(bench.condition("prod", "Ready").0, "True/ClusterReady", "{what}");
}

/// HyperShift writes the labels of the HostedCluster to its kubeconfig while the status of the bridge is being written.
#[test]
fn a_kubeconfig_that_changes_during_a_status_write_does_not_fail_the_bridge() {
    let mut bench = Bench::ready();
    bench.cluster.weather = Box::new(SlowPatches("DPFHCPBridge"));
    bench.change("prod", &json!({ "clusterType": "dpf-dev" }));
    bench.settle();
    assert_renewed(&mut bench, "clusterType");
}

/// Certificates rotate, and the first requests fail.
#[test]
fn a_rotation_of_which_a_request_fails_does_not_fail_the_bridge() {
    for (request, name) in [("get", SOURCE), ("get", COPY), ("apply", COPY)] {
        let mut bench = Bench::ready();
        bench.silence_for("HostedCluster", Duration::from_mins(10));
        let mut failures = 0;
        bench.cluster.interfere(move |_, action| {
            let is_it = action.name() == request && action.target().is_some_and(|it| it.name == name);
            failures += u32::from(is_it);
            if is_it && failures <= 3 {
                FaultVerdict::failed(ErrorKind::Unavailable)
            } else {
                FaultVerdict::Served
            }
        });
        let rotated = Access::by_token("https://192.0.2.10:6443", "rotated").kubeconfig();
        let rotated = json!({ "data": { "kubeconfig": STANDARD.encode(rotated) } });
        bench.merge("Secret", NAMESPACE, SOURCE, &rotated);
        bench.cluster.advance(Duration::from_secs(2));
        let (injected, message) = bench.condition("prod", "KubeconfigInjected");
        assert_eq!(injected, "True/Injected", "{request} {name}: {message}");
        let failed = "which is being brought up to date (the last attempt failed: unavailable: injected; it is retried)";
        assert!(message.ends_with(failed), "{request} {name}: {message}");
        bench.cluster.advance(Duration::from_mins(5));
        assert_renewed(&mut bench, &format!("{request} {name}"));
    }
}

/// A user deletes HyperShift's Secret, so that HyperShift creates it again. Meanwhile the copy works.
#[test]
fn a_kubeconfig_that_is_created_again_does_not_fail_the_bridge() {
    let mut bench = Bench::ready();
    bench.silence_for("HostedCluster", Duration::from_mins(3));
    bench.delete("Secret", NAMESPACE, SOURCE);
    bench.cluster.advance(Duration::from_mins(1));
    let (injected, message) = bench.condition("prod", "KubeconfigInjected");
    assert_eq!(injected, "True/Injected", "{message}");
    assert!(
        message
            .ends_with(&format!("HyperShift has to provide its source, Secret {NAMESPACE}/{SOURCE}, again")),
        "{message}"
    );
    assert_eq!(bench.bridge("prod")["status"]["kubeconfigSecretRef"], Value::Null);
    bench.cluster.advance(Duration::from_mins(5));
    assert_renewed(&mut bench, "deleted");
}

/// The copy is gone, or that of an earlier HostedCluster.
#[test]
fn a_copy_that_can_not_work_is_reported() {
    for (kind, namespace, name) in [("Secret", DPF, COPY), ("HostedCluster", NAMESPACE, "prod")] {
        let mut bench = Bench::ready();
        scenarios::refuse(&mut bench, ErrorKind::Unavailable, |action| {
            let is_read = action.name() == "get";
            action.target().is_some_and(|target| target.name == if is_read { SOURCE } else { COPY })
        });
        bench.delete(kind, namespace, name);
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.condition("prod", "HostedClusterAvailable").0, "True/AsExpected");
        assert_eq!(bench.condition("prod", "KubeconfigInjected").0, "False/KubeconfigPending", "{kind}");
    }
}
