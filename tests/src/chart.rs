//! The Helm chart, rendered, installed and run: the program with the flags that the chart gives it, as the chart's account.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::control_plane::{self, ControlPlane};

/// How long the program may take to say where it serves.
const STARTUP: Duration = Duration::from_mins(1);

/// Renders the chart for a release of this name, in a namespace of the same name, with values in YAML.
///
/// An error holds what helm said.
pub fn render(release: &str, values: &str) -> anyhow::Result<Vec<Value>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("values.yaml");
    std::fs::write(&file, values)?;
    let output = Command::new(control_plane::helm()?)
        .args(["template", release])
        .arg(workspace().join("deploy/lockstep"))
        .args(["--namespace", release, "--include-crds", "--values"])
        .arg(&file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    let documents = documents.collect::<Result<Vec<_>, _>>().context("reading what helm rendered")?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// Applies one object and returns what the API server made of it.
pub async fn apply(client: &Client, object: &Value) -> anyhow::Result<DynamicObject> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let kind = GroupVersionKind::try_from(object.types.as_ref().context("an object without kind")?)?;
    let (resource, capabilities) = pinned_kind(client, &kind).await?;
    let api: Api<DynamicObject> = match (&capabilities.scope, &object.metadata.namespace) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        (Scope::Namespaced, None) => bail!("{} without a namespace", kind.kind),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    };
    let name = object.metadata.name.as_deref().context("an object without name")?;
    let params = PatchParams::apply("helm").force().validation_strict();
    api.patch(name, &params, &Patch::Apply(&object))
        .await
        .with_context(|| format!("applying {} {name}", kind.kind))
}

/// The only rendered object of a kind.
pub fn only<'a>(objects: &'a [Value], kind: &str) -> anyhow::Result<&'a Value> {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let object = found.next().with_context(|| format!("no {kind} was rendered"))?;
    ensure!(found.next().is_none(), "more than one {kind} was rendered");
    Ok(object)
}

/// The `lockstep` program, run as the container of a rendered Deployment would run it.
#[derive(Debug)]
pub struct Program {
    process: Child,
    metrics: String,
    /// Holds the kubeconfig and the log.
    directory: tempfile::TempDir,
}

impl Program {
    /// Starts the program with the flags of the Deployment as the account of its pods, on free ports of loopback.
    pub async fn start(plane: &ControlPlane, deployment: &Value) -> anyhow::Result<Self> {
        let pod = &deployment["spec"]["template"]["spec"];
        let namespace = deployment["metadata"]["namespace"].as_str().context("no namespace")?;
        let account = pod["serviceAccountName"].as_str().context("no service account")?;
        let directory = tempfile::tempdir()?;
        let kubeconfig = directory.path().join("kubeconfig");
        write_kubeconfig(plane, namespace, account, &kubeconfig).await?;

        let flags = pod["containers"][0]["args"].as_array().context("no args")?;
        let flags = flags.iter().map(|flag| flag.as_str().unwrap_or_default());
        let process = Command::new(program()?)
            .args(flags.map(|flag| match flag.split_once("-address=") {
                Some((name, _)) => format!("{name}-address=127.0.0.1:0"),
                None => flag.to_owned(),
            }))
            .env("KUBECONFIG", &kubeconfig)
            .stderr(File::create(directory.path().join("log"))?)
            .spawn()?;
        let mut program = Self { process, metrics: String::new(), directory };
        program.metrics = program.address("serving metrics").await?;
        Ok(program)
    }

    /// Waits for the log line that says where something is served.
    async fn address(&self, message: &str) -> anyhow::Result<String> {
        let start = Instant::now();
        while start.elapsed() < STARTUP {
            let lines = self.log();
            let mut lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            if let Some(line) = lines.find(|line| line["message"] == message) {
                return Ok(line["address"].as_str().context("no address")?.to_owned());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("lockstep did not say {message:?} within {STARTUP:?}:\n{}", self.log())
    }

    /// What the program has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// All metrics, in Prometheus' text format.
    pub async fn metrics(&self) -> anyhow::Result<String> {
        let mut connection = tokio::net::TcpStream::connect(&self.metrics).await?;
        connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn write_kubeconfig(
    plane: &ControlPlane,
    namespace: &str,
    account: &str,
    file: &Path,
) -> anyhow::Result<()> {
    let mut kubeconfig = Kubeconfig::read_from(plane.kubeconfig())?;
    let user = kubeconfig.auth_infos.first_mut().context("a kubeconfig without a user")?;
    user.auth_info = Some(plane.service_account_config(namespace, account).await?.auth_info);
    std::fs::write(file, serde_yaml::to_string(&kubeconfig)?)?;
    Ok(())
}

/// Builds the program, unless `LOCKSTEP_BIN` names one, and returns its path.
pub fn program() -> anyhow::Result<PathBuf> {
    if let Some(path) = std::env::var_os("LOCKSTEP_BIN") {
        return Ok(PathBuf::from(path));
    }
    let output = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--package", "lockstep-shell", "--bin", "lockstep"])
        .arg("--message-format=json")
        .current_dir(workspace())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "lockstep can't be built; the compiler's message is above");
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let mut executables =
        messages.filter_map(|message| Some(message.ok()?["executable"].as_str()?.to_owned()));
    executables.next().map(PathBuf::from).context("cargo named no executable")
}

/// The root of the checkout.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
