//! `lockstep explain`: in each situation it names the injected cause.

use std::time::{Duration, Instant};

use lockstep_engine::action::{Action, ErrorKind};
use serde_json::{Value, json};

use super::served::{PATIENCE, Program, Served};
use super::simulated::{NAMESPACE, RELEASE, Simulated};
use super::{fails, folder, misused, run, succeeds};

pub(super) const CLASS: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/web";

/// Returns what is explained of a condition, and the line about the next reconcile.
pub(super) fn explain(simulated: &Simulated, kind: &str, name: &str, condition: &str) -> (String, String) {
    let folder = folder();
    simulated.record(&folder.path().join("run.jsonl"));
    let text = succeeds(&run(folder.path(), &["explain", kind, name, "--recording", "run.jsonl"]));
    let blocks = text.split("\n\n");
    let found = blocks.clone().find(|block| block.starts_with(&format!("{condition}=")));
    let next = blocks.last().filter(|last| last.starts_with("next: ")).unwrap_or_else(|| panic!("{text}"));
    (found.unwrap_or_else(|| panic!("no {condition} in:\n{text}")).to_owned(), next.to_owned())
}

/// Checks that a line of the explanation has this label and all of these texts.
pub(super) fn has(explained: &str, label: &str, texts: &[&str]) {
    let mut lines = explained.lines().filter(|line| line.trim_start().starts_with(label));
    assert!(
        lines.any(|line| texts.iter().all(|text| line.contains(text))),
        "{label} {texts:?} is not in:\n{explained}"
    );
}

pub(super) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

fn writes_config_map(action: &Action) -> bool {
    action.is_write() && action.target().is_some_and(|target| target.kind.kind == "ConfigMap")
}

fn creates_hosted_cluster(action: &Action) -> bool {
    action.is_write() && action.target().is_some_and(|target| target.kind.kind == "HostedCluster")
}

/// Returns a cluster whose namespace shop has the class web with the ConfigMap settings.
fn shop() -> Simulated {
    let mut simulated = Simulated::new("namespaceclass");
    simulated.class(&json!([config_map("settings")]));
    simulated.namespace();
    simulated
}

#[test]
fn a_refused_write_is_named_with_its_answer() {
    for (class, reason, answer) in [
        (ErrorKind::Forbidden, "Forbidden", "forbidden: injected"),
        (ErrorKind::Invalid, "Rejected", "invalid: injected"),
        (ErrorKind::Unavailable, "ApplyFailed", "unavailable: injected"),
    ] {
        let mut simulated = Simulated::new("namespaceclass");
        simulated.refuse(class, writes_config_map);
        simulated.class(&json!([config_map("settings")]));
        simulated.namespace();
        let (found, next) = explain(&simulated, "namespaceclassbinding", "shop/shop", "Ready");
        assert!(found.starts_with(&format!("Ready=False {reason}")), "{found}");
        has(&found, "answer", &["apply ConfigMap shop/settings", answer]);
        assert!(next.contains("reconciled again at 2023-11-14T"), "{next}");

        simulated.refuse(class, |_| false);
        simulated.pass(Duration::from_mins(10));
        let (found, next) = explain(&simulated, "namespaceclassbinding", "shop/shop", "Ready");
        assert!(found.starts_with("Ready=True"), "{found}");
        has(&found, "answer", &["apply ConfigMap shop/settings: ok"]);
        assert!(next.contains("nothing left to do"), "{next}");
    }
}

#[test]
fn a_refused_deletion_is_named_with_its_answer() {
    let mut simulated = shop();
    simulated.refuse(ErrorKind::Forbidden, writes_config_map);
    simulated.merge(CLASS, &json!({"spec": {"resources": []}}));
    simulated.pass(Duration::from_secs(5));
    let (found, _) = explain(&simulated, "namespaceclassbinding", "shop/shop", "Ready");
    has(&found, "answer", &["delete ConfigMap shop/settings: forbidden: injected"]);
}

