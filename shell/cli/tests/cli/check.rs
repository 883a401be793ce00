//! `lockstep check`, against the embedded API server.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::served::Served;
use super::{folder, misused, run};

/// Runs a check against the cluster that `lockstep dev` serves. Returns its exit code and its lines.
fn check(folder: &Path, args: &[&str]) -> (i32, Vec<String>) {
    let output = run(folder, &[&["check", "--kubeconfig", "lockstep.kubeconfig"], args].concat());
    let lines = String::from_utf8(output.stdout).unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), lines.lines().map(str::to_owned).collect())
}

/// Checks that one line begins with the level and contains all texts.
fn has(lines: &[String], level: &str, texts: &[&str]) {
    let found = lines
        .iter()
        .any(|line| line.starts_with(&format!("{level} ")) && texts.iter().all(|text| line.contains(text)));
    assert!(found, "{level} {texts:?} is not in:\n{}", lines.join("\n"));
}

#[test]
fn a_check_without_a_cluster_is_one_failure() {
    let folder = folder();
    let output = run(folder.path(), &["check"]);
    let line = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), line.lines().count()), (Some(2), 1), "{line}");
    assert!(line.starts_with("FAIL  API server") && line.contains("--kubeconfig"), "{line}");
    misused(&run(folder.path(), &["check", "--controllers", "other"]), &["'other'"]);
    misused(&run(folder.path(), &["check", "-o", "yaml"]), &["yaml"]);

    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let kubeconfig = std::fs::read_to_string(folder.path().join("lockstep.kubeconfig")).unwrap();
    assert_eq!(served.terminate(), Some(0));
    std::fs::write(folder.path().join("lockstep.kubeconfig"), kubeconfig).unwrap();
    let (code, lines) = check(folder.path(), &[]);
    assert_eq!((code, lines.len()), (2, 1), "{lines:?}");
    has(&lines, "FAIL", &["API server", "http://127.0.0.1", "no answer"]);
}

/// The account of the chart may read only its own Lease.
#[test]
fn the_example_for_a_pod_names_the_lease() {
    let folder = folder();
    let help = String::from_utf8(run(folder.path(), &["check", "--help"]).stdout).unwrap();
    let example = help.split("exec deployment/lockstep-bridge").nth(1).unwrap().split("\n\n").next().unwrap();
    assert!(example.contains("--lease-name lockstep-bridge"), "{example}");
}

#[test]
fn a_check_of_an_empty_cluster_names_what_to_install() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let (code, lines) = check(folder.path(), &[]);
    assert_eq!(code, 2);
    has(&lines, "OK", &["API server", &served.url, "v1."]);
    for (name, controller) in [
        ("namespaceclasses.namespaceclass.akuity.io", "namespaceclass"),
        ("dpfhcpbridges.dpf.hcp.bridge.com", "bridge"),
        ("sentinelconfigs.hyperfleet.redhat.com", "sentinel"),
    ] {
        let install = format!("lockstep crds --controllers {controller} | kubectl apply --server-side -f -");
        has(&lines, "FAIL", &["CRD", name, "not installed", &install]);
    }
    has(
        &lines,
        "FAIL",
        &["bridge, HyperShift", "hostedclusters.hypershift.openshift.io", "install HyperShift"],
    );
    has(&lines, "FAIL", &["bridge, HyperShift", "hypershift/operator does not exist"]);
    has(&lines, "FAIL", &["bridge, DPF", "dpuclusters.provisioning.dpu.nvidia.com"]);
    has(&lines, "WARN", &["bridge, MetalLB", "exposeThroughLoadBalancer: true"]);
    has(&lines, "WARN", &["bridge, MetalLB", "l2advertisements.metallb.io", "metalLBPool"]);
    has(&lines, "FAIL", &["dpuservice, Argo CD", "applications.argoproj.io"]);
    has(&lines, "FAIL", &["dpuservice, Argo CD", "appprojects.argoproj.io"]);
    has(&lines, "FAIL", &["dpuservice, Argo CD", "namespace dpf-argo-cd-system does not exist"]);
    has(&lines, "FAIL", &["bridge, storage", "StorageClass"]);
    for controller in ["bridge", "dpuservice", "namespaceclass"] {
        has(&lines, "WARN", &["leader", &format!("{controller}: no Lease"), "--namespace", "--lease-name"]);
    }
    assert!(!lines.iter().any(|line| line.contains("has run") || line.contains("has led")), "{lines:#?}");
    has(&lines, "OK", &["permissions", "bridge: account \"lockstep-admin\" has all"]);

    let output = run(
        folder.path(),
        &["check", "--kubeconfig", "lockstep.kubeconfig", "--controllers", "bridge", "-o", "json"],
    );
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["result"]), (Some(2), &json!("FAIL")));
    let checks = document["checks"].as_array().unwrap();
    let crd = checks.iter().find(|check| check["check"] == "CRD").unwrap();
    assert_eq!(
        (&crd["level"], &crd["subject"]),
        (&json!("FAIL"), &json!("dpfhcpbridges.dpf.hcp.bridge.com"))
    );
    assert!(crd["remedy"].as_str().unwrap().contains("lockstep crds"), "{crd}");
    assert_eq!(served.terminate(), Some(0));
}

