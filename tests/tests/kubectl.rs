//! Tests that kubectl does the same on the embedded API server as on a real kube-apiserver, where that needs more than single
//! requests: sets of objects, and the older OpenAPI document.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use lockstep_apiserver::host::connections::Body;
use lockstep_apiserver::host::serving::Serving;
use lockstep_apiserver::host::{Host, Options};
use lockstep_tests::control_plane::{self, ControlPlane};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::spawn_blocking;

const NAMESPACE: &str = "kubectl-sets";

/// A kubectl with a cache of its own.
struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: tempfile::TempDir,
}

impl Kubectl {
    async fn new(kubeconfig: &Path) -> anyhow::Result<Self> {
        let program = spawn_blocking(control_plane::kubectl).await??;
        Ok(Self { program, kubeconfig: kubeconfig.to_owned(), home: tempfile::tempdir()? })
    }

    /// Returns a kubectl of the API server at this URL.
    async fn of_url(url: &str) -> anyhow::Result<Self> {
        let mut kubectl = Self::new(Path::new("")).await?;
        kubectl.kubeconfig = kubectl.home.path().join("kubeconfig");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "only",
            "clusters": [{"name": "only", "cluster": {"server": url}}],
            "contexts": [{"name": "only", "context": {"cluster": "only", "user": "only"}}],
            "users": [{"name": "only", "user": {}}],
        });
        std::fs::write(&kubectl.kubeconfig, config.to_string())?;
        Ok(kubectl)
    }

    async fn output(&self, line: &str, objects: &[Value]) -> anyhow::Result<Output> {
        let mut kubectl = Command::new(&self.program)
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .env("KUBECTL_APPLYSET", "true")
            // A process that reads no input may end before the input is written.
            .stdin(if objects.is_empty() { Stdio::null() } else { Stdio::piped() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(mut stdin) = kubectl.stdin.take() {
            let documents: Vec<String> = objects.iter().map(|object| format!("---\n{object}\n")).collect();
            stdin.write_all(documents.concat().as_bytes()).await?;
        }
        Ok(kubectl.wait_with_output().await?)
    }

    /// Runs a command that succeeds, and returns what it prints.
    async fn run(&self, line: &str, objects: &[Value]) -> anyhow::Result<String> {
        let Output { status, stdout, stderr } = self.output(line, objects).await?;
        ensure!(status.success(), "kubectl {line}: {}", String::from_utf8_lossy(&stderr));
        Ok(String::from_utf8(stdout)?)
    }

    /// Runs a command, and returns the lines of its output and its errors in alphabetical order.
    async fn lines(&self, line: &str, objects: &[Value]) -> anyhow::Result<Vec<String>> {
        let Output { stdout, stderr, .. } = self.output(line, objects).await?;
        let printed = String::from_utf8([stdout, stderr].concat())?;
        let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        Ok(lines)
    }
}

async fn embedded() -> anyhow::Result<Host> {
    Ok(Host::bind("127.0.0.1:0".parse()?, Options::default()).await?)
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

/// A command, the objects that it reads, and the lines that it prints on any API server, in alphabetical order.
type Row<'a> = (String, &'a [Value], &'a [&'a str]);