#[test]
fn an_edit_that_began_a_reconcile_is_named() {
    let mut simulated = Simulated::new("namespaceclass");
    simulated.class(&json!([config_map("settings"), config_map("settings")]));
    simulated.pass(Duration::from_secs(30));
    let (found, _) = explain(&simulated, "nsclass", "web", "Valid");
    assert!(found.starts_with("Valid=False InvalidResources"), "{found}");
    has(&found, "began", &["saw NamespaceClass.namespaceclass.akuity.io web"]);

    let mut simulated = shop();
    let gadget = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}});
    simulated.merge(CLASS, &json!({"spec": {"resources": [gadget]}}));
    simulated.pass(Duration::from_secs(5));
    let (found, _) = explain(&simulated, "nsclass", "web", "Valid");
    assert!(found.starts_with("Valid=False"), "{found}");
    has(&found, "answer", &["discover example.com/v1: kind_not_served"]);
}

#[test]
fn a_missing_prerequisite_is_named_with_its_deletion() {
    for (path, named) in [
        ("/api/v1/namespaces/dpf-hcp-bridge-system/secrets/pull", "Secret dpf-hcp-bridge-system/pull"),
        ("/api/v1/namespaces/dpf-hcp-bridge-system/secrets/ssh", "Secret dpf-hcp-bridge-system/ssh"),
        ("/apis/storage.k8s.io/v1/storageclasses/ceph-rbd", "StorageClass.storage.k8s.io ceph-rbd"),
        ("/apis/apps/v1/namespaces/hypershift/deployments/operator", "Deployment.apps hypershift/operator"),
    ] {
        let mut simulated = Simulated::new("bridge");
        simulated.delete(path);
        simulated.pass(Duration::from_secs(30));
        simulated.bridge(RELEASE);
        simulated.pass(Duration::from_secs(30));
        let (found, _) = explain(&simulated, "dpfhcp", &format!("{NAMESPACE}/prod"), "PrerequisitesMet");
        assert!(found.starts_with("PrerequisitesMet=False"), "{found}");
        has(&found, "named", &[named, "deleted at step"]);
    }
}

#[test]
fn a_change_of_another_object_that_began_a_reconcile_is_named() {
    type Repair = fn(&mut Simulated);
    let cases: [(&str, Repair, &str); 2] = [
        (
            "/apis/storage.k8s.io/v1/storageclasses/ceph-rbd",
            Simulated::storage_class,
            "saw StorageClass.storage.k8s.io ceph-rbd",
        ),
        (
            "/api/v1/namespaces/dpf-hcp-bridge-system/secrets/pull",
            Simulated::pull_secret,
            "saw Secret dpf-hcp-bridge-system/pull",
        ),
    ];
    for (path, repair, began) in cases {
        let mut simulated = Simulated::new("bridge");
        simulated.delete(path);
        simulated.bridge(RELEASE);
        simulated.pass(Duration::from_mins(2));
        repair(&mut simulated);
        simulated.pass(Duration::from_mins(2));
        let (found, _) = explain(&simulated, "dpfhcp", &format!("{NAMESPACE}/prod"), "PrerequisitesMet");
        assert!(found.starts_with("PrerequisitesMet=True"), "{found}");
        has(&found, "began", &[began]);
    }
}

#[test]
fn the_answer_of_a_registry_or_a_refused_cluster_is_named() {
    let mut simulated = Simulated::new("bridge");
    simulated.bridge("registry.example.com/ocp-release:missing");
    simulated.pass(Duration::from_secs(30));
    let name = format!("{NAMESPACE}/prod");
    let (found, _) = explain(&simulated, "dpfhcp", &name, "PrerequisitesMet");
    has(&found, "answer", &["find_image registry.example.com/ocp-release:missing: not_found"]);

    let mut simulated = Simulated::new("bridge");
    simulated.refuse(ErrorKind::Forbidden, creates_hosted_cluster);
    simulated.bridge(RELEASE);
    simulated.pass(Duration::from_secs(30));
    let (found, next) = explain(&simulated, "dpfhcp", &name, "HostedClusterCreated");
    has(
        &found,
        "answer",
        &["HostedCluster.hypershift.openshift.io dpf-hcp-bridge-system/prod: forbidden: injected"],
    );
    assert!(next.contains("reconciled again at"), "{next}");
}

