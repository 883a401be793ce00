//! A real Argo CD for tests: its application controller and its repo-server, with Redis, charts and clusters as deployment
//! targets.
//!
//! It takes minutes to build, so tests use it only where it is built already ([`built`]).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::yaml;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::task::spawn_blocking;

use crate::chart::{apply, install_crd};
use crate::control_plane::{self, ControlPlane};
use crate::ground::eventually;
use crate::program::workspace;
use crate::raw::{self, Raw};

mod dpu_cluster;

pub use self::dpu_cluster::DpuCluster;

/// The name of the chart in [`Charts`].
pub const CHART: &str = "agent";

/// Runs a program until standard input closes, so it ends with the test, however the test ends. All processes are in one group.
const SUPERVISOR: &str = r#""$0" "$@" & cat >/dev/null; kill -9 0"#;

/// Seconds after which Argo CD compares an Application again though nothing has changed. The default is 120 to 180.
const RESYNC: &str = "30";

/// Seconds for which Argo CD keeps the status of an Application after its chart could not be loaded. The default is 180.
const REPO_ERROR_GRACE: &str = "1";

/// Returns the directory with Argo CD's programs; `None` if they are not built or Redis is not installed, which it reports on
/// standard error.
pub fn built() -> anyhow::Result<Option<PathBuf>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_redis = std::env::split_paths(&path).any(|folder| folder.join("redis-server").is_file());
    let built = control_plane::argocd_if_built()?;
    let missing = match (&built, has_redis) {
        (Some(_), true) => return Ok(built),
        (None, _) => "Argo CD is not built (tests/control-plane/build.sh argocd)",
        (_, false) => "Redis is not installed (package redis-server)",
    };
    // Not the macro: its output is captured for tests that pass.
    writeln!(
        std::io::stderr(),
        "SKIPPED: {missing}; the DPUService controller is not tested with a real Argo CD"
    )?;
    Ok(None)
}

