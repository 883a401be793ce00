//! The environment of the tests with a real Argo CD.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kube::{Client, Config};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_external as external;
use lockstep_external::dpu_clusters::UNREACHABLE;
use lockstep_external::{Pace, System};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown::{self, Trigger};
use lockstep_tests::argocd::{self, ArgoCd, CHART, Charts, DpuCluster};
use lockstep_tests::chart::apply;
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::dpuservice::{self, DPF};
use lockstep_tests::ground::eventually;
use lockstep_tests::user::User;
use lockstep_tests::watched::Watched;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

/// The namespace of services, here and on the clusters.
pub(crate) const SERVICES: &str = "dpu-services";
pub(crate) const FIRST: &str = "dpu-cluster-01";
pub(crate) const SECOND: &str = "dpu-cluster-02";

/// The maximum time that a sync may block a change, with a margin.
pub(crate) const BLOCKED: Duration = Duration::from_mins(7);

/// A management cluster with DPF, Argo CD and the controller, and two DPU clusters.
pub(crate) struct Environment {
    pub(crate) user: User,
    config: Config,
    controller: Option<Watched>,
    pub(crate) argo: ArgoCd,
    charts: Charts,
    pub(crate) clusters: [DpuCluster; 2],
    _dpf: Trigger,
    _plane: ControlPlane,
}

impl Environment {
    /// Starts all components. Returns `None` if Argo CD is not built.
    pub(crate) async fn start() -> anyhow::Result<Option<Self>> {
        let Some(built) = argocd::built()? else { return Ok(None) };
        let (plane, first, second) = tokio::join!(
            spawn_blocking(ControlPlane::start),
            DpuCluster::start(FIRST),
            DpuCluster::start(SECOND)
        );
        let (plane, clusters) = (plane??, [first?, second?]);
        let config = plane.config().await?;
        let client = Client::try_from(config.clone())?;
        let argo = ArgoCd::start(&plane, &built).await?;
        dpuservice::prepare(&client, &dpuservice::own_definitions()?).await?;
        dpuservice::prepare(&client, &external::definitions(&[System::Dpf])).await?;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SERVICES } });
        apply(&client, &namespace).await?;
        let clock = Clock::start(jiff::Timestamp::now);
        let mut manager = Manager::new(client.clone(), clock, 1, Metrics::new(prometheus::Registry::new())?);
        manager.add(System::Dpf.controller(Pace::BRISK, 1));
        let (dpf, stopping) = shutdown::channel();
        tokio::spawn(manager.run(stopping));
        let controller = Some(Watched::start("dpuservice", config.clone())?);
        let charts = Charts::serve(&["1.0.0", "1.1.0", "1.2.0"]).await?;
        let user = User { client };
        for object in clusters.iter().flat_map(DpuCluster::objects) {
            user.create(&object).await?;
        }
        Ok(Some(Self { user, config, controller, argo, charts, clusters, _dpf: dpf, _plane: plane }))
    }

    /// Replaces the controller with a new one that has an empty cache.
    pub(crate) fn restart_controller(&mut self) -> anyhow::Result<()> {
        self.controller = None;
        self.controller = Some(Watched::start("dpuservice", self.config.clone())?);
        Ok(())
    }

    /// Creates a service of version 1.0.0 with these values.
    pub(crate) async fn create_service(&self, name: &str, values: &Value) -> anyhow::Result<()> {
        let source = json!({ "repoURL": self.charts.url(), "chart": CHART, "version": "1.0.0" });
        let service = json!({
            "apiVersion": "svc.dpu.nvidia.com/v1alpha1",
            "kind": "DPUService",
            "metadata": { "namespace": SERVICES, "name": name },
            "spec": { "source": source, "values": values },
        });
        self.user.create(&service).await
    }

    pub(crate) async fn change(&self, name: &str, spec: &Value) -> anyhow::Result<()> {
        self.user.merge("DPUService", SERVICES, name, &json!({ "spec": spec })).await
    }

    pub(crate) async fn condition(&self, name: &str, condition: &str, state: &str) -> anyhow::Result<String> {
        self.user.until_condition(("DPUService", SERVICES, name), condition, state).await
    }

    pub(crate) async fn is_ready(&self, name: &str) -> anyhow::Result<()> {
        self.condition(name, "Ready", "True/Success").await.map(drop)
    }

    /// Waits until a release on a cluster has this version and this value.
    pub(crate) async fn runs(
        &self,
        cluster: &DpuCluster,
        name: &str,
        version: &str,
        greeting: &str,
    ) -> anyhow::Result<()> {
        eventually(&format!("{name} {version} runs on {} with {greeting}", cluster.name), async || {
            let (found, values) = cluster.release(SERVICES, name).await?;
            ensure!(found == version && values["greeting"] == greeting, "{found} {values}");
            Ok(())
        })
        .await
    }

    pub(crate) async fn runs_everywhere(
        &self,
        name: &str,
        version: &str,
        greeting: &str,
    ) -> anyhow::Result<()> {
        for cluster in &self.clusters {
            self.runs(cluster, name, version, greeting).await?;
        }
        self.is_ready(name).await
    }

    pub(crate) async fn delete_service(&self, name: &str) -> anyhow::Result<()> {
        self.user.delete("DPUService", SERVICES, name).await?;
        self.user.gone("DPUService", SERVICES, name).await
    }

    /// Makes a cluster unreachable. DPF reports it as not ready.
    pub(crate) async fn cut(&self, cluster: &DpuCluster) -> anyhow::Result<()> {
        cluster.cut();
        self.note(cluster, &json!("true")).await
    }

    pub(crate) async fn restore(&self, cluster: &DpuCluster) -> anyhow::Result<()> {
        cluster.restore();
        self.note(cluster, &Value::Null).await
    }

    pub(crate) async fn note(&self, cluster: &DpuCluster, is_unreachable: &Value) -> anyhow::Result<()> {
        let patch = json!({ "metadata": { "annotations": { UNREACHABLE: is_unreachable } } });
        self.user.merge("DPUCluster", DPF, &cluster.name, &patch).await
    }

    /// Waits until Argo CD has retried the sync of an Application this many times.
    pub(crate) async fn is_retried(&self, application: &str, times: u64) -> anyhow::Result<Value> {
        within(BLOCKED, &format!("{application} is retried {times} times"), async || {
            let found = self.application(application).await?;
            ensure!(found["status"]["operationState"]["retryCount"].as_u64() >= Some(times), "{found:#}");
            Ok(found)
        })
        .await
    }

    pub(crate) async fn application(&self, name: &str) -> anyhow::Result<Value> {
        self.user
            .get("Application", ARGO_NAMESPACE, name)
            .await?
            .with_context(|| format!("there is no {name}"))
    }

    /// Returns all writes of the controller, except Events.
    pub(crate) fn writes(&self) -> Vec<String> {
        let writes = |within| self.controller.iter().flat_map(move |controller| controller.writes(within));
        writes(ARGO_NAMESPACE).chain(writes(SERVICES)).filter(|line| !line.contains("/events")).collect()
    }

    pub(crate) async fn nothing_runs(&self, cluster: &DpuCluster) -> anyhow::Result<()> {
        let left = cluster.objects_in(SERVICES).await?;
        ensure!(left.is_empty(), "on {}: {left:?}", cluster.name);
        Ok(())
    }
}

/// Retries until the probe succeeds, as [`eventually`] does, with a limit of its own.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    probe: impl AsyncFn() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return Ok(value),
            Err(error) if start.elapsed() > limit => {
                return Err(error.context(format!("not within {limit:?}: {what}")));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
