//! `lockstep plan`, on a cluster of `lockstep dev`.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::thread;

use kube::{Client, Config};

use super::crds::{install, install_foreign_crd};
use super::served::Served;
use super::{fails, folder, misused, run, succeeds};

const CLASS: &str = include_str!("../../../../deploy/examples/namespaceclass/web.yaml");
const PAGE: &str = include_str!("../../../../docs/plan.md");
const SECRET: &str = "
  - apiVersion: v1
    kind: Secret
    metadata:
      name: web-token
    stringData:
      token: a-long-and-secret-token
";

/// A proxy that forwards connections to a server, and keeps what clients send.
struct Proxy {
    url: String,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Proxy {
    fn start(server: &str) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let sent = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut answers, &mut to_client));
                let kept = Arc::clone(&kept);
                thread::spawn(move || forward(client, server, &kept));
            }
        });
        Self { url, sent }
    }

    /// Returns the methods of all requests so far.
    fn methods(&self) -> Vec<String> {
        let sent = String::from_utf8_lossy(&self.sent.lock().unwrap()).into_owned();
        let requests = sent.lines().filter(|line| line.ends_with(" HTTP/1.1"));
        requests.map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }
}

fn forward(mut client: TcpStream, mut server: TcpStream, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        kept.lock().unwrap().extend(&buffer[..count]);
        if server.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
}

pub(super) fn kubeconfig(folder: &Path, url: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n\
         clusters: [{{name: x, cluster: {{server: '{url}'}}}}]\nusers: [{{name: x, user: {{}}}}]\n"
    );
    std::fs::write(folder.join("config"), text).unwrap();
}

fn plan(folder: &Path, class: &str, args: &[&str]) -> Output {
    std::fs::write(folder.join("class.yaml"), class).unwrap();
    run(folder, &[&["plan", "--kubeconfig", "config", "-f", "class.yaml"], args].concat())
}

