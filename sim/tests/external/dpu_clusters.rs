//! DPU clusters: when they are ready, and what happens to the releases on them.

use std::time::Duration;

use lockstep_external::dpu_clusters::UNREACHABLE;
use serde_json::{Value, json};

use super::bench::Bench;
use super::deployed::deployed;
use super::manifests::{access, kubeconfig};

fn phase(bench: &mut Bench) -> Value {
    bench.get("DPUCluster", "dpus")["status"]["phase"].clone()
}

#[test]
fn a_cluster_is_ready_while_it_answers_and_its_kubeconfig_is_one() {
    let mut bench = deployed();
    assert_eq!(phase(&mut bench), "Ready");
    let unreachable = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    let good = kubeconfig("dpus", &access("dpus", "t1"))["data"].clone();
    let broken = json!({ "super-admin.conf": "e30=" });
    for (kind, name, bad, good) in [
        ("DPUCluster", "dpus", unreachable("true".into()), unreachable(Value::Null)),
        ("Secret", "dpus-kubeconfig", json!({ "data": broken }), json!({ "data": good })),
    ] {
        bench.merge(kind, name, &bad);
        bench.settle();
        assert_eq!(phase(&mut bench), "NotReady", "{kind}");
        bench.merge(kind, name, &good);
        bench.settle();
        assert_eq!(phase(&mut bench), "Ready", "{kind}");
    }
}

#[test]
fn a_release_that_is_deleted_takes_its_time_to_go() {
    let mut bench = deployed();
    // Argo CD would create it again.
    bench.merge("Application", "agent-dpus", &json!({ "spec": { "syncPolicy": { "automated": null } } }));
    bench.settle();
    let release = "dpus.services.agent";
    bench.delete("ConfigMap", release);
    bench.advance(Duration::from_secs(1));
    assert_ne!(bench.get("ConfigMap", release), Value::Null);
    bench.settle();
    assert_eq!(bench.get("ConfigMap", release), Value::Null);
}

#[test]
fn what_runs_on_a_cluster_goes_with_it() {
    let mut bench = deployed();
    bench.deploy("other");
    bench.delete("DPUCluster", "dpus");
    bench.settle();
    assert_eq!(bench.get("ConfigMap", "dpus.services.agent"), Value::Null);
    assert_eq!(bench.get("ConfigMap", "other.services.agent")["data"]["health"], "Healthy");
}
