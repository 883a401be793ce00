//! The two backends that a test of the operator runs on: the embedded API server and a real one.
//!
//! Each backend exists as long as the test binary, and runs one operator. Each test uses names with its own prefix.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_cli::controllers;
use lockstep_engine::operator;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::{Ended, Manager};
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown::{self, Trigger};
use prometheus::Registry;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::control_plane::ControlPlane;

/// How long a test waits for a result. A timeout fails the test with the last state. It is longer than several consecutive
/// delays of the program or of the control plane.
pub const PATIENCE: Duration = Duration::from_mins(3);

/// An API server with our CRDs and the operator.
pub struct Ground {
    config: Config,
    operator: Mutex<Option<Running>>,
    host: Option<Host>,
}

/// Returns the runtime of the shared hosts and operators; the runtimes of single tests end with them.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().expect("a runtime can be made")
    })
}

/// Runs a setup on the shared runtime, from any runtime of the caller. It uses a separate thread, because a runtime must not be
/// blocked from within another.
pub(crate) fn on_runtime<T: Send + 'static>(
    set_up: impl FnOnce(&'static Runtime) -> T + Send + 'static,
) -> T {
    std::thread::spawn(|| set_up(runtime())).join().expect("the set-up does not panic")
}

impl Ground {
    /// Returns the embedded API server of this test binary.
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Ground> = OnceLock::new();
        EMBEDDED.get_or_init(|| {
            on_runtime(|runtime| {
                runtime.block_on(async {
                    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                    let host = Host::bind(any_port, Options::default()).await.expect("a free port");
                    let config = Config::new(host.url().parse().expect("a URL"));
                    Self::prepare(config, Some(host)).await.expect("the embedded ground")
                })
            })
        })
    }

    /// Returns the real control plane of this test binary.
    pub fn real() -> &'static Self {
        static REAL: OnceLock<Ground> = OnceLock::new();
        REAL.get_or_init(|| {
            on_runtime(|runtime| {
                let plane = ControlPlane::shared();
                runtime.block_on(async {
                    let config = plane.config().await.expect("its kubeconfig");
                    Self::prepare(config, None).await.expect("the real ground")
                })
            })
        })
    }

    /// Creates a client for the calling test's runtime.
    pub fn client(&self) -> Client {
        Client::try_from(self.config.clone()).expect("the configuration makes a client")
    }

    /// Returns a kubeconfig with the permissions of an administrator.
    pub fn kubeconfig(&self) -> anyhow::Result<String> {
        match &self.host {
            Some(host) => Ok(host.kubeconfig_yaml()),
            None => Ok(std::fs::read_to_string(ControlPlane::shared().kubeconfig())?),
        }
    }

    /// Stops the operator and starts another one without its in-memory state.
    pub async fn restart(&'static self) -> anyhow::Result<()> {
        let before = self.operator.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Running { trigger, ended }) = before {
            drop(trigger);
            ended.await??;
        }
        let started = on_runtime(|runtime| {
            let _entered = runtime.enter();
            Running::start(self.client())
        });
        *self.operator.lock().unwrap_or_else(PoisonError::into_inner) = Some(started?);
        Ok(())
    }

    async fn prepare(config: Config, host: Option<Host>) -> anyhow::Result<Self> {
        let client = Client::try_from(config.clone())?;
        install_crds(&client).await?;
        let operator = Mutex::new(Some(Running::start(client)?));
        Ok(Self { config, operator, host })
    }
}

/// Installs all our CRDs and waits until they are served.
pub async fn install_crds(client: &Client) -> anyhow::Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("lockstep-tests").force();
    for crd in lockstep_crds::all().into_iter().flat_map(|set| set.crds) {
        let name = crd.metadata.name.clone().context("a CRD has a name")?;
        crds.patch(&name, &params, &Patch::Apply(&crd)).await?;
        eventually("the CRD is established", async || {
            let crd = crds.get(&name).await?;
            let conditions = crd.status.and_then(|status| status.conditions).unwrap_or_default();
            let established = conditions.iter().any(|c| c.type_ == "Established" && c.status == "True");
            if established { Ok(()) } else { bail!("{conditions:?}") }
        })
        .await?;
    }
    Ok(())
}

/// A running operator; dropping it stops it.
struct Running {
    trigger: Trigger,
    ended: JoinHandle<Result<(), Ended>>,
}

impl Running {
    /// Starts all controllers with the client on the current runtime.
    fn start(client: Client) -> anyhow::Result<Self> {
        let settings = operator::Config {
            concurrency: 8,
            resync: Duration::from_mins(10),
            instance: "lockstep-tests".to_owned(),
            seed: 1,
        };
        let clock = Clock::start(jiff::Timestamp::now);
        let mut manager = Manager::new(client, clock, settings.seed, Metrics::new(Registry::default())?);
        for set in controllers::select_running(&[])? {
            manager.add(controllers::machine(set.controller, &settings).context("a controller")?);
        }
        let (trigger, shutdown) = shutdown::channel();
        Ok(Self { trigger, ended: tokio::spawn(manager.run(shutdown)) })
    }
}

/// Retries a probe until it succeeds, and returns its result. The error of a probe describes the state that does not hold yet.
pub async fn eventually<T>(what: &str, probe: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() > PATIENCE => {
                return Err(error.context(format!("not within {PATIENCE:?}: {what}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}