#[test]
fn a_plan_shows_every_write_and_makes_none() {
    let folder = folder();
    let served =
        Served::start(folder.path(), &["dev", "--listen", "127.0.0.1:0", "--controllers", "namespaceclass"]);
    served
        .shows(&["shop/shop                       Ready=True", "vault/vault                     Ready=True"]);
    let proxy = Proxy::start(&served.url);
    kubeconfig(folder.path(), &proxy.url);

    let edited = CLASS.replace("LOG_LEVEL: info", "LOG_LEVEL: debug") + SECRET.trim_start_matches('\n');
    let output = plan(folder.path(), &edited, &["--diff", "--exit-code"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8(output.stdout).unwrap();
    for text in [
        "update         NamespaceClass.namespaceclass.akuity.io web  (you)",
        "create         Secret shop/web-token  (namespaceclass)",
        "update         ConfigMap shop/web-settings  (namespaceclass)",
        "-  LOG_LEVEL: info",
        "+  LOG_LEVEL: debug",
    ] {
        assert!(shown.contains(text), "{text:?} is not in:\n{shown}");
    }
    assert!(!shown.contains("Already pending") && !shown.contains("vault"), "{shown}");
    for secret in ["a-long-and-secret-token", "YS1sb25nLWFuZC1zZWNyZXQtdG9rZW4="] {
        assert!(!shown.contains(secret), "{shown}");
    }

    let documented = PAGE.split("```console\n").nth(2).unwrap().split("```").next().unwrap();
    let debug = CLASS.replace("LOG_LEVEL: info", "LOG_LEVEL: debug");
    let shown = succeeds(&plan(folder.path(), &debug, &[]));
    // The first line has the address.
    assert_eq!(
        shown.lines().skip(1).collect::<Vec<_>>(),
        documented.lines().skip(1).collect::<Vec<_>>(),
        "{shown}"
    );

    let variable = "spec:\n  variables:\n  - name: where\n    expression: namespaceObject.metadata.name\n";
    let of_each = CLASS.replace("spec:\n", variable).replace("LOG_LEVEL: info", "LOG_LEVEL: in ${where}");
    let shown = succeeds(&plan(folder.path(), &of_each, &["--diff"]));
    assert!(shown.contains("update         ConfigMap shop/web-settings  (namespaceclass)"), "{shown}");
    assert!(shown.contains("-  LOG_LEVEL: info") && shown.contains("+  LOG_LEVEL: in shop"), "{shown}");

    let unchanged = succeeds(&plan(folder.path(), CLASS, &["--exit-code"]));
    assert!(unchanged.contains("Then: nothing changes"), "{unchanged}");
    let deleted = succeeds(&plan(folder.path(), CLASS, &["--delete"]));
    assert!(
        deleted.contains("delete         NamespaceClass.namespaceclass.akuity.io web  (you)"),
        "{deleted}"
    );
    assert!(deleted.contains("ConfigMap shop/web-settings"), "{deleted}");

    // It must run the named controllers, whose CRDs are missing here, and no others.
    for flag in ["--controllers", "--controller"] {
        let other = plan(folder.path(), &debug, &[flag, "bridge"]);
        fails(&other, &["no CRDs of bridge", "lockstep crds --controllers bridge"]);
    }

    let invalid = CLASS.replace("resources:", "resorces:");
    fails(&plan(folder.path(), &invalid, &[]), &["NamespaceClass.namespaceclass.akuity.io web", "refuse"]);
    let missing = CLASS.replace("name: web\n", "name: other\n");
    fails(&plan(folder.path(), &missing, &["--delete"]), &["other does not exist"]);
    let methods = proxy.methods();
    assert!(methods.len() > 20 && methods.iter().all(|method| method == "GET"), "{methods:?}");
    assert_eq!(served.terminate(), Some(0));
}

#[test]
fn a_plan_needs_objects_and_a_cluster() {
    let folder = folder();
    misused(&plan(folder.path(), "{}", &[]), &["class.yaml", "apiVersion"]);
    misused(&plan(folder.path(), "---\n", &[]), &["no object"]);
    misused(&plan(folder.path(), "a: [", &[]), &["class.yaml"]);
    misused(&run(folder.path(), &["plan"]), &["--filename"]);
    // In a pod, this variable names the namespace of the Lease.
    assert!(!succeeds(&run(folder.path(), &["plan", "--help"])).contains("LOCKSTEP_NAMESPACE"));
    kubeconfig(folder.path(), "http://127.0.0.1:1");
    fails(&plan(folder.path(), CLASS, &[]), &["namespaceclass.akuity.io/v1alpha1"]);
}

/// "Nothing changes" must not mean that no controller looked at the change.
#[tokio::test]
async fn a_plan_names_the_controllers_that_it_leaves_out() {
    let folder = folder();
    let served = Served::start(folder.path(), &["dev", "--bare", "--listen", "127.0.0.1:0"]);
    let client = Client::try_from(Config::new(served.url.parse().unwrap())).unwrap();
    install(&client, "namespaceclass").await;
    install_foreign_crd(&client).await;
    kubeconfig(folder.path(), &served.url);

    let settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n";
    let shown = succeeds(&plan(folder.path(), settings, &[]));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines[1..3],
        [
            "controller bridge left out: the cluster does not serve DPFHCPBridge.dpf.hcp.bridge.com",
            "controller dpuservice left out: the CRD in the cluster lacks spec.source of DPUService",
        ],
        "{shown}"
    );
    assert!(shown.contains("Then: nothing changes"), "{shown}");

    let service = "apiVersion: svc.dpu.nvidia.com/v1alpha1\nkind: DPUService\nmetadata: {name: firewall}\n";
    fails(
        &plan(folder.path(), service, &[]),
        &[
            "DPUService.svc.dpu.nvidia.com default/firewall",
            "lacks spec.source of DPUService",
            "lockstep crds --controllers dpuservice",
        ],
    );
    assert_eq!(served.terminate(), Some(0));
}
