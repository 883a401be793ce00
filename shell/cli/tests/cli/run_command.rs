//! `lockstep run`, where it can't start.

use std::net::TcpListener;

use kube::{Client, Config};
use serde_json::{Map, Value};

use super::crds::install_foreign_crd;
use super::served::{Program, Served};
use super::{fails, folder, misused, run};

#[test]
fn run_needs_a_cluster_that_it_can_reach() {
    let folder = folder();
    fails(&run(folder.path(), &["run"]), &["no cluster to connect to"]);
    fails(&run(folder.path(), &["run", "--kubeconfig", "missing"]), &["missing"]);
    misused(&run(folder.path(), &["run", "--controllers", "a"]), &["--controllers", "'a'", "namespaceclass"]);
    misused(&run(folder.path(), &["run", "--log-level", "lots=of=it"]), &["log level"]);
    misused(
        &run(folder.path(), &["run", "--log-level", "warning"]),
        &["log level", "\"warning\"", "warn, info"],
    );

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n\
         clusters: [{{name: x, cluster: {{server: '{url}'}}}}]\nusers: [{{name: x, user: {{}}}}]\n"
    );
    std::fs::write(folder.path().join("config"), kubeconfig).unwrap();
    fails(&run(folder.path(), &["run", "--kubeconfig", "config"]), &["cannot reach", &url, "refused"]);
    fails(&run(folder.path(), &["run", "--kubeconfig", "config", "--context", "y"]), &["y"]);
}

#[test]
fn run_reports_how_to_install_missing_crds() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let output = run(folder.path(), &["run", "--kubeconfig", "lockstep.kubeconfig"]);
    let remedy =
        "lockstep crds --controllers bridge,dpuservice,namespaceclass | kubectl apply --server-side -f -";
    fails(&output, &["namespaceclasses.namespaceclass.akuity.io", &served.url, remedy]);
    assert_eq!(served.terminate(), Some(0));
}

/// DPF's own DPUServices have the names of ours and another spec.
#[tokio::test]
async fn run_rejects_crds_of_another_operator() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let client = Client::try_from(Config::new(served.url.parse().unwrap())).unwrap();
    install_foreign_crd(&client).await;

    let args = ["run", "--kubeconfig", "lockstep.kubeconfig", "--controllers", "dpuservice"];
    // The command that installs the others does not replace the CRD of DPF.
    let output = run(folder.path(), &args[..3]);
    fails(
        &output,
        &["namespaceclasses.namespaceclass.akuity.io", "lockstep crds --controllers bridge,namespaceclass |"],
    );
    let output = run(folder.path(), &args);
    fails(&output, &["lacks spec.source of DPUService;", "DPF", &served.url]);
    assert_eq!(served.terminate(), Some(0));
}

/// Other programs read these keys.
fn begins_with_documented_keys(line: &str) {
    let line: Map<String, Value> = serde_json::from_str(line).unwrap();
    let keys: Vec<&str> = line.keys().map(String::as_str).collect();
    let expected =
        ["account", "cluster", "controllers", "leader_elect", "level", "message", "timestamp", "version"];
    assert_eq!(keys, expected);
    let page = include_str!("../../../../docs/logs.md");
    for key in keys {
        assert!(page.contains(&format!("| `{key}` |")), "{key}");
    }
}

#[test]
fn run_reports_why_it_does_not_lead() {
    let folder = folder();
    let dev = ["dev", "--controllers", "namespaceclass", "--listen", "127.0.0.1:0"];
    let served = Served::start(folder.path(), &dev);
    served.shows(&["shop/shop", "Ready=True"]);
    let start_candidate = |more: &[&str]| {
        let args = [
            "run",
            "--controllers",
            "namespaceclass",
            "--kubeconfig",
            "lockstep.kubeconfig",
            "--leader-elect",
        ];
        let nowhere = ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"];
        Program::logging(folder.path(), &[&args[..], &nowhere, more].concat())
    };
    let misled = start_candidate(&["--namespace", "typo", "--log-format", "json"]);
    begins_with_documented_keys(&misled.line("starting"));
    misled.shows(&["cannot create the Lease typo/lockstep: not_found"]);
    assert_eq!(misled.terminate(), Some(0));

    let first = start_candidate(&[]);
    // By which account, when it has seen everything, and when it acts.
    first.shows(&["starting", "account=\"lockstep-admin\"", "synced", "leadership acquired"]);
    let second = start_candidate(&[]);
    second.shows(&["standing by: the Lease default/lockstep is held by"]);
    assert_eq!(first.terminate(), Some(0));
    second.shows(&["leadership acquired"]);
    assert_eq!(second.terminate(), Some(0));
    assert_eq!(served.terminate(), Some(0));
}
