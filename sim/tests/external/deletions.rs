//! Argo CD's handling of Applications and projects that are deleted.

use std::time::Duration;

use lockstep_external::dpu_clusters::UNREACHABLE;
use serde_json::{Value, json};

use super::bench::Bench;
use super::deployed::{APPLICATION, RELEASE, deployed};
use super::manifests::{access, cluster_secret, project, server};

const SECRET: &str = "dpf-argo-cd-system/dpus-argocd";

fn is_there(bench: &mut Bench, kind: &str, name: &str) -> bool {
    bench.get(kind, name) != Value::Null
}

/// Deletes the Application, and advances the time by a long period.
fn delete(bench: &mut Bench) {
    bench.delete("Application", APPLICATION);
    bench.settle();
}

/// Returns why the Application can't be removed.
fn problem(bench: &mut Bench) -> String {
    let application = bench.get("Application", APPLICATION);
    let all = application["status"]["conditions"].as_array().into_iter().flatten();
    let mut errors = all.filter(|condition| condition["type"] == "DeletionError");
    errors.next().map_or("", |error| error["message"].as_str().unwrap_or("?")).to_owned()
}

#[test]
fn workloads_go_before_their_application() {
    let mut bench = deployed();
    delete(&mut bench);
    insta::assert_snapshot!("argo_deletes", bench.transitions());
    assert!(!is_there(&mut bench, "Application", APPLICATION));
    assert!(!is_there(&mut bench, "ConfigMap", RELEASE));
}

#[test]
fn without_its_finalizer_an_application_leaves_its_workloads() {
    let mut bench = deployed();
    bench.merge("Application", APPLICATION, &json!({ "metadata": { "finalizers": null } }));
    delete(&mut bench);
    assert!(!is_there(&mut bench, "Application", APPLICATION));
    assert!(is_there(&mut bench, "ConfigMap", RELEASE));
}

#[test]
fn without_the_clusters_secret_workloads_are_orphaned() {
    let mut bench = deployed();
    bench.delete("Secret", SECRET);
    delete(&mut bench);
    assert!(!is_there(&mut bench, "Application", APPLICATION));
    assert!(is_there(&mut bench, "ConfigMap", RELEASE));
}

#[test]
fn a_destination_that_is_not_permitted_any_more_keeps_its_workloads() {
    let mut bench = deployed();
    let elsewhere = json!([{ "server": server("elsewhere"), "namespace": "*" }]);
    bench.merge("AppProject", "platform", &json!({ "spec": { "destinations": elsewhere } }));
    delete(&mut bench);
    assert!(!is_there(&mut bench, "Application", APPLICATION));
    assert!(is_there(&mut bench, "ConfigMap", RELEASE));
}

#[test]
fn without_its_project_an_application_can_not_go() {
    let mut bench = deployed();
    bench.merge("AppProject", "platform", &json!({ "metadata": { "finalizers": null } }));
    bench.delete("AppProject", "platform");
    delete(&mut bench);
    bench.advance(Duration::from_hours(1));
    let missing = "error getting app project \"platform\": appproject.argoproj.io \"platform\" not found";
    assert_eq!(problem(&mut bench), missing);
    assert!(is_there(&mut bench, "ConfigMap", RELEASE));
    bench.create(&project("platform", &[server("dpus")]));
    bench.settle();
    assert!(!is_there(&mut bench, "Application", APPLICATION));
    assert!(!is_there(&mut bench, "ConfigMap", RELEASE));
}

#[test]
fn an_application_of_a_cluster_that_does_not_answer_can_not_go() {
    let mut bench = deployed();
    let unreachable = |value: Value| json!({ "metadata": { "annotations": { UNREACHABLE: value } } });
    bench.merge("DPUCluster", "dpus", &unreachable("true".into()));
    delete(&mut bench);
    bench.advance(Duration::from_hours(1));
    assert!(problem(&mut bench).ends_with("no route to host"), "{}", problem(&mut bench));
    bench.merge("DPUCluster", "dpus", &unreachable(Value::Null));
    bench.settle();
    assert!(!is_there(&mut bench, "Application", APPLICATION));
    assert!(!is_there(&mut bench, "ConfigMap", RELEASE));
}

#[test]
fn an_application_of_a_cluster_that_is_gone_goes_once_argo_forgets_the_cluster() {
    let mut bench = deployed();
    bench.delete("DPUCluster", "dpus");
    bench.settle();
    assert!(!is_there(&mut bench, "DPUCluster", "dpus"));
    assert!(!is_there(&mut bench, "ConfigMap", RELEASE));
    delete(&mut bench);
    assert!(problem(&mut bench).ends_with("no route to host"), "{}", problem(&mut bench));
    bench.delete("Secret", SECRET);
    bench.settle();
    assert!(!is_there(&mut bench, "Application", APPLICATION));
}

#[test]
fn an_operation_completes_before_its_application_is_gone() {
    let mut bench = deployed();
    bench.merge("Secret", "dpus-kubeconfig", &json!({ "data": access("dpus", "t2").secret_data() }));
    bench.merge("Application", APPLICATION, &json!({ "operation": { "sync": {} } }));
    // The operation is retried a few times, and then the removal is retried.
    delete(&mut bench);
    assert!(problem(&mut bench).ends_with("provide credentials"), "{}", problem(&mut bench));
    assert_eq!(bench.get("Application", APPLICATION)["status"]["operationState"]["phase"], "Failed");
    let data = cluster_secret("dpus", &access("dpus", "t2"))["data"].clone();
    bench.merge("Secret", SECRET, &json!({ "data": data }));
    bench.settle();
    assert!(!is_there(&mut bench, "Application", APPLICATION));
}

#[test]
fn a_project_goes_when_no_application_names_it_any_more() {
    let mut bench = deployed();
    bench.delete("AppProject", "platform");
    bench.advance(Duration::from_hours(1));
    assert!(is_there(&mut bench, "AppProject", "platform"));
    delete(&mut bench);
    assert!(!is_there(&mut bench, "AppProject", "platform"));
    assert!(!is_there(&mut bench, "ConfigMap", RELEASE));
}
