//! A management cluster around the Bridge: HyperShift, DPF and MetalLB, a container registry, and users.
//!
//! ```text
//!  API server ◀── the models ([`Surroundings`])     registry ◀─┐
//!      ▲  ▲                                                    │
//!      │  └────── users ([`Tenant`])                           │
//!      └───────── the Bridge, with a record of its requests ([`Watched`]), or as a process of its own
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::OnceLock;

use kube::{Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_external as external;
use lockstep_external::{Pace, hypershift};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown::{self, Trigger};
use prometheus::Registry;
use serde_json::Value;

use crate::chart::{apply, install_crd};
use crate::control_plane::ControlPlane;
use crate::ground::{install_crds, on_runtime};
use crate::raw::Raw;
use crate::registry::{self, Guard};
use crate::upstream::definitions;
use crate::user::User;
use crate::watched::Watched;

pub mod lifecycle;
pub mod objects;
pub mod storm;
mod tenant;
pub mod validation;

use objects::node;
pub use tenant::Tenant;

/// The address at which node ports are reached.
pub const NODE_ADDRESS: &str = "198.51.100.7";

/// The systems around the Bridge. They end when this is dropped.
#[derive(Debug)]
pub struct Surroundings {
    registry: Raw,
    _external: Trigger,
}

impl Surroundings {
    /// Installs the CRDs and HyperShift, adds a Node, and runs the models on the current runtime.
    pub async fn start(client: Client, definitions: Vec<Value>) -> anyhow::Result<Self> {
        for definition in &definitions {
            install_crd(&client, definition).await?;
        }
        for object in hypershift::installation() {
            apply(&client, &object).await?;
        }
        let user = User { client: client.clone() };
        user.create(&node("worker", NODE_ADDRESS)).await?;
        let clock = Clock::start(jiff::Timestamp::now);
        let mut manager = Manager::new(client, clock, 1, Metrics::new(Registry::new())?);
        for world in external::controllers(&external::BRIDGE, Pace::BRISK, 1) {
            manager.add(world);
        }
        let (trigger, stopping) = shutdown::channel();
        tokio::spawn(manager.run(stopping));
        // The event that HyperShift runs enqueues all bridges, so wait for it here and not during a test.
        let operator = ("Deployment", hypershift::NAMESPACE, hypershift::OPERATOR);
        let runs = |operator: &Value| operator["status"]["availableReplicas"] == 1;
        user.until("HyperShift runs", operator, runs).await?;
        Ok(Self { registry: registry::registry(Guard::Basic).await, _external: trigger })
    }

    /// Returns the repository with the release images, which have the tags `4.19.3` and `4.20.1`.
    pub fn repository(&self) -> String {
        registry::repository(&self.registry)
    }
}

/// An API server with all systems and the Bridge, for the lifetime of the test binary. Tests are isolated by their names
/// ([`Tenant`]).
#[derive(Debug)]
pub struct Site {
    config: Config,
    surroundings: Surroundings,
    /// The Bridge.
    pub bridge: Watched,
    _host: Option<Host>,
}

impl Site {
    /// Returns the embedded API server, with the CRDs of the models.
    pub fn embedded() -> &'static Self {
        static EMBEDDED: OnceLock<Site> = OnceLock::new();
        EMBEDDED.get_or_init(|| {
            on_runtime(|runtime| {
                runtime.block_on(async {
                    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                    let host = Host::bind(any_port, Options::default()).await.expect("a free port");
                    let config = Config::new(host.url().parse().expect("a URL"));
                    let site =
                        Self::prepare(config, external::definitions(&external::BRIDGE), Some(host)).await;
                    site.expect("the embedded site")
                })
            })
        })
    }

    /// Returns a real control plane, with the upstream CRDs if they are available.
    pub fn real() -> &'static Self {
        static REAL: OnceLock<Site> = OnceLock::new();
        REAL.get_or_init(|| {
            on_runtime(|runtime| {
                let plane = ControlPlane::shared();
                runtime.block_on(async {
                    let config = plane.config().await.expect("its kubeconfig");
                    let definitions = definitions(&external::BRIDGE).expect("definitions");
                    Self::prepare(config, definitions, None).await.expect("the real site")
                })
            })
        })
    }

    async fn prepare(config: Config, definitions: Vec<Value>, host: Option<Host>) -> anyhow::Result<Self> {
        let client = Client::try_from(config.clone())?;
        install_crds(&client).await?;
        let surroundings = Surroundings::start(client, definitions).await?;
        let bridge = Watched::start("bridge", config.clone())?;
        Ok(Self { config, surroundings, bridge, _host: host })
    }

    /// Creates a user of the cluster under this name, with a unique number.
    pub async fn tenant(&self, name: &str, number: u8) -> anyhow::Result<Tenant> {
        let client = Client::try_from(self.config.clone())?;
        Tenant::move_in(client, name, number, self.surroundings.repository()).await
    }
}
