//! Measures and prints the cost of the DPUService controller; no result passes or fails.
//!
//! `cargo bench --workspace --bench dpuservice` starts the real control plane. The controller manages the largest expected
//! number of services and clusters: 50 of each, which makes 2,500 Applications. No Argo CD deploys them. The duration of a
//! change is compared with a plain client that sends the same writes, as many at a time, in the same run.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::StreamExt as _;
use futures::TryStreamExt as _;
use futures::stream;
use lockstep_dpuservice::desired::application::manifest;
use lockstep_dpuservice::model::service::Service;
use lockstep_dpuservice::names::{ARGO_NAMESPACE, CLUSTER, SERVICE_NAME};
use lockstep_engine::object::{Name, annotation, label, metadata};
use lockstep_external as external;
use lockstep_external::dpu_clusters::Access;
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::dpuservice::{self, DPF, SERVICES, join, server, service};
use lockstep_tests::user::User;
use lockstep_tests::watched::Watched;
use serde_json::{Value, json};

const COUNT: usize = 50;
/// How often each object is changed.
const ROUNDS: usize = 10;
/// The number of concurrent writes of the controller for one service.
const AT_A_TIME: usize = 10;
/// The interval between checks of a condition.
const POLL: Duration = Duration::from_millis(5);
/// The timeout; no step takes as long.
const PATIENCE: Duration = Duration::from_mins(10);

fn main() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&plane))
}

async fn measure(plane: &ControlPlane) -> anyhow::Result<()> {
    let client = plane.client().await?;
    dpuservice::prepare(&client, &dpuservice::own_definitions()?).await?;
    dpuservice::prepare(&client, &external::definitions(&external::DPUSERVICE)).await?;
    let user = User { client };
    for number in 0..COUNT {
        join(&user, &format!("dpu-{number:02}")).await?;
    }
    for number in 0..COUNT {
        user.create(&service(&format!("service-{number:02}"))).await?;
    }
    let controller = Watched::start("dpuservice", plane.config().await?)?;
    roll_out(&user, &controller).await?;
    change_services(&user, &controller).await?;
    rotate(&user, &controller).await?;
    drop(controller);
    restart(Watched::start("dpuservice", plane.config().await?)?).await
}

