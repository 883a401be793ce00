//! Tests of the host with kubectl: the usual commands work, with the same output as on a real cluster.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail like tests, and skip loudly"
)]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lockstep_apiserver::host::{Host, Options};
use lockstep_apiserver::server::Actors;

const WIDGETS: &str = include_str!("data/widgets.yaml");
const OBJECTS: &str = include_str!("data/objects.yaml");

/// A host and a directory with its kubeconfig; the runtime serves while the test thread waits for kubectl.
struct Cluster {
    runtime: tokio::runtime::Runtime,
    host: Host,
    home: tempfile::TempDir,
}

impl Cluster {
    /// Starts a host; none, with a visible message, if kubectl is not installed.
    fn start() -> Option<Self> {
        if Command::new("kubectl").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err()
        {
            eprintln!("SKIPPED: kubectl is not installed");
            return None;
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let options = Options { actors: Some(Actors::with_accounts()), ..Options::default() };
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let host = runtime.block_on(Host::bind(addr, options)).unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("kubeconfig"), host.kubeconfig_yaml()).unwrap();
        Some(Self { runtime, host, home })
    }

    fn kubeconfig(&self) -> PathBuf {
        self.home.path().join("kubeconfig")
    }

    /// Runs kubectl with arguments and a standard input; returns success, output and errors.
    fn run(&self, line: &str, input: &str) -> (bool, String, String) {
        let mut child = Command::new("kubectl")
            .args(line.split_whitespace())
            .env("KUBECONFIG", self.kubeconfig())
            .env("HOME", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    fn kubectl(&self, line: &str) -> String {
        self.apply(line, "")
    }

    #[track_caller]
    fn apply(&self, line: &str, input: &str) -> String {
        let (success, out, err) = self.run(line, input);
        assert!(success, "kubectl {line}: {out}{err}");
        out
    }

    #[track_caller]
    fn refused(&self, line: &str, input: &str) -> String {
        let (success, out, err) = self.run(line, input);
        assert!(!success, "kubectl {line}: {out}{err}");
        err
    }

    fn stop(self) {
        let Self { runtime, host, .. } = self;
        runtime.block_on(host.shutdown());
    }
}

#[test]
fn objects_are_created_read_changed_and_deleted() {
    let Some(cluster) = Cluster::start() else { return };
    assert_eq!(cluster.kubectl("create namespace team"), "namespace/team created\n");
    cluster.kubectl("create configmap settings -n team --from-literal=color=red");
    assert_eq!(cluster.kubectl("get cm settings -n team -o jsonpath={.data.color}"), "red");
    cluster.kubectl("label cm settings -n team tier=front");
    assert!(cluster.kubectl("get cm -n team -l tier=front").contains("settings"));
    cluster.kubectl(r#"patch cm settings -n team --type=merge -p {"data":{"color":"blue"}}"#);
    cluster.kubectl(
        r#"patch cm settings -n team --type=json -p [{"op":"add","path":"/data/size","value":"1"}]"#,
    );
    assert_eq!(
        cluster.kubectl("get cm settings -n team -o jsonpath={.data}"),
        r#"{"color":"blue","size":"1"}"#
    );
    assert!(
        cluster
            .refused("create configmap settings -n team", "")
            .contains(r#"configmaps "settings" already exists"#)
    );
    assert!(
        cluster.refused("create configmap x -n nowhere", "").contains(r#"namespaces "nowhere" not found"#)
    );
    cluster.kubectl("delete cm settings -n team");
    assert!(cluster.refused("get cm settings -n team", "").contains(r#"configmaps "settings" not found"#));
    cluster.kubectl("delete namespace team");
    assert!(cluster.refused("delete namespace default", "").contains("this namespace may not be deleted"));
    cluster.stop();
}

#[test]
fn manifests_are_applied_from_both_sides() {
    let Some(cluster) = Cluster::start() else { return };
    let first = cluster.apply("apply -f -", OBJECTS);
    assert!(first.lines().all(|line| line.ends_with(" created")), "{first}");
    let second = cluster.apply("apply -f -", OBJECTS);
    assert!(second.lines().all(|line| line.ends_with(" unchanged")), "{second}");
    let version = || cluster.kubectl("get deploy web -o jsonpath={.metadata.resourceVersion}");
    let more = OBJECTS.replace("replicas: 2", "replicas: 3");
    let refused = cluster.refused("apply --server-side --field-manager=other -f -", &more);
    assert!(refused.contains(r#"conflict with "kubectl-client-side-apply""#), "{refused}");
    cluster.apply("apply --server-side --field-manager=other --force-conflicts -f -", &more);
    let before = version();
    cluster.apply("apply --server-side --field-manager=other --force-conflicts -f -", &more);
    assert_eq!(version(), before);
    assert!(cluster.apply("diff --server-side --field-manager=other -f -", &more).is_empty());
    cluster.kubectl("scale deploy/web --replicas=5");
    let wide = cluster.kubectl("get deploy,svc -o wide");
    assert!(wide.contains("0/5") && wide.contains("nginx"), "{wide}");
    cluster.stop();
}

#[test]
fn custom_resources_are_served_explained_and_validated() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply("apply -f -", WIDGETS);
    cluster.kubectl("wait --for=condition=Established crd/widgets.example.com --timeout=3m");
    assert!(cluster.kubectl("api-resources").contains("widgets"));
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\nspec: {size: 3}\n";
    cluster.apply("apply --server-side -f -", widget);
    assert_eq!(cluster.kubectl("get widget w -o jsonpath={.spec.color}"), "red");
    let table = cluster.kubectl("get wd");
    assert!(table.contains("SIZE") && table.contains('3'), "{table}");
    assert!(cluster.kubectl("explain widget.spec").contains("size"));
    let refused = cluster.refused("apply --server-side -f -", &widget.replace("size: 3", "size: 0"));
    assert!(refused.contains("should be greater than or equal to 1"), "{refused}");
    let refused = cluster.refused(
        "create -f -",
        &widget.replace("size: 3", "size: 3, x: 1").replace("name: w", "name: other"),
    );
    assert!(refused.contains(r#"unknown field "spec.x""#), "{refused}");
    cluster.kubectl("scale wd/w --replicas=7");
    assert_eq!(cluster.kubectl("get widget w -o jsonpath={.spec.size}"), "7");
    cluster.kubectl("delete crd widgets.example.com");
    assert!(!cluster.kubectl("api-resources --cached=false").contains("widgets"));
    cluster.stop();
}

#[test]
fn deletion_waits_and_cascades() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.kubectl("create namespace team");
    cluster.kubectl("wait --for=create sa/default -n team --timeout=3m");
    cluster.kubectl("create configmap owner -n team");
    let uid = cluster.kubectl("get cm owner -n team -o jsonpath={.metadata.uid}");
    let dependent = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: dependent, namespace: team, ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}, blockOwnerDeletion: true}}]}}\n"
    );
    cluster.apply("create -f -", &dependent);
    cluster.kubectl("delete cm owner -n team --cascade=foreground --timeout=3m");
    assert!(cluster.refused("get cm dependent -n team", "").contains("not found"));
    cluster.kubectl("delete namespace team --timeout=3m");
    assert!(cluster.refused("get namespace team", "").contains("not found"));
    cluster.stop();
}
