//! Compares MetalLB's own controller with its model: one table of user operations and the resulting addresses runs on both,
//! each with a real API server.

#[path = "metallb/table.rs"]
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lockstep_engine::yaml;
use lockstep_external::{Pace, System};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown;
use lockstep_tests::chart::install_crd;
use lockstep_tests::control_plane::{self, ControlPlane};
use lockstep_tests::ground::eventually;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use self::table::{ROWS, Row, Step};

/// The namespace of MetalLB.
const METALLB: &str = "metallb-system";
const SERVICES: &str = "metallb-table";
/// The prefix of Services with addresses from a pool of their own. When such a Service has its address, the changes before it
/// were seen.
const PROBE: &str = "probe";
/// The annotation of a Service with a status that can't be changed, and the policy that refuses it.
const CLOSED: &str = "closed";

/// The process that assigns the addresses; dropping it ends it.
enum Giver {
    Real { process: Child, log: PathBuf },
    Model(#[expect(dead_code, reason = "dropping it ends the model")] shutdown::Trigger),
}

impl Drop for Giver {
    fn drop(&mut self) {
        if let Self::Real { process, .. } = self {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Giver {
    /// Checks that MetalLB has nothing left to evaluate. After a Service has given its address back, MetalLB evaluates all
    /// others in a request of its own, which can follow that of a later probe, and is repeated after a conflict.
    /// The writes to the status of these Services are refused, and so repeated without end.
    fn is_idle(&self, refused: &BTreeSet<String>) -> anyhow::Result<()> {
        let Self::Real { log, .. } = self else { return Ok(()) };
        let mut left = left(&std::fs::read_to_string(log)?);
        left.retain(|request| !refused.contains(request));
        ensure!(left.is_empty(), "MetalLB evaluates {left:?}");
        Ok(())
    }
}

/// Returns the requests that MetalLB has yet to process, according to its log.
fn left(log: &str) -> BTreeSet<String> {
    const ALL: &str = "metallbreload/reload";
    let (mut queued, mut running) = (BTreeSet::new(), BTreeSet::new());
    // Other lines are those of the libraries.
    for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let text = |field: &str| line[field].as_str().map(str::to_owned);
        // The controllers of pools and nodes have requests with names of their own.
        let of_services = text("controller").is_some_and(|name| name.starts_with("ServiceReconciler"));
        if let Some(request) = text("start reconcile").filter(|_| of_services) {
            queued.remove(&request);
            running.insert(request);
        }
        if let Some(request) = text("end reconcile").filter(|_| of_services) {
            running.remove(&request);
        }
        match line["event"].as_str() {
            Some("force service reload") => drop(queued.insert(ALL.to_owned())),
            // An error that is not retried has the level "error".
            Some("failed to handle service") if line["level"] == "info" => queued.extend(text("name")),
            _ => {}
        }
    }
    queued.into_iter().chain(running).collect()
}

struct Ground {
    client: Client,
    probes: AtomicU8,
    giver: Giver,
    _plane: ControlPlane,
}

impl Ground {
    async fn new(
        start: impl AsyncFn(&ControlPlane, Client) -> anyhow::Result<Giver>,
    ) -> anyhow::Result<Self> {
        let plane = spawn_blocking(ControlPlane::start).await??;
        let client = plane.client().await?;
        let built = spawn_blocking(control_plane::metallb).await??;
        for file in std::fs::read_dir(built.join("definitions"))? {
            install_crd(&client, &yaml::read::<Value>(&std::fs::read_to_string(file?.path())?)?).await?;
        }
        for name in [METALLB, SERVICES] {
            let namespace =
                serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "name": name } } }))?;
            Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        }
        let giver = start(&plane, client.clone()).await?;
        let ground = Self { client, probes: AtomicU8::new(0), giver, _plane: plane };
        ground.refuse_closed().await?;
        ground.pool(PROBE, &json!({ "addresses": ["203.0.113.0/24"], "autoAssign": false })).await?;
        Ok(ground)
    }

    /// Lets the API server refuse every change of the status of a Service with the annotation [`CLOSED`].
    async fn refuse_closed(&self) -> anyhow::Result<()> {
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["services/status"] });
        let expression = format!("!('{CLOSED}' in oldObject.metadata.?annotations.orValue({{}}))");
        let policy = json!({
            "metadata": { "name": CLOSED },
            "spec": { "matchConstraints": { "resourceRules": [rule] }, "validations": [{ "expression": expression }] },
        });
        let policies = Api::<ValidatingAdmissionPolicy>::all(self.client.clone());
        policies.create(&PostParams::default(), &serde_json::from_value(policy)?).await?;
        let binding = json!({
            "metadata": { "name": CLOSED },
            "spec": { "policyName": CLOSED, "validationActions": ["Deny"] },
        });
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(self.client.clone());
        bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
        let bare = json!({ "spec": { "type": "ClusterIP", "allocateLoadBalancerNodePorts": null } });
        self.service(CLOSED, &json!({ (CLOSED): "" }), &bare).await?;
        let status = Patch::Merge(json!({ "status": { "loadBalancer": {} } }));
        eventually("the API server refuses a status", async || {
            let answer = self.services().patch_status(CLOSED, &PatchParams::default(), &status).await;
            ensure!(answer.is_err_and(|error| error.to_string().contains("denied")), "it was accepted");
            Ok(())
        })
        .await?;
        self.services().delete(CLOSED, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Starts MetalLB's controller as a process.
    async fn real() -> anyhow::Result<Self> {
        Self::new(async |plane, client| {
            // The controller requires the pod that it runs in.
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": "controller" },
                "spec": { "containers": [{ "name": "controller", "image": "controller" }], "automountServiceAccountToken": false },
            }))?;
            let pods = Api::<Pod>::namespaced(client, METALLB);
            // The account of the pods is created shortly after their namespace.
            eventually("the pod is taken", async || Ok(pods.create(&PostParams::default(), &pod).await.map(drop)?)).await?;
            let program = spawn_blocking(control_plane::metallb).await??.join("metallb-controller");
            let path = plane.log("metallb");
            let log = std::fs::File::create(&path)?;
            let process = Command::new(program)
                .args(["--namespace", METALLB, "--pod-name", "controller", "--port", "0", "--health-probe-port", "0"])
                .args(["--webhook-mode", "disabled", "--disable-cert-rotation", "--ml-secret-name", ""])
                .env("KUBECONFIG", plane.kubeconfig())
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn()
                .context("starting MetalLB")?;
            Ok(Giver::Real { process, log: path })
        })
        .await
    }

    async fn model() -> anyhow::Result<Self> {
        Self::new(async |_, client| {
            let clock = Clock::start(jiff::Timestamp::now);
            let mut manager = Manager::new(client, clock, 1, Metrics::new(prometheus::Registry::new())?);
            // The model acts as soon as it sees a Service, as MetalLB does. With random delays, the probe could have its
            // address before an earlier request is processed.
            let at_once = (Duration::ZERO, Duration::from_millis(1));
            let pace = Pace { step: at_once, teardown: at_once };
            manager.add(System::MetalLb.controller(pace, 1));
            let (trigger, stopping) = shutdown::channel();
            tokio::spawn(manager.run(stopping));
            Ok(Giver::Model(trigger))
        })
        .await
    }

    fn services(&self) -> Api<Service> {
        Api::namespaced(self.client.clone(), SERVICES)
    }

    fn pools(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = kube::core::ApiResource {
            group: "metallb.io".to_owned(),
            version: "v1beta1".to_owned(),
            api_version: "metallb.io/v1beta1".to_owned(),
            kind: "IPAddressPool".to_owned(),
            plural: "ipaddresspools".to_owned(),
        };
        Api::namespaced_with(self.client.clone(), namespace, &kind)
    }

    async fn pool(&self, name: &str, spec: &Value) -> anyhow::Result<()> {
        self.pool_in(METALLB, name, spec).await
    }

    async fn pool_in(&self, namespace: &str, name: &str, spec: &Value) -> anyhow::Result<()> {
        let pool = json!({ "apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": { "name": name }, "spec": spec });
        let parameters = PatchParams::apply("table").force();
        self.pools(namespace).patch(name, &parameters, &Patch::Apply(&pool)).await?;
        Ok(())
    }

    async fn service(&self, name: &str, annotations: &Value, changes: &Value) -> anyhow::Result<()> {
        let mut service = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }], "allocateLoadBalancerNodePorts": false },
        });
        table::merge(&mut service, changes);
        self.services().create(&PostParams::default(), &serde_json::from_value(service)?).await?;
        Ok(())
    }

    async fn change(&self, name: &str, change: &Value) -> anyhow::Result<()> {
        self.services().patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    }

    async fn take(&self, step: &Step) -> anyhow::Result<()> {
        match step {
            Step::Pool(name, spec) => self.pool(name, &yaml::read(spec)?).await,
            Step::ForeignPool(name, spec) => self.pool_in(SERVICES, name, &yaml::read(spec)?).await,
            Step::NoPool(name) => {
                self.pools(METALLB).delete(name, &DeleteParams::default()).await?;
                Ok(())
            }
            Step::Service(name, Some(address)) => {
                self.service(name, &table::requested_address(Some(address)), &json!({})).await
            }
            Step::Service(name, None) => self.service(name, &json!({}), &json!({})).await,
            Step::Special(name, changes) => self.service(name, &json!({}), &yaml::read(changes)?).await,
            Step::Ask(name, address) => {
                self.change(
                    name,
                    &json!({ "metadata": { "annotations": table::requested_address(*address) } }),
                )
                .await
            }
            Step::Change(name, change) => self.change(name, &yaml::read(change)?).await,
            Step::Status(name, status) => {
                let status: Value = yaml::read(status)?;
                let patch = Patch::Merge(json!({ "status": status }));
                self.services().patch_status(name, &PatchParams::default(), &patch).await?;
                Ok(())
            }
            Step::Gone(name) => {
                self.services().delete(name, &DeleteParams::default()).await?;
                Ok(())
            }
        }
    }

    /// Returns the addresses of all Services except the probes.
    async fn addresses(&self) -> anyhow::Result<BTreeMap<String, Option<String>>> {
        let services = self.services().list(&ListParams::default()).await?;
        let addresses = services.into_iter().filter_map(|service| {
            let name = service.metadata.name.filter(|name| !name.starts_with(PROBE))?;
            let ingress = service.status.and_then(|status| status.load_balancer?.ingress).unwrap_or_default();
            Some((name, ingress.into_iter().next().and_then(|ingress| ingress.ip)))
        });
        Ok(addresses.collect())
    }

    /// Waits until all earlier requests have been processed. The probe is not deleted, because the deletion of a Service with
    /// an address triggers a new check of all others.
    async fn rest(&self) -> anyhow::Result<()> {
        let number = self.probes.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PROBE}-{number}");
        self.service(&name, &table::requested_address(Some(&format!("203.0.113.{number}"))), &json!({}))
            .await?;
        eventually("the probe has its address, and nothing is left", async || {
            let probe = self.services().get(&name).await?;
            let ingress = probe.status.and_then(|status| status.load_balancer?.ingress);
            ensure!(ingress.is_some_and(|ingress| !ingress.is_empty()), "it has none");
            let closed = self.services().list(&ListParams::default()).await?.into_iter().filter(|service| {
                service
                    .metadata
                    .annotations
                    .as_ref()
                    .is_some_and(|annotations| annotations.contains_key(CLOSED))
            });
            let name = |service: Service| format!("{SERVICES}/{}", service.metadata.name.unwrap_or_default());
            self.giver.is_idle(&closed.map(name).collect())
        })
        .await
    }

    /// Deletes all Services, and all pools except that of the probes.
    async fn clear(&self) -> anyhow::Result<()> {
        for service in self.services().list(&ListParams::default()).await? {
            self.services()
                .delete(&service.metadata.name.unwrap_or_default(), &DeleteParams::default())
                .await?;
        }
        for namespace in [METALLB, SERVICES] {
            for pool in self.pools(namespace).list(&ListParams::default()).await? {
                let name = pool.metadata.name.unwrap_or_default();
                if name != PROBE {
                    self.pools(namespace).delete(&name, &DeleteParams::default()).await?;
                }
            }
        }
        self.rest().await
    }

    async fn passes(&self, row: &Row) -> anyhow::Result<()> {
        for (number, (step, expected)) in row.steps.iter().enumerate() {
            let at = || format!("{}, step {number}: {step:?}", row.name);
            self.take(step).await.with_context(at)?;
            let expected: BTreeMap<String, Option<String>> = expected
                .iter()
                .map(|(name, address)| ((*name).to_owned(), address.map(str::to_owned)))
                .collect();
            let holds = async || {
                let found = self.addresses().await?;
                ensure!(found == expected, "{found:?} instead of {expected:?}");
                Ok(())
            };
            eventually(&at(), holds).await?;
            self.rest().await.with_context(at)?;
            holds().await.with_context(at)?;
        }
        Ok(())
    }

    /// Runs all rows, and reports those that fail.
    async fn takes_the_table(&self) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        for row in ROWS {
            if let Err(error) = self.passes(row).await {
                failed.push(format!("{error:#}"));
            }
            self.clear().await.with_context(|| format!("after {}", row.name))?;
        }
        ensure!(failed.is_empty(), "{} of {} rows fail:\n{}", failed.len(), ROWS.len(), failed.join("\n"));
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_does_what_the_table_says() -> anyhow::Result<()> {
    Ground::real().await?.takes_the_table().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_does_what_the_table_says() -> anyhow::Result<()> {
    Ground::model().await?.takes_the_table().await
}
