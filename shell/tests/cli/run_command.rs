//! `lockstep run`, where it can't start.

use std::net::TcpListener;

use super::served::Served;
use super::{fails, folder, run};

#[test]
fn run_needs_a_cluster_that_it_can_reach() {
    let folder = folder();
    fails(&run(folder.path(), &["run"]), &["no cluster to connect to"]);
    fails(&run(folder.path(), &["run", "--kubeconfig", "missing"]), &["missing"]);
    fails(&run(folder.path(), &["run", "--controllers", "a"]), &["\"a\"", "namespaceclass"]);
    fails(&run(folder.path(), &["run", "--log-level", "lots=of=it"]), &["log level"]);

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
fn run_tells_how_to_install_missing_definitions() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let output = run(folder.path(), &["run", "--kubeconfig", "lockstep.kubeconfig"]);
    let remedy = "lockstep crds | kubectl apply --server-side -f -";
    fails(&output, &["namespaceclasses.namespaceclass.akuity.io", &served.url, remedy]);
    assert_eq!(served.terminate(), Some(0));
}