#[test]
fn explain_reports_what_is_not_in_the_recording() {
    let folder = folder();
    shop().record(&folder.path().join("run.jsonl"));
    let explain =
        |args: &[&str]| run(folder.path(), &[&["explain"], args, &["--recording", "run.jsonl"]].concat());
    fails(&explain(&["nsclass", "other"]), &["other does not occur", "run.jsonl", "web"]);
    misused(&explain(&["pod", "a/b"]), &["\"pod\"", "NamespaceClass"]);
    misused(&explain(&["nsclass", "a/web"]), &["no namespace"]);
    misused(&explain(&["dpusvc", "web"]), &["NAMESPACE/NAME"]);
    fails(&run(folder.path(), &["explain", "nsclass", "web", "--recording", "x"]), &["cannot read x"]);
    let early = explain(&["nsclass", "web", "--until", "3"]);
    fails(&early, &["web does not occur"]);
}

#[test]
fn a_running_process_explains_as_its_recording_does() {
    let folder = folder();
    let dev = ["dev", "--controllers", "namespaceclass", "--listen", "127.0.0.1:0"];
    let served = Served::start(folder.path(), &dev);
    let page_of_dev = served.line("page ").replace("page", "").trim().to_owned();
    served.shows(&["shop/shop", "Ready=True"]);
    let args = [
        "run",
        "--controllers",
        "namespaceclass",
        "--kubeconfig",
        "lockstep.kubeconfig",
        "--record",
        "run.jsonl",
    ];
    let nowhere = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"];
    let page = ["--status-bind-address", "127.0.0.1:0"];
    let program = Program::logging(folder.path(), &[&args[..], &nowhere, &page].concat());
    let line = program.line("serving the live page");
    let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
    let url = format!("http://{address}");

    let binding = ["explain", "namespaceclassbinding", "shop/shop"];
    let from = |source: [&str; 2]| run(folder.path(), &[&binding[..], &source].concat());
    let begun = Instant::now();
    // The process goes on between two explanations, until nothing is left to do.
    loop {
        let (live, file) = (from(["--url", &url]), from(["--recording", "run.jsonl"]));
        let is_same = live.status.success() && live.stdout == file.stdout;
        if is_same && String::from_utf8_lossy(&live.stdout).contains("nothing left to do") {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{live:?}\n{file:?}");
    }
    assert!(succeeds(&from(["--url", &page_of_dev])).contains("Ready=True ResourcesApplied"));

    fails(
        &run(folder.path(), &["explain", "nsclass", "other", "--url", &url]),
        &["other does not occur", &url],
    );
    fails(&from(["--url", &served.url]), &[&served.url]);
    fails(
        &from(["--url", "http://127.0.0.1:1"]),
        &["cannot read from http://127.0.0.1:1", "--status-bind-address"],
    );
    fails(&from(["--url", "not a url"]), &["not a URL"]);
    // A start that fails leaves the recording as it is.
    let taken = ["--metrics-bind-address", address, "--log-level", "error"];
    fails(&run(folder.path(), &[&args[..], &taken].concat()), &["cannot serve metrics", address]);
    assert!(!folder.path().join("run.jsonl.1").exists());
    misused(&run(folder.path(), &binding), &["--recording"]);
    misused(&run(folder.path(), &[&binding[..], &["--url", &url, "--until", "3"]].concat()), &["--until"]);
    assert_eq!(program.terminate(), Some(0));
    assert_eq!(served.terminate(), Some(0));
}
