//! `lockstep get`, against the embedded API server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::crds::install;
use super::plan::kubeconfig;
use super::served::{PATIENCE, Served};
use super::{fails, folder, misused, run, succeeds};

/// Creates a DPUService whose status has this condition Ready.
async fn create(client: &Client, namespace: &str, name: &str, [status, reason, message]: [&str; 3]) {
    let kind = GroupVersionKind::gvk("svc.dpu.nvidia.com", "v1alpha1", "DPUService");
    let services: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind));
    let source = json!({"repoURL": "https://charts.example.com", "chart": "web", "version": "1.0.0"});
    let service = json!({
        "apiVersion": "svc.dpu.nvidia.com/v1alpha1", "kind": "DPUService",
        "metadata": {"name": name}, "spec": {"source": source},
    });
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let condition = json!({
        "type": "Ready", "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    services.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn objects_are_shown_with_their_common_causes() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let get =
        |args: &[&str]| run(folder.path(), &[&["get", "--kubeconfig", "lockstep.kubeconfig"], args].concat());
    fails(&get(&[]), &["does not serve", "DPUService.svc.dpu.nvidia.com", "lockstep crds --controllers"]);
    fails(&get(&["dpuservice"]), &["lockstep crds --controllers dpuservice |"]);
    let client = Client::try_from(Config::new(served.url.parse().unwrap())).unwrap();
    install(&client, "dpuservice").await;
    assert_eq!(succeeds(&get(&[])), "no objects found in namespace default; -A shows all\n");

    let expired = ["False", "Error", "TLS certificate expired"];
    for name in ["a", "b"] {
        create(&client, "default", name, expired).await;
    }
    create(&client, "kube-system", "c", expired).await;
    create(&client, "kube-system", "d", ["True", "Success", ""]).await;

    let shown = succeeds(&get(&["-A"]));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("KIND        NAMESPACE    NAME  READY  REASON   AGE"), "{shown}");
    assert!(lines[1].starts_with("DPUService  default      a     False  Error "), "{shown}");
    assert!(lines[1].ends_with("TLS certificate expired"), "{shown}");
    assert!(lines[4].starts_with("DPUService  kube-system  d     True   Success"), "{shown}");
    let cause = "  3 DPUServices: Error: TLS certificate expired (default/a, default/b, kube-system/c)";
    assert_eq!(lines[5..], ["", "Not ready:", cause]);

    let shown = succeeds(&get(&["dpusvc", "--namespace", "kube-system"]));
    assert!(shown.contains("  1 DPUService: Error") && !shown.contains(" default "), "{shown}");
    let document: Value = serde_json::from_str(&succeeds(&get(&["-A", "-o", "json"]))).unwrap();
    assert_eq!(document["objects"].as_array().map(Vec::len), Some(4));
    assert_eq!(document["causes"][0]["count"], 3);
    assert_eq!(document["objects"][0]["since"], "2026-01-01T00:00:00Z");
    misused(&get(&["pods"]), &["\"pods\"", "DPUService"]);
    misused(&get(&["-A", "-n", "default"]), &["--all-namespaces", "--namespace"]);
    assert_eq!(served.terminate(), Some(0));
}

/// Starts an API server that has one NamespaceClass, and refuses to list the plurals. Returns its URL.
fn refusing(plurals: &'static [&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(client.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else { continue };
            let plural = path.split('?').next().unwrap().rsplit('/').next().unwrap();
            let (code, body) = if plurals.contains(&plural) {
                let message = format!("{plural} is forbidden: User \"viewer\" cannot list it");
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure",
                    "code": 403, "reason": "Forbidden", "message": message,
                });
                ("403 Forbidden", status)
            } else {
                let items = if plural == "namespaceclasses" {
                    json!([{"metadata": {"name": "web"}}])
                } else {
                    json!([])
                };
                let list = json!({
                    "kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items,
                });
                ("200 OK", list)
            };
            let body = body.to_string();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            client.write_all((head + &body).as_bytes()).unwrap();
        }
    });
    url
}

/// Who may read one controller's objects sees them.
#[test]
fn a_forbidden_kind_does_not_hide_the_others() {
    let folder = folder();
    kubeconfig(folder.path(), &refusing(&["dpuservices", "sentinelconfigs"]));
    let get = |args: &[&str]| run(folder.path(), &[&["get", "--kubeconfig", "config"], args].concat());
    let output = get(&["-A"]);
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(succeeds(&output).contains("NamespaceClass  "), "{stderr}");
    let warnings: Vec<&str> = stderr.lines().collect();
    assert_eq!(warnings.len(), 2, "{stderr}");
    for (warning, plural) in warnings.iter().zip(["dpuservices", "sentinelconfigs"]) {
        assert!(warning.starts_with("warning: list ") && warning.contains(plural), "{stderr}");
    }
    fails(&get(&["dpuservice"]), &["list DPUService.svc.dpu.nvidia.com", "cannot list"]);

    let all = refusing(&[
        "dpuservices",
        "sentinelconfigs",
        "dpfhcpbridges",
        "namespaceclasses",
        "namespaceclassbindings",
    ]);
    kubeconfig(folder.path(), &all);
    fails(&get(&["-A"]), &["NamespaceClass.", "DPUService.", "SentinelConfig.", "cannot list"]);
}

/// The kubeconfigs of six clusters can't be used, and the message of the condition would name a Secret for each of them.
#[tokio::test]
async fn a_cause_that_six_clusters_share_is_shown_once() {
    let folder = folder();
    let served =
        Served::start(folder.path(), &["dev", "--controllers", "dpuservice", "--listen", "127.0.0.1:0"]);
    served.shows(&["dpu-services/firewall", "Ready=True"]);
    let client = Client::try_from(Config::new(served.url.parse().unwrap())).unwrap();
    let api = |group: &str, version: &str, kind: &str| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::<DynamicObject>::namespaced_with(client.clone(), "dpf-operator-system", &resource)
    };
    let secrets = api("", "v1", "Secret");
    let clusters = api("provisioning.dpu.nvidia.com", "v1alpha1", "DPUCluster");
    let names = ["dpu-11", "dpu-12", "dpu-13", "dpu-14", "dpu-15", "dpu-16"];
    for name in names {
        let secret = format!("{name}-admin-kubeconfig");
        let broken = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret}, "stringData": {"super-admin.conf": "none"},
        });
        secrets.create(&PostParams::default(), &serde_json::from_value(broken).unwrap()).await.unwrap();
        let cluster = json!({
            "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1", "kind": "DPUCluster", "metadata": {"name": name},
            "spec": {"type": "kamaji", "kubeconfig": secret},
        });
        clusters.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
    }

    let cause = format!(
        "  1 DPUService: Error: ClusterSecretsReconciled: 6 of 8 clusters: {} (Secret dpf-operator-system/\
         <cluster>-admin-kubeconfig can't be used: ",
        names.join(", ")
    );
    let end = Instant::now() + PATIENCE;
    loop {
        let shown = succeeds(&run(folder.path(), &["get", "-A", "--kubeconfig", "lockstep.kubeconfig"]));
        if let Some(line) = shown.lines().find(|line| line.starts_with(&cause)) {
            assert_eq!(line.matches("can't be used").count(), 1, "{line}");
            assert!(line.ends_with(" (dpu-services/firewall)"), "{line}");
            break;
        }
        assert!(Instant::now() < end, "{shown}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(served.terminate(), Some(0));
}
