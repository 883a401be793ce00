//! Compares Argo CD with its model: one table of user operations on Applications and of the resulting states runs on both.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{TryStreamExt as _, future};
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher;
use kube::{Api, Client};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::write::covers;
use lockstep_external as external;
use lockstep_external::System;
use lockstep_external::dpu_clusters::{Access, UNREACHABLE};
use lockstep_tests::argocd::{ArgoCd, CHART, Charts, DpuCluster};
use lockstep_tests::chart::apply;
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::dpuservice::{self, DPF};
use lockstep_tests::ground::eventually;
use lockstep_tests::user::User;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};

use super::table::{Row, Step, VERSIONS, outage, rows, seen, spec};

/// The maximum time from a step to its resulting state.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many states an error lists.
const STATES_MAX: usize = 10;
/// The deployment targets of Applications: a cluster that is always reachable, and one that fails for a while.
const CLUSTERS: [&str; 2] = ["steady", "failing"];

/// States of Applications, by name, in order.
type States = Arc<Mutex<BTreeMap<String, Vec<Value>>>>;

/// A management cluster with Argo CD or its model.
pub(crate) struct Bench {
    user: User,
    repository: String,
    servers: [String; 2],
    /// The real clusters; `None` for the model.
    clusters: Option<[DpuCluster; 2]>,
    states: States,
    watch: JoinHandle<()>,
    _running: Vec<Box<dyn Any + Send>>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Bench {
    /// Starts the programs of Argo CD.
    pub(crate) async fn real(built: &Path) -> anyhow::Result<Self> {
        let (plane, first, second) = tokio::join!(
            spawn_blocking(ControlPlane::start),
            DpuCluster::start(CLUSTERS[0]),
            DpuCluster::start(CLUSTERS[1])
        );
        let (plane, clusters) = (plane??, [first?, second?]);
        let user = User { client: plane.client().await? };
        let argo = ArgoCd::start(&plane, built).await?;
        let charts = Charts::serve(&VERSIONS).await?;
        let repository = charts.url().to_owned();
        for cluster in &clusters {
            user.create(&argo_secret(&cluster.name, cluster.access())).await?;
        }
        let servers = clusters.each_ref().map(|cluster| cluster.access().server.clone());
        let running: Vec<Box<dyn Any + Send>> = vec![Box::new(argo), Box::new(charts), Box::new(plane)];
        Self::new(user, repository, servers, Some(clusters), running).await
    }

    /// Starts the model of Argo CD.
    pub(crate) async fn model() -> anyhow::Result<Self> {
        let plane = spawn_blocking(ControlPlane::start).await??;
        let user = User { client: plane.client().await? };
        let systems = [System::Dpf, System::DpuClusters, System::ArgoCd];
        dpuservice::prepare(&user.client, &external::definitions(&systems)).await?;
        let external = dpuservice::surround(user.client.clone())?;
        for name in CLUSTERS {
            dpuservice::join(&user, name).await?;
            let access = Access::by_token(&dpuservice::server(name), dpuservice::TOKEN);
            user.create(&argo_secret(name, &access)).await?;
        }
        let servers = CLUSTERS.map(dpuservice::server);
        let running: Vec<Box<dyn Any + Send>> = vec![Box::new(external), Box::new(plane)];
        Self::new(user, "https://charts.example.com".to_owned(), servers, None, running).await
    }

    async fn new(
        user: User,
        repository: String,
        servers: [String; 2],
        clusters: Option<[DpuCluster; 2]>,
        running: Vec<Box<dyn Any + Send>>,
    ) -> anyhow::Result<Self> {
        let project = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "AppProject",
            "metadata": { "namespace": ARGO_NAMESPACE, "name": "platform" },
            "spec": {
                "destinations": [{ "server": "*", "namespace": "row-*" }],
                "sourceRepos": [repository],
                "clusterResourceWhitelist": [{ "group": "*", "kind": "*" }],
            },
        });
        apply(&user.client, &project).await?;
        let states = States::default();
        let watch = tokio::spawn(watch(user.client.clone(), Arc::clone(&states)));
        Ok(Self { user, repository, servers, clusters, states, watch, _running: running })
    }

    /// Runs the whole table, or the row that the variable `ROW` names, and reports the rows that fail.
    pub(crate) async fn passes_the_table(&self) -> anyhow::Result<()> {
        let rows = rows();
        let picked = std::env::var("ROW").ok();
        let names: Vec<String> = (0..rows.len()).map(|number| format!("row-{number:02}")).collect();
        let picks = |name: &&str| picked.as_ref().is_none_or(|picked| picked == name);
        let passes = rows.iter().zip(&names).filter(|(_, name)| picks(&&***name));
        let mut results = future::join_all(passes.map(|(row, name)| self.passes(name, row))).await;
        if picks(&"row-down") {
            results.push(self.passes_the_outage().await);
        }
        let failed: Vec<String> =
            results.iter().filter_map(|result| Some(format!("{:#}", result.as_ref().err()?))).collect();
        ensure!(
            failed.is_empty(),
            "{} of {} rows fail:\n{}",
            failed.len(),
            rows.len() + 2,
            failed.join("\n\n")
        );
        Ok(())
    }

    async fn passes(&self, name: &str, row: &Row) -> anyhow::Result<()> {
        self.create(name, row, &self.servers[0]).await?;
        self.take(name, row, &row.steps, 0).await.map(drop)
    }

    async fn passes_the_outage(&self) -> anyhow::Result<()> {
        let [changed, unchanged] = outage();
        self.create("row-down", &changed, &self.servers[1]).await?;
        self.create("row-beside", &unchanged, &self.servers[1]).await?;
        let (before, after) = unchanged.steps.split_at(1);
        let cursor = self.take("row-beside", &unchanged, before, 0).await?;
        self.take("row-down", &changed, &changed.steps, 0).await?;
        self.take("row-beside", &unchanged, after, cursor).await.map(drop)
    }

    async fn create(&self, name: &str, row: &Row, server: &str) -> anyhow::Result<()> {
        let mut spec = spec(name, &self.repository, CHART, server);
        merge(&mut spec, &row.spec);
        self.user
            .create(&json!({
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "Application",
                "metadata": {
                    "namespace": ARGO_NAMESPACE, "name": name, "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "spec": spec,
            }))
            .await
    }

    /// Executes steps of a row. Returns the index of the current state.
    async fn take(&self, name: &str, row: &Row, steps: &[Step], mut cursor: usize) -> anyhow::Result<usize> {
        for (number, step) in steps.iter().enumerate() {
            let at = || format!("{name}, {}, step {number}", row.what);
            cursor = self.step(name, step, cursor).await.with_context(at)?;
        }
        Ok(cursor)
    }

    async fn step(&self, name: &str, step: &Step, cursor: usize) -> anyhow::Result<usize> {
        match step {
            Step::Change(spec) => self.merge(name, &json!({ "spec": spec })).await?,
            Step::Terminate => self.terminate(name).await?,
            Step::Refresh => self.refresh(name).await?,
            Step::Drift => self.drift(name).await?,
            Step::Delete => self.user.delete("Application", ARGO_NAMESPACE, name).await?,
            Step::Gone => self.user.gone("Application", ARGO_NAMESPACE, name).await?,
            Step::Cut => self.reach(true).await?,
            Step::Restore => self.reach(false).await?,
            Step::IsDeployed(expected) => {
                let is_deployed = self.is_deployed(name).await?;
                ensure!(is_deployed == *expected, "deployed: {is_deployed}");
            }
            Step::Until(wanted) => return self.until(name, wanted, cursor).await,
            Step::Never(excluded) => {
                let found = self.after(name, cursor).into_iter().find(|state| covers(state, excluded));
                if let Some(state) = found {
                    bail!("it was in this state:\n{state}");
                }
            }
        }
        Ok(cursor)
    }

    async fn merge(&self, name: &str, patch: &Value) -> anyhow::Result<()> {
        self.user.merge("Application", ARGO_NAMESPACE, name, patch).await
    }

    /// Returns the states of an Application from an index on.
    fn after(&self, name: &str, cursor: usize) -> Vec<Value> {
        let states = self.states.lock().expect("no task has panicked with it");
        states.get(name).map(|states| states[cursor.min(states.len())..].to_vec()).unwrap_or_default()
    }

    async fn until(&self, name: &str, wanted: &Value, cursor: usize) -> anyhow::Result<usize> {
        let start = Instant::now();
        loop {
            let states = self.after(name, cursor);
            if let Some(found) = states.iter().position(|state| covers(state, wanted)) {
                return Ok(cursor + found);
            }
            if start.elapsed() > PATIENCE {
                let lines: Vec<String> = states.iter().map(Value::to_string).collect();
                let recent = &lines[lines.len().saturating_sub(STATES_MAX)..];
                bail!("none of {} states has {wanted}; the last are:\n{}", lines.len(), recent.join("\n"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn refresh(&self, name: &str) -> anyhow::Result<()> {
        let annotation = "argocd.argoproj.io/refresh";
        self.merge(name, &json!({ "metadata": { "annotations": { annotation: "normal" } } })).await?;
        let is_compared =
            |application: &Value| application["metadata"]["annotations"].get(annotation).is_none();
        self.user.until("it is compared", ("Application", ARGO_NAMESPACE, name), is_compared).await.map(drop)
    }

    /// Ends the operation. Argo CD may overwrite the request with the state that it read before, so it is repeated.
    async fn terminate(&self, name: &str) -> anyhow::Result<()> {
        let operation = async || {
            let application = self.user.get("Application", ARGO_NAMESPACE, name).await?;
            anyhow::Ok(application.map(|application| application["status"]["operationState"].clone()))
        };
        let first = operation().await?.map(|operation| operation["startedAt"].clone());
        eventually("the operation is terminated", async || {
            let now = operation().await?.filter(|now| Some(&now["startedAt"]) == first.as_ref());
            let phase = now.as_ref().and_then(|now| now["phase"].as_str()).unwrap_or_default();
            if phase == "Running" {
                let state = json!({ "operationState": { "phase": "Terminating" } });
                self.merge(name, &json!({ "status": state })).await?;
            }
            ensure!(!["Running", "Terminating"].contains(&phase), "{now:?}");
            Ok(())
        })
        .await
    }

    async fn drift(&self, name: &str) -> anyhow::Result<()> {
        match &self.clusters {
            Some([cluster, _]) => cluster.delete_settings(name, name).await,
            None => self.user.delete("ConfigMap", DPF, &release(name)).await,
        }
    }

    async fn is_deployed(&self, name: &str) -> anyhow::Result<bool> {
        match &self.clusters {
            Some([cluster, _]) => Ok(!cluster.objects_in(name).await?.is_empty()),
            None => Ok(self.user.get("ConfigMap", DPF, &release(name)).await?.is_some()),
        }
    }

    async fn reach(&self, is_cut: bool) -> anyhow::Result<()> {
        match &self.clusters {
            Some([_, cluster]) if is_cut => cluster.cut(),
            Some([_, cluster]) => cluster.restore(),
            None => {
                let unreachable = if is_cut { json!("true") } else { Value::Null };
                let patch = json!({ "metadata": { "annotations": { UNREACHABLE: unreachable } } });
                self.user.merge("DPUCluster", DPF, CLUSTERS[1], &patch).await?;
            }
        }
        Ok(())
    }
}

/// Returns the name of the release that the model deploys.
fn release(name: &str) -> String {
    format!("{}.{name}.{name}", CLUSTERS[0])
}

/// Returns the Secret that gives Argo CD access to a cluster.
fn argo_secret(name: &str, access: &Access) -> Value {
    let config = json!({ "bearerToken": access.token, "tlsClientConfig": { "caData": access.authority } });
    let data = [("name", name), ("server", &*access.server), ("config", &config.to_string())];
    let data: BTreeMap<&str, String> =
        data.into_iter().map(|(key, value)| (key, STANDARD.encode(value))).collect();
    let labels = json!({ "argocd.argoproj.io/secret-type": "cluster" });
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": ARGO_NAMESPACE, "name": format!("{name}-argocd"), "labels": labels },
        "data": data,
    })
}

/// Merges fields into an object. Nulls are kept: the API server removes them, except in the values of a chart.
fn merge(target: &mut Value, fields: &Value) {
    match fields.as_object() {
        Some(fields) => fields.iter().for_each(|(field, value)| merge(&mut target[field], value)),
        None => *target = fields.clone(),
    }
}

/// Collects the states of all Applications.
async fn watch(client: Client, states: States) {
    let kind = ApiResource {
        group: "argoproj.io".to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: "argoproj.io/v1alpha1".to_owned(),
        kind: "Application".to_owned(),
        plural: "applications".to_owned(),
    };
    let applications = Api::<DynamicObject>::namespaced_with(client, ARGO_NAMESPACE, &kind);
    let collect = |application: DynamicObject| {
        let name = application.metadata.name.clone().unwrap_or_default();
        let state = seen(&serde_json::to_value(application).unwrap_or_default());
        states.lock().expect("no task has panicked with it").entry(name).or_default().push(state);
        future::ok(())
    };
    let events = watcher(applications, watcher::Config::default()).default_backoff().applied_objects();
    // The watch ends with the test.
    let _ = events.try_for_each(collect).await;
}