/// Applies a set of objects, then sets with fewer objects, and returns the rows with other results.
async fn applies_sets(kubectl: &Kubectl) -> anyhow::Result<Vec<String>> {
    let apply = format!("apply --namespace {NAMESPACE} --filename -");
    let set = format!("{apply} --prune --applyset shop");
    let rival = format!("{apply} --prune --applyset configmaps/rival");
    let list = format!("get configmaps,services --namespace {NAMESPACE} --output name");
    let members = format!("{list} --selector applyset.kubernetes.io/part-of");
    let kinds = format!(
        r"get secret shop --namespace {NAMESPACE} --output jsonpath={{.metadata.annotations.applyset\.kubernetes\.io/contains-group-kinds}}"
    );
    let mut other = config_map("other", "1");
    other["metadata"]["labels"] = json!({"keep": ""});
    let all = [config_map("limits", "1"), config_map("colors", "red"), service("web"), service("api")];
    let fewer = [config_map("limits", "2"), service("web")];
    let whole = &["configmap/colors", "configmap/limits", "service/api", "service/web"][..];
    let rows: &[Row<'_>] = &[
        (format!("create namespace {NAMESPACE}"), &[], &["namespace/kubectl-sets created"]),
        (apply.clone(), &[other], &["configmap/other created"]),
        (
            set.clone(),
            &all,
            &[
                "configmap/colors created",
                "configmap/limits created",
                "service/api created",
                "service/web created",
            ],
        ),
        (members.clone(), &[], whole),
        (kinds.clone(), &[], &["ConfigMap,Service"]),
        (
            set.clone(),
            &all,
            &[
                "configmap/colors unchanged",
                "configmap/limits unchanged",
                "service/api unchanged",
                "service/web unchanged",
            ],
        ),
        (
            format!("{set} --dry-run=server"),
            &fewer,
            &[
                "configmap/colors pruned (server dry run)",
                "configmap/limits configured (server dry run)",
                "service/api pruned (server dry run)",
                "service/web unchanged (server dry run)",
            ],
        ),
        (members.clone(), &[], whole),
        (
            set.clone(),
            &fewer,
            &[
                "configmap/colors pruned",
                "configmap/limits configured",
                "service/api pruned",
                "service/web unchanged",
            ],
        ),
        (members.clone(), &[], &["configmap/limits", "service/web"]),
        // The last object of a kind leaves the set, which is applied on the server.
        (
            format!("{set} --server-side --force-conflicts"),
            &[config_map("limits", "3")],
            &["configmap/limits serverside-applied", "service/web pruned"],
        ),
        (kinds.clone(), &[], &["ConfigMap"]),
        // An object that joins another set is not pruned from its former set.
        (rival, &[config_map("limits", "3")], &["configmap/limits configured"]),
        (set.clone(), &[config_map("colors", "blue")], &["configmap/colors created"]),
        (members.clone(), &[], &["configmap/colors", "configmap/limits"]),
        (
            format!("{apply} --prune --applyset namespaces/{NAMESPACE}"),
            &[config_map("limits", "4")],
            &[r#"error: resource "/v1, Resource=namespaces" is not permitted as an ApplySet parent"#],
        ),
        (format!("{list} --selector keep"), &[], &["configmap/other"]),
    ];
    let mut different = Vec::new();
    for (line, objects, expected) in rows {
        let printed = kubectl.lines(line, objects).await?;
        if printed != *expected {
            different.push(format!("kubectl {line}: {printed:?}, not {expected:?}"));
        }
    }
    Ok(different)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_pruned_of_the_objects_that_left_it() -> anyhow::Result<()> {
    let plane = spawn_blocking(ControlPlane::shared).await?;
    let host = embedded().await?;
    for (server, kubectl) in [
        ("the real API server", Kubectl::new(&plane.kubeconfig()).await?),
        ("the embedded API server", Kubectl::of_url(&host.url()).await?),
    ] {
        let different = applies_sets(&kubectl).await?;
        assert!(different.is_empty(), "on {server}:\n{}", different.join("\n"));
    }
    Ok(())
}

/// Returns the fields that kubectl explains from the older document, with their types.
async fn explained(kubectl: &Kubectl) -> anyhow::Result<String> {
    let mut printed = String::new();
    for resource in [
        "deployments",
        "deployments.spec",
        "pods.spec.containers",
        "services.spec.ports",
        "crd.spec.versions",
    ] {
        let text = kubectl.run(&format!("explain {resource} --output plaintext-openapiv2"), &[]).await?;
        // The embedded API server has no descriptions.
        let fields = text.lines().filter(|line| line.starts_with("   ") && line.contains("\t<"));
        let fields: Vec<&str> = fields.collect();
        ensure!(fields.len() > 2, "kubectl explain {resource}: {text}");
        printed.extend([resource, ":\n", &fields.join("\n"), "\n"]);
    }
    Ok(printed)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_document_explains_the_same_fields() -> anyhow::Result<()> {
    let plane = spawn_blocking(ControlPlane::shared).await?;
    let host = embedded().await?;
    let real = explained(&Kubectl::new(&plane.kubeconfig()).await?).await?;
    let embedded = explained(&Kubectl::of_url(&host.url()).await?).await?;
    let differences = similar::TextDiff::from_lines(&real, &embedded);
    let differences = differences.unified_diff().header("real", "embedded").to_string();
    assert!(differences.is_empty(), "{differences}");
    Ok(())
}

/// Serves an API server without the newer OpenAPI documents, as before Kubernetes 1.24.
async fn without_newer_documents(url: &str) -> anyhow::Result<Serving> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let url = url.to_owned();
    let answer = move |request: http::Request<Bytes>| {
        let (client, url) = (client.clone(), url.clone());
        async move {
            let path = request.uri().to_string();
            let answer = if path.starts_with("/openapi/v3") {
                None
            } else {
                forward(&client, request, &format!("{url}{path}")).await.ok()
            };
            answer.unwrap_or_else(|| {
                let mut missing = http::Response::new(Full::new(Bytes::new()).boxed());
                *missing.status_mut() = StatusCode::NOT_FOUND;
                missing
            })
        }
    };
    Ok(Serving::start(TcpListener::bind("127.0.0.1:0").await?, Arc::default(), answer)?)
}

async fn forward(
    client: &Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>,
    mut request: http::Request<Bytes>,
    url: &str,
) -> anyhow::Result<http::Response<Body>> {
    *request.uri_mut() = url.parse()?;
    let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
    Ok(http::Response::from_parts(head, Full::new(body.collect().await?.to_bytes()).boxed()))
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_falls_back_to_the_older_document() -> anyhow::Result<()> {
    let host = embedded().await?;
    let old = without_newer_documents(&host.url()).await?;
    let kubectl = Kubectl::of_url(&format!("http://{}", old.addr())).await?;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
    }});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.kubectl.example.com"},
        "spec": {
            "group": "kubectl.example.com", "scope": "Namespaced", "names": {"plural": "gears", "kind": "Gear"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let gear = |spec: Value| json!({"apiVersion": "kubectl.example.com/v1", "kind": "Gear", "metadata": {"name": "a"}, "spec": spec});
    let apply = "apply --namespace default --filename -";

    kubectl.run(apply, &[definition]).await?;
    // A watch does not end, and the proxy returns complete answers only.
    let direct = Kubectl::of_url(&host.url()).await?;
    direct.run("wait --for condition=Established crd/gears.kubectl.example.com --timeout 3m", &[]).await?;

    let explained = kubectl.run("explain gears.spec", &[]).await?;
    assert!(explained.contains("size\t<integer>"), "{explained}");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [gear(json!({"size": 1, "weight": 1}))]});
    // The server validates: kubectl found in the document that it does. kubectl itself validates what is in a List.
    for (wrong, why) in [
        (list, r#"ValidationError(Gear.spec): unknown field "weight""#),
        (gear(json!({"size": 1, "weight": 1})), r#"unknown field "spec.weight""#),
        (gear(json!({"size": "1"})), "must be of type integer"),
    ] {
        let refused = kubectl.lines(apply, &[wrong]).await?.join("\n");
        assert!(refused.contains(why), "{refused}");
    }
    kubectl.run(apply, &[gear(json!({"size": 1})), service("web"), config_map("a", "1")]).await?;
    kubectl.run(apply, &[gear(json!({"size": 2})), service("web"), config_map("a", "2")]).await?;
    let gear = kubectl.run("get gear a --namespace default --output json", &[]).await?;
    let gear: Value = serde_json::from_str(&gear).context("no JSON")?;
    assert_eq!(gear["spec"], json!({"size": 2}));
    old.shutdown().await;
    host.shutdown().await;
    Ok(())
}
