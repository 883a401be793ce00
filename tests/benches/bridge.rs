//! Measures and prints the cost of the Bridge; no result passes or fails.
//!
//! `cargo bench --workspace --bench bridge` starts the real control plane with the models of the external systems. The Bridge
//! manages the largest number of bridges and DPUClusters that the specification expects. Two bridges name each DPUCluster: the
//! older one gets it, the other one waits.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use kube::Client;
use lockstep_external as external;
use lockstep_tests::bridge::objects::{dpu_cluster, pool};
use lockstep_tests::bridge::{Surroundings, Tenant};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::install_crds;
use lockstep_tests::watched::Watched;
use serde_json::json;

const BRIDGES: usize = 100;
const DPU_CLUSTERS: usize = 50;
/// How often a DPUCluster is changed.
const ROUNDS: usize = 50;
/// The interval between checks of a condition.
const POLL: Duration = Duration::from_millis(20);
/// The timeout; no step takes as long.
const PATIENCE: Duration = Duration::from_mins(10);

fn main() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&plane))
}

async fn measure(plane: &ControlPlane) -> anyhow::Result<()> {
    let client = plane.client().await?;
    install_crds(&client).await?;
    let surroundings = Surroundings::start(client.clone(), external::definitions(&external::BRIDGE)).await?;
    let bridge = Watched::start("bridge", plane.config().await?)?;
    let tenant = set_up(client, &surroundings).await?;
    roll_out(&tenant, &bridge).await?;
    change_dpu_clusters(&tenant, &bridge).await?;
    drop(bridge);
    restart(Watched::start("bridge", plane.config().await?)?).await
}

async fn set_up(client: Client, surroundings: &Surroundings) -> anyhow::Result<Tenant> {
    let tenant = Tenant::move_in(client, "bench", 255, surroundings.repository()).await?;
    tenant.provide().await?;
    tenant.create(&pool("addresses", "192.0.2.0/25")).await?;
    for number in 0..DPU_CLUSTERS {
        tenant.create(&dpu_cluster(&tenant.dpus(), &format!("dpus-{number}"))).await?;
    }
    Ok(tenant)
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

async fn roll_out(tenant: &Tenant, bridge: &Watched) -> anyhow::Result<()> {
    let began = Instant::now();
    for number in 0..BRIDGES {
        let name = format!("bridge-{number}");
        let mut object = tenant.bridge(&name, &format!("dpus-{}", number % DPU_CLUSTERS));
        object["spec"]["metalLBVirtualIP"] = json!(format!("192.0.2.{number}"));
        tenant.create(&object).await?;
    }
    until("every DPUCluster has a control plane", async || {
        let bridges = tenant.list("DPFHCPBridge", &tenant.namespace).await?;
        let count = |phase| bridges.iter().filter(|it| it["status"]["phase"] == phase).count();
        Ok(count("Ready") == DPU_CLUSTERS && count("Pending") == BRIDGES - DPU_CLUSTERS)
    })
    .await?;
    let took = began.elapsed().as_secs_f64();
    println!("{BRIDGES} bridges for {DPU_CLUSTERS} DPUClusters: {DPU_CLUSTERS} ready after {took:.1} s");
    let (requests, writes) = bridge.requests();
    println!("  {requests} requests, {writes} of them writes");
    report(&bridge.passes())
}

/// Changes one DPUCluster after the other. Each change triggers a reconcile that has nothing to write.
async fn change_dpu_clusters(tenant: &Tenant, bridge: &Watched) -> anyhow::Result<()> {
    let (mut passes, mut others, mut delays) = (Vec::new(), 0, Vec::new());
    let writes = bridge.requests().1;
    for round in 0..ROUNDS {
        let number = round % DPU_CLUSTERS;
        let own = [number, number + DPU_CLUSTERS].map(|number| format!("bench/bridge-{number}"));
        let before = bridge.passes().len();
        let labels = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        let began = Instant::now();
        tenant.merge("DPUCluster", &tenant.dpus(), &format!("dpus-{number}"), &labels).await?;
        until("both bridges were looked at", async || {
            let passes = bridge.passes();
            Ok(own.iter().all(|own| passes[before..].iter().any(|(of, _)| of == own)))
        })
        .await?;
        delays.push(began.elapsed());
        let (of_own, of_others) =
            bridge.passes().split_off(before).into_iter().partition::<Vec<_>, _>(|(of, _)| own.contains(of));
        passes.extend(of_own);
        others += of_others.len();
    }
    let writes = bridge.requests().1 - writes;
    println!(
        "{ROUNDS} changes of a DPUCluster, one after the other, each named by {} bridges",
        BRIDGES / DPU_CLUSTERS
    );
    println!("  {} passes over these, {others} over others, {writes} writes", passes.len());
    println!("  from the change until both passes are over, to {POLL:?}: median {:.1?}", median(delays)?);
    report(&passes)
}

/// Measures the requests of a Bridge that has just started and finds the desired state.
async fn restart(bridge: Watched) -> anyhow::Result<()> {
    let began = Instant::now();
    until("every bridge was looked at", async || {
        let passes = bridge.passes();
        Ok((0..BRIDGES).all(|number| passes.iter().any(|(of, _)| *of == format!("bench/bridge-{number}"))))
    })
    .await?;
    let (requests, writes) = bridge.requests();
    let took = began.elapsed().as_secs_f64();
    println!(
        "a new process looks at all of them within {took:.2} s: {requests} requests, {writes} of them writes"
    );
    report(&bridge.passes())
}

fn report(passes: &[(String, Duration)]) -> anyhow::Result<()> {
    let mut took: Vec<Duration> = passes.iter().map(|(_, took)| *took).collect();
    took.sort_unstable();
    let at = |percent: usize| took.get((took.len() * percent / 100).min(took.len().saturating_sub(1)));
    let (count, middle) = (took.len(), median(took.clone())?);
    let (most, longest) = (at(95).context("no pass")?, at(100).context("no pass")?);
    println!("  {count} passes: median {middle:.0?}, 95 % within {most:.0?}, the longest {longest:.0?}");
    Ok(())
}

fn median(mut durations: Vec<Duration>) -> anyhow::Result<Duration> {
    durations.sort_unstable();
    durations.get(durations.len() / 2).copied().context("nothing was measured")
}