/// Waits until the condition holds.
async fn until(what: &str, holds: impl AsyncFn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let began = Instant::now();
    while !holds().await? {
        ensure!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

fn is_reconciled(service: &Value, generation: &Value) -> bool {
    let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
    let mut reconciled = conditions.filter(|it| it["type"] == "ApplicationsReconciled");
    reconciled.any(|it| it["status"] == "True" && it["observedGeneration"] == *generation)
}

async fn roll_out(user: &User, controller: &Watched) -> anyhow::Result<()> {
    let began = Instant::now();
    until("every service is reconciled", async || {
        let services = user.list("DPUService", SERVICES).await?;
        Ok(services.iter().all(|service| is_reconciled(service, &service["metadata"]["generation"])))
    })
    .await?;
    let took = began.elapsed().as_secs_f64();
    let (requests, writes) = controller.requests();
    println!("{COUNT} services on {COUNT} clusters: {} Applications after {took:.1} s", COUNT * COUNT);
    println!("  {requests} requests, {writes} of them writes");
    Ok(())
}

async fn change_services(user: &User, controller: &Watched) -> anyhow::Result<()> {
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let before = controller.requests().1;
    for round in 0..ROUNDS {
        let name = format!("service-{round:02}");
        let change = json!({ "spec": { "source": { "version": format!("v2.0.{round}") } } });
        let began = Instant::now();
        user.merge("DPUService", SERVICES, &name, &change).await?;
        until("the service is reconciled", async || {
            let service = user.get("DPUService", SERVICES, &name).await?.context("it is there")?;
            Ok(is_reconciled(&service, &service["metadata"]["generation"]))
        })
        .await?;
        ours.push(began.elapsed());
    }
    // Events are counted as well.
    let writes = controller.requests().1 - before;
    for round in 0..ROUNDS {
        plain.push(plain_client(user, &format!("service-{:02}", ROUNDS + round), round).await?);
    }
    let (ours, plain) = (median(ours)?, median(plain)?);
    println!("{ROUNDS} changes of a service, one after the other: {} writes each", writes / ROUNDS);
    println!(
        "  from the change to the status: median {ours:.1?}; a plain client with the same writes: {plain:.1?}; ratio {:.2}",
        ours.as_secs_f64() / plain.as_secs_f64()
    );
    Ok(())
}

/// Sends the same writes as a plain client that needs no decisions: 50 Applications and a status.
async fn plain_client(user: &User, name: &str, round: usize) -> anyhow::Result<Duration> {
    let change = json!({ "spec": { "source": { "version": format!("v2.0.{round}") } } });
    let listed = user.list("Application", ARGO_NAMESPACE).await?;
    let own = listed.iter().filter(|application| label(application, SERVICE_NAME) == Some(name));
    let own: Vec<&Value> = own.collect();
    ensure!(own.len() == COUNT, "{} Applications of {name}", own.len());
    let began = Instant::now();
    user.merge("DPUService", SERVICES, name, &change).await?;
    let service = user.get("DPUService", SERVICES, name).await?.context("it is there")?;
    let spec = Service::read(&service).spec.map_err(anyhow::Error::msg)?;
    let manifests = own.iter().map(|application| {
        let server = application["spec"]["destination"]["server"].as_str().unwrap_or_default();
        let cluster = annotation(application, CLUSTER).unwrap_or_default();
        let (namespace, cluster) = cluster.split_once('/').unwrap_or_default();
        let mut wanted = manifest(&Name::of(&service), &spec, &Name::new(namespace, cluster), server);
        wanted["metadata"]["namespace"] = json!(ARGO_NAMESPACE);
        wanted["metadata"]["name"] = application["metadata"]["name"].clone();
        wanted
    });
    let manifests: Vec<Value> = manifests.collect();
    stream::iter(manifests.iter().map(|manifest| apply_raw(user, manifest)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<Vec<()>>()
        .await?;
    let status = json!({ "status": { "observedGeneration": 2 } });
    user.merge("DPUService", SERVICES, &format!("{name}/status"), &status).await?;
    Ok(began.elapsed())
}

async fn apply_raw(user: &User, manifest: &Value) -> anyhow::Result<()> {
    let path = format!(
        "/apis/argoproj.io/v1alpha1/namespaces/{ARGO_NAMESPACE}/applications/{}?fieldManager=lockstep-dpuservice&force=true",
        metadata(manifest, "name")
    );
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(manifest.to_string().into_bytes())?;
    user.client.request::<Value>(request).await?;
    Ok(())
}

async fn rotate(user: &User, controller: &Watched) -> anyhow::Result<()> {
    let mut took = Vec::new();
    let before = controller.requests();
    for round in 0..ROUNDS {
        let cluster = format!("dpu-{round:02}");
        let place = format!("{cluster}-argocd");
        let config = async || {
            let secret = user.get("Secret", ARGO_NAMESPACE, &place).await?.context("it is there")?;
            anyhow::Ok(secret["data"]["config"].clone())
        };
        let former = config().await?;
        let access = Access::by_token(&server(&cluster), &format!("another-{round}"));
        let patch = json!({ "data": access.secret_data() });
        let began = Instant::now();
        user.merge("Secret", DPF, &format!("{cluster}-admin-kubeconfig"), &patch).await?;
        until("Argo CD has the change", async || Ok(config().await? != former)).await?;
        took.push(began.elapsed());
    }
    let after = controller.requests();
    let (requests, writes) = (after.0 - before.0, after.1 - before.1);
    println!(
        "{ROUNDS} kubeconfigs rotated, one after the other: {requests} requests, {writes} of them writes"
    );
    println!("  from the change until Argo CD has it: median {:.1?}", median(took)?);
    Ok(())
}

/// Measures the requests of a controller that has just started and finds the desired state.
async fn restart(controller: Watched) -> anyhow::Result<()> {
    let began = Instant::now();
    until("every service was looked at", async || {
        let passes = controller.passes();
        let is_seen = |name: String| passes.iter().any(|(of, _)| *of == name);
        Ok((0..COUNT).all(|number| is_seen(format!("{SERVICES}/service-{number:02}"))))
    })
    .await?;
    let (requests, writes) = controller.requests();
    let took = began.elapsed().as_secs_f64();
    println!(
        "a new process looks at all of them within {took:.2} s: {requests} requests, {writes} of them writes"
    );
    Ok(())
}

fn median(mut took: Vec<Duration>) -> anyhow::Result<Duration> {
    took.sort_unstable();
    took.get(took.len() / 2).copied().context("nothing was measured")
}