/// A program that ends when this is dropped.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn start(
        program: &Path,
        arguments: &[&str],
        variables: &[(&str, OsString)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR])
            .arg(program)
            .args(arguments)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        Ok(Self(supervisor.with_context(|| format!("starting {}", program.display()))?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Argo CD as an administrator of a management cluster; dropping it ends its processes.
#[derive(Debug)]
pub struct ArgoCd {
    controller: Option<Process>,
    repo_server: Option<Process>,
    redis: Option<Process>,
    program: PathBuf,
    kubeconfig: PathBuf,
    /// The search path, which begins with the folder of helm.
    path: OsString,
    /// The port of the repo-server.
    port: u16,
    directory: TempDir,
}

impl ArgoCd {
    /// Installs its CRDs and its configuration, and starts it.
    pub async fn start(plane: &ControlPlane, built: &Path) -> anyhow::Result<Self> {
        let client = plane.client().await?;
        for kind in ["application", "appproject"] {
            let file = built.join("definitions").join(format!("{kind}-crd.yaml"));
            install_crd(&client, &yaml::read::<Value>(&fs::read_to_string(file)?)?).await?;
        }
        let labels = json!({ "app.kubernetes.io/part-of": "argocd" });
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": ARGO_NAMESPACE } }),
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "namespace": ARGO_NAMESPACE, "name": "argocd-cm", "labels": labels },
                "data": { "cluster.inClusterEnabled": "false" },
            }),
            json!({
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": { "namespace": ARGO_NAMESPACE, "name": "argocd-secret", "labels": labels },
            }),
        ] {
            apply(&client, &object).await?;
        }
        let helm = spawn_blocking(control_plane::helm).await??;
        let helm = helm.parent().context("helm is in no folder")?.to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directory = tempfile::tempdir()?;
        fs::create_dir(directory.path().join("tmp"))?;
        let mut argo = Self {
            controller: None,
            repo_server: None,
            redis: None,
            program: built.join("lockstep-argocd"),
            kubeconfig: plane.kubeconfig(),
            path: std::env::join_paths(std::iter::once(helm).chain(std::env::split_paths(&path)))?,
            port: 0,
            directory,
        };
        argo.restart_redis()?;
        argo.restart_repo_server()?;
        argo.port = eventually("the repo-server listens", async || {
            let log = fs::read_to_string(argo.log("repo-server"))?;
            let (_, port) = log.split_once("listening on 127.0.0.1:").with_context(|| log.clone())?;
            Ok(port.split_once('"').context("no port")?.0.parse()?)
        })
        .await?;
        argo.restart_controller()?;
        Ok(argo)
    }

    /// Kills Redis, if it runs, and starts it empty: it stores nothing on disk, as in Argo CD's manifests.
    pub fn restart_redis(&mut self) -> anyhow::Result<()> {
        self.redis = None;
        let socket = self.redis();
        let arguments = ["--port", "0", "--unixsocket", &socket, "--save", "", "--appendonly", "no"];
        self.redis = Some(Process::start(Path::new("redis-server"), &arguments, &[], &self.log("redis"))?);
        Ok(())
    }

    /// Kills the repo-server, if it runs, and starts it.
    pub fn restart_repo_server(&mut self) -> anyhow::Result<()> {
        self.repo_server = None;
        let (port, redis) = (self.port.to_string(), self.redis());
        let mut arguments = vec!["argocd-repo-server", "--disable-tls", "--redis", &redis];
        arguments.extend(["--address", "127.0.0.1", "--port", &port]);
        arguments.extend(["--metrics-address", "127.0.0.1", "--metrics-port", "0"]);
        let within = |name: &str| self.directory.path().join(name).into_os_string();
        let variables = [
            ("PATH", self.path.clone()),
            ("HOME", within("tmp")),
            ("TMPDIR", within("tmp")),
            ("ARGOCD_ASK_PASS_SOCK", within("ask-pass")),
            ("ARGOCD_GPG_ENABLED", "false".into()),
        ];
        self.repo_server =
            Some(Process::start(&self.program, &arguments, &variables, &self.log("repo-server"))?);
        Ok(())
    }

    /// Kills the application controller, if it runs, and starts it.
    pub fn restart_controller(&mut self) -> anyhow::Result<()> {
        self.controller = None;
        let (repo_server, redis) = (format!("127.0.0.1:{}", self.port), self.redis());
        let mut arguments =
            vec!["argocd-application-controller", "--namespace", ARGO_NAMESPACE, "--redis", &redis];
        arguments.extend(["--repo-server", &repo_server, "--repo-server-plaintext", "--metrics-port", "0"]);
        arguments.extend(["--app-resync", RESYNC, "--app-resync-jitter", "0"]);
        arguments.extend(["--repo-error-grace-period-seconds", REPO_ERROR_GRACE]);
        let variables = [("KUBECONFIG", self.kubeconfig.clone().into_os_string())];
        self.controller =
            Some(Process::start(&self.program, &arguments, &variables, &self.log("controller"))?);
        Ok(())
    }

    /// Returns the last warnings and errors in its logs.
    pub fn recent_errors(&self) -> String {
        let logs = ["controller", "repo-server"].map(|name| fs::read_to_string(self.log(name)));
        let logs = logs.map(Result::unwrap_or_default);
        let is_error = |line: &&str| {
            ["warning", "error", "fatal"].iter().any(|level| line.contains(&format!(r#""level":"{level}""#)))
        };
        let lines: Vec<&str> = logs.iter().flat_map(|log| log.lines()).filter(is_error).collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    fn redis(&self) -> String {
        self.directory.path().join("redis").display().to_string()
    }

    fn log(&self, name: &str) -> PathBuf {
        self.directory.path().join(name).with_extension("log")
    }
}

/// A chart repository.
#[derive(Debug)]
pub struct Charts(Raw);

impl Charts {
    /// Serves the chart [`CHART`] in these versions.
    pub async fn serve(versions: &[&str]) -> anyhow::Result<Self> {
        let helm = spawn_blocking(control_plane::helm).await??;
        let directory = tempfile::tempdir()?;
        let run = |arguments: &[&str]| {
            let output = Command::new(&helm).args(arguments).current_dir(directory.path()).output()?;
            ensure!(
                output.status.success(),
                "helm {arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            anyhow::Ok(())
        };
        let chart = workspace().join("tests/src/argocd/chart").display().to_string();
        for version in versions {
            run(&["package", &chart, "--version", version])?;
        }
        run(&["repo", "index", "."])?;
        let mut files = BTreeMap::new();
        for file in fs::read_dir(directory.path())? {
            let path = file?.path();
            let name = path.file_name().context("a file without a name")?.to_string_lossy().into_owned();
            files.insert(name, fs::read(path)?);
        }
        let server = Raw::start(move |head, mut stream| {
            let name = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
            let file = files.get(name).cloned();
            async move {
                let Some(file) = file else {
                    return stream.write_all(raw::answer("404 Not Found", &[], "").as_bytes()).await;
                };
                let head =
                    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", file.len());
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&file).await
            }
        });
        Ok(Self(server.await))
    }

    /// Returns its URL.
    pub fn url(&self) -> &str {
        &self.0.url
    }
}
