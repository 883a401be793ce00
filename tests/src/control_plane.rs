//! A real Kubernetes control plane: etcd, kube-apiserver, the garbage collector and the namespace controller.
//!
//! `tests/control-plane/build.sh` builds it once into a cache; after that it starts in a few seconds. A supervisor runs its
//! processes and ends them when its standard input closes, so they end with the test process, however that ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, bail};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Deserialize;

/// A running control plane with RBAC. Dropping it ends its processes and deletes its data.
#[derive(Debug)]
pub struct ControlPlane {
    supervisor: Child,
    programs: PathBuf,
    place: Place,
}

/// The output of the supervisor when the control plane is ready.
#[derive(Debug, Deserialize)]
struct Place {
    server: String,
    dir: PathBuf,
}

impl ControlPlane {
    /// Returns the control plane that all tests of one test binary share. The first call starts it.
    ///
    /// Each test uses its own names of namespaces and cluster-scoped objects.
    ///
    /// # Panics
    /// If it can't be built or does not start: a test that needs it must not pass without it.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ControlPlane> = OnceLock::new();
        SHARED.get_or_init(|| match Self::start() {
            Ok(plane) => plane,
            Err(error) => panic!("the real control plane is not available: {error:#}"),
        })
    }

    /// Builds the control plane if necessary, starts it, and waits until it is ready.
    pub fn start() -> anyhow::Result<Self> {
        let programs = programs()?;
        let mut supervisor = Command::new(programs.join("lockstep-control-plane"))
            .arg("--assets")
            .arg(&programs)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the supervisor of the control plane")?;
        let mut line = String::new();
        let stdout = supervisor.stdout.take().context("the supervisor has no standard output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        if line.is_empty() {
            let status = supervisor.wait()?;
            bail!("the control plane did not start ({status}); its logs are in the output above");
        }
        let place = serde_json::from_str(&line).with_context(|| format!("the supervisor said {line:?}"))?;
        Ok(Self { supervisor, programs, place })
    }

    /// Returns the URL of the API server.
    pub fn server(&self) -> &str {
        &self.place.server
    }

    /// Returns the path of a kubeconfig with the permissions of a cluster administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.place.dir.join("kubeconfig")
    }

    /// Returns the path of the socket on which its etcd serves clients.
    pub fn etcd(&self) -> PathBuf {
        self.place.dir.join("etcd.sock:0")
    }

    /// Returns the path of the log of `etcd`, `kube-apiserver` or `controllers`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.place.dir.join(name).with_extension("log")
    }

    /// Returns a `kubectl` command that uses this control plane as its administrator.
    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new(kubectl_in(&self.programs));
        kubectl.env("KUBECONFIG", self.kubeconfig());
        kubectl
    }

    /// Returns the client configuration of a cluster administrator.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    /// Creates a client with the permissions of a cluster administrator.
    ///
    /// It belongs to the tokio runtime in which it is created, so tests do not share it.
    pub async fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// Returns the client configuration of a user in no group except `system:authenticated`.
    pub async fn user_config(&self, user: &str) -> anyhow::Result<Config> {
        let mut config = self.config().await?;
        config.auth_info.impersonate = Some(user.to_owned());
        Ok(config)
    }

    /// Returns the client configuration of an existing `ServiceAccount`, with a token as its pods would get.
    pub async fn service_account_config(&self, namespace: &str, name: &str) -> anyhow::Result<Config> {
        let mut config = self.config().await?;
        config.auth_info.token = Some(self.token(namespace, name).await?.into());
        Ok(config)
    }

    /// Returns a token of an existing `ServiceAccount`, as its pods would get.
    pub async fn token(&self, namespace: &str, name: &str) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..Default::default() };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await?;
        answer.status.and_then(|status| status.token).context("a TokenRequest without token")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // The supervisor ends by itself. After the wait, its directory no longer exists.
        let _ = self.supervisor.wait();
    }
}

/// Builds the missing programs of the control plane, and returns their directory.
pub fn programs() -> anyhow::Result<PathBuf> {
    build(&[])
}

/// Builds kubectl if necessary, and returns the path of the program.
pub fn kubectl() -> anyhow::Result<PathBuf> {
    Ok(kubectl_in(&programs()?))
}

/// Returns the kubectl that was built, or, if other assets are used, the installed one.
fn kubectl_in(programs: &Path) -> PathBuf {
    let bundled = programs.join("kubectl");
    if bundled.exists() { bundled } else { PathBuf::from("kubectl") }
}

/// Builds helm if necessary, and returns the path of the program.
pub fn helm() -> anyhow::Result<PathBuf> {
    Ok(build(&["helm"])?.join("helm"))
}

/// Builds the Pub/Sub of [`crate::pubsub`] if necessary, and returns the path of the program.
pub(crate) fn pubsub() -> anyhow::Result<PathBuf> {
    Ok(build(&["pubsub"])?.join("lockstep-pubsub"))
}

/// Builds the programs that use Kubernetes' own libraries if necessary, and returns the path of the program that contains them.
pub fn clients() -> anyhow::Result<PathBuf> {
    Ok(build(&["clients"])?.join("lockstep-clients"))
}

/// Builds MetalLB's controller if necessary, and returns the directory that contains it and its CRDs.
pub fn metallb() -> anyhow::Result<PathBuf> {
    build(&["metallb"])
}

/// Returns the directory with Argo CD's application controller and repo-server and its CRDs; `None` if it is not built.
///
/// The build takes too long for a test: `tests/run --nightly` builds it.
pub fn argocd_if_built() -> anyhow::Result<Option<PathBuf>> {
    Ok(Some(build(&["--if-built", "argocd"])?).filter(|built| !built.as_os_str().is_empty()))
}

/// Runs `build.sh`, which prints its progress on standard error, and returns the directory that it names. It runs once per
/// process for each list of arguments, because it reads all sources and queries Go for its version.
fn build(arguments: &[&str]) -> anyhow::Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(directory) = built.get(&arguments.concat()) {
        return Ok(directory.clone());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/build.sh");
    let mut build = Command::new(&script)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {}", script.display()))?;
    let mut printed = String::new();
    if let Some(mut stdout) = build.stdout.take() {
        stdout.read_to_string(&mut printed)?;
    }
    let status = build.wait()?;
    if !status.success() {
        bail!("{} failed ({status}); its message is in the output above", script.display());
    }
    let directory = PathBuf::from(printed.trim_end());
    built.insert(arguments.concat(), directory.clone());
    Ok(directory)
}