fn lease(name: &str, renewed: Timestamp) -> Lease {
    let time = |time: Timestamp| format!("{time:.6}");
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "holderIdentity": "pod-a", "leaseDurationSeconds": 15,
            "acquireTime": time(renewed), "renewTime": time(renewed),
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn a_check_of_a_complete_cluster_finds_leaders_and_differences() {
    let folder = folder();
    let dev = ["dev", "--controllers", "namespaceclass", "--listen", "127.0.0.1:0"];
    let served = Served::start(folder.path(), &dev);
    served.shows(&["shop/shop", "Ready=True"]);
    let client = Client::try_from(Config::new(served.url.parse().unwrap())).unwrap();
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let arguments = ["--controllers", "namespaceclass", "--namespace", "default"];
    // Far enough in the future that the check is not late on a busy machine.
    let fresh = lease("lockstep", Timestamp::now() + SignedDuration::from_hours(1));
    leases.create(&PostParams::default(), &fresh).await.unwrap();
    let (code, lines) = check(folder.path(), &arguments);
    assert_eq!(code, 0, "{lines:#?}");
    has(&lines, "OK", &["CRD", "namespaceclassbindings", "v1alpha1 as in this version"]);
    has(&lines, "OK", &["permissions", "resources of classes"]);
    has(&lines, "OK", &["leader", "Lease default/lockstep", "\"pod-a\" leads since"]);

    let stale = lease("lockstep-namespaceclass", Timestamp::now() - SignedDuration::from_hours(1));
    leases.create(&PostParams::default(), &stale).await.unwrap();
    let (code, lines) = check(folder.path(), &arguments);
    assert_eq!(code, 2, "{lines:#?}");
    has(
        &lines,
        "FAIL",
        &["Lease default/lockstep-namespaceclass", "renewed it last 60m ago", "no controller leads"],
    );
    let (code, lines) = check(folder.path(), &[&arguments[..], &["--lease-name", "lockstep"]].concat());
    assert_eq!(code, 0, "{lines:#?}");
    let (_, lines) = check(folder.path(), &[&arguments[..], &["--lease-name", "other"]].concat());
    has(&lines, "FAIL", &["Lease default/other", "does not exist", "fullnameOverride"]);

    // The Lease of all controllers together counts for each of them. Without it, each needs its own.
    let unled = "dpuservice: no Lease";
    let (_, lines) = check(folder.path(), &["--controllers", "namespaceclass,dpuservice"]);
    assert!(!lines.iter().any(|line| line.contains(unled)), "{lines:#?}");
    leases.delete("lockstep", &DeleteParams::default()).await.unwrap();
    let (_, lines) = check(folder.path(), &["--controllers", "namespaceclass,dpuservice"]);
    has(&lines, "WARN", &["leader", unled, "--namespace", "--lease-name", "fullnameOverride"]);
    assert!(!lines.iter().any(|line| line.contains("namespaceclass: no Lease")), "{lines:#?}");
    leases.create(&PostParams::default(), &fresh).await.unwrap();

    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let column = json!([{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}]);
    let patch = Patch::<Value>::Json(serde_json::from_value(column).unwrap());
    let name = "namespaceclasses.namespaceclass.akuity.io";
    crds.patch(name, &PatchParams::default(), &patch).await.unwrap();
    let (code, lines) = check(folder.path(), &[&arguments[..], &["--lease-name", "lockstep"]].concat());
    assert_eq!(code, 1, "{lines:#?}");
    has(&lines, "WARN", &["CRD", name, "columns of v1alpha1", "--force-conflicts"]);
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn a_check_queries_the_systems_around_the_controllers() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--listen", "127.0.0.1:0"]);
    served.shows(&["prod-cluster", "clusters-by-label", "DPUService"]);
    served.shows(&["Publishing=True", "dpf-hcp-bridge-system/prod-cluster", "Ready=True"]);
    let (code, lines) = check(folder.path(), &[]);
    // Nothing in the example needs Routes.
    has(&lines, "WARN", &["bridge, OpenShift", "routes.route.openshift.io"]);
    assert_eq!(code, 1, "{}", lines.join("\n"));
    has(&lines, "OK", &["bridge, HyperShift", "hypershift/operator runs"]);
    has(&lines, "OK", &["bridge, MetalLB", "ipaddresspools.metallb.io"]);
    has(&lines, "OK", &["bridge, MetalLB", "l2advertisements.metallb.io"]);
    has(&lines, "OK", &["bridge, storage", "ceph-rbd"]);
    has(&lines, "OK", &["registry", "ocp-release:4.19.0-multi", "dpf-hcp-bridge-system/prod-pull-secret"]);
    has(&lines, "OK", &["dpuservice, Argo CD", "namespace dpf-argo-cd-system exists"]);
    has(&lines, "OK", &["SentinelConfig default/clusters", "reports no failure"]);
    has(&lines, "OK", &["SentinelConfig default/clusters-by-label", "fleet API http://127.0.0.1", "answers"]);
    has(&lines, "WARN", &["SentinelConfig default/clusters", "broker in-process:5672 can't be reached"]);
    assert_eq!(served.terminate(), Some(0));
}
