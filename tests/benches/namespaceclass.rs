//! Measures and prints the cost of the NamespaceClass operator; no result passes or fails.
//!
//! `cargo bench -p lockstep-tests --bench namespaceclass -- [NAMESPACES]` (default: 1,000) starts the real control plane. It
//! runs the operator as a process of its own, as in a cluster, built with the same profile.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

#[path = "namespaceclass/raw.rs"]
mod raw;
#[path = "namespaceclass/restart.rs"]
mod restart;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config as Access};
use lockstep_apiserver::host::{Host, Options};
use lockstep_crds::namespaceclass::{NamespaceClass, NamespaceClassBinding, NamespaceClassSpec};
use lockstep_engine::machine::{Event, Machine};
use lockstep_engine::operator::Config;
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_namespaceclass::names;
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::cost;
use lockstep_tests::ground::{eventually, install_crds};
use lockstep_tests::program::get;
use serde_json::{Value, json};

use self::raw::Raw;

/// The address at which the operator serves its metrics.
const METRICS: &str = "127.0.0.1:18080";
const LABEL: &str = "namespaceclass.akuity.io/name";

fn main() -> anyhow::Result<()> {
    let namespaces = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1000);
    core_steps()?;
    let program = cost::program()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(embedded(&program, namespaces))?;
    let plane = ControlPlane::start()?;
    runtime.block_on(real(&plane, &program, namespaces))
}

/// Measures steps of the core alone: repeated events of a thousand namespaces without a label.
fn core_steps() -> anyhow::Result<()> {
    const STEPS: u32 = 1_000_000;
    let mut operator = lockstep_namespaceclass::Operator::new(Config {
        concurrency: 16,
        resync: Duration::from_mins(10),
        instance: "bench".to_owned(),
        seed: 1,
    });
    let now =
        Now { wall: Wall::from_timestamp("2026-01-01T00:00:00Z".parse()?), monotonic: Monotonic::START };
    let _ = operator.step(Event::Started, now);
    let _ = operator.step(Event::LeadershipChanged { leading: true }, now);
    for kind in [names::namespace(), names::class(), names::binding()] {
        let _ = operator.step(Event::ListStarted { kind: kind.clone() }, now);
        let _ = operator.step(Event::ListCompleted { kind }, now);
    }
    let began = Instant::now();
    let mut reconciles = 0;
    for number in 0..STEPS {
        let object = json!({ "metadata": {
            "name": format!("ns-{}", number % 1000), "uid": "u", "resourceVersion": (number + 1).to_string(),
        } });
        let event = Event::Applied { kind: names::namespace(), object: object.into() };
        reconciles += operator.step(event, now).notes.len();
    }
    let rate = f64::from(STEPS) / began.elapsed().as_secs_f64();
    println!(
        "core: {rate:.0} steps/s, each with the reconcile of a namespace without a class ({reconciles} reconciles)"
    );
    Ok(())
}

/// Measures with the embedded API server, in this process.
async fn embedded(program: &Path, namespaces: usize) -> anyhow::Result<()> {
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
    let client = Client::try_from(Access::new(host.url().parse()?))?;
    install_crds(&client).await?;
    let operator = Operator::start(program, &host.kubeconfig_yaml(), &[]).await?;
    println!("on the embedded API server:");
    rollout(&client, namespaces).await?;
    let (now, peak) = cost::resident_mib(operator.id())?;
    println!("  operator: {now:.1} MiB resident after it, {peak:.1} MiB at the peak");
    drop(operator);
    host.shutdown().await;
    Ok(())
}

async fn real(plane: &ControlPlane, program: &Path, namespaces: usize) -> anyhow::Result<()> {
    println!("on the real control plane:");
    let client = plane.client().await?;
    install_crds(&client).await?;
    let operator = Operator::start(program, &std::fs::read_to_string(plane.kubeconfig())?, &[]).await?;
    measure(&client, namespaces, operator.id()).await?;
    drop(operator);
    restart::measure(plane, &client, program, namespaces).await
}

async fn rollout(client: &Client, namespaces: usize) -> anyhow::Result<()> {
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    let spec = NamespaceClassSpec { resources: resources(0), ..NamespaceClassSpec::default() };
    classes.create(&PostParams::default(), &NamespaceClass::new("bench", spec)).await?;
    let began = Instant::now();
    make_namespaces(client, "led", namespaces, Some("bench")).await?;
    until_applied(client, namespaces, 1).await?;
    report("rollout to new namespaces (their creation included)", namespaces, began.elapsed());
    Ok(())
}

async fn measure(client: &Client, namespaces: usize, pid: u32) -> anyhow::Result<()> {
    println!("operator: {:.1} MiB resident before any namespace", cost::resident_mib(pid)?.0);
    rollout(client, namespaces).await?;

    let mut raw = Raw::prepare(client, namespaces).await?;
    raw.round(16, 0, true).await?;
    let applies = raw.fastest(false).await?;
    let same_writes = raw.fastest(true).await?;
    // The result is the median of five rounds. With many namespaces a single round is steady enough.
    let rounds = (5000 / namespaces).clamp(1, 5);
    for changed in [3, 1] {
        // The rounds alternate, so that other load on the machine affects both alike.
        let (mut updates, mut alone, mut same, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            alone.push(raw.timed(applies, false).await?);
            same.push(raw.timed(same_writes, true).await?);
            let before = cost::processor_time(pid)?;
            updates.push(update(client, namespaces, changed).await?);
            cpu.push(cost::processor_time(pid)?.saturating_sub(before));
        }
        let took = median(updates);
        report(&format!("operator, update of {changed} of 3 resources, status included"), namespaces, took);
        for (what, raw) in [("3 applies and a status", median(same)), ("3 applies", median(alone))] {
            report(&format!("raw client, {what} each, in turn with it"), namespaces, raw);
            println!("  ratio: {:.3}", raw.as_secs_f64() / took.as_secs_f64());
        }
        println!("the operator itself: {:.2} s of processor time", median(cpu).as_secs_f64());
    }
    let (now, peak) = cost::resident_mib(pid)?;
    println!(
        "operator: {now:.1} MiB resident at {namespaces} labelled namespaces, {peak:.1} MiB at the peak"
    );
    Ok(())
}

/// Changes this many resources of the class, and returns how long it took until each namespace had its status.
async fn update(client: &Client, namespaces: usize, changed: usize) -> anyhow::Result<Duration> {
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    let mut resources = classes.get("bench").await?.spec.resources;
    let (began, before) = (Instant::now(), status_writes().await?);
    for resource in resources.iter_mut().take(changed) {
        resource["data"]["value"] = json!(format!("before status {before}"));
    }
    let patch = Patch::Merge(json!({ "spec": { "resources": resources } }));
    let class = classes.patch("bench", &PatchParams::default(), &patch).await?;
    while status_writes().await? < before + namespaces {
        // A scrape has a series for each condition of each object: more of them would be a good part of what is measured.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = began.elapsed();
    until_applied(client, namespaces, class.metadata.generation.unwrap_or_default()).await?;
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn resources(round: usize) -> Vec<Value> {
    let map = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("settings-{index}") },
            "data": { "value": format!("round {round}"), "constant": "x".repeat(200) },
        })
    };
    vec![map(0), map(1), map(2)]
}

async fn make_namespaces(
    client: &Client,
    prefix: &str,
    count: usize,
    class: Option<&str>,
) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    futures::stream::iter(0..count)
        .map(|number| {
            let labels = class.map(|class| [(LABEL.to_owned(), class.to_owned())].into());
            let name = Some(format!("{prefix}-{number}"));
            let namespace = Namespace {
                metadata: ObjectMeta { name, labels, ..ObjectMeta::default() },
                ..Namespace::default()
            };
            let api = api.clone();
            async move { api.create(&PostParams::default(), &namespace).await.map(drop) }
        })
        .buffer_unordered(16)
        .try_collect()
        .await
        .map_err(Into::into)
}

async fn until_applied(client: &Client, namespaces: usize, generation: i64) -> anyhow::Result<()> {
    let api: Api<NamespaceClassBinding> = Api::all(client.clone());
    let began = Instant::now();
    loop {
        let bindings = api.list(&ListParams::default().match_any()).await?;
        let applied = bindings.items.iter().filter(|binding| {
            binding.status.as_ref().is_some_and(|status| {
                status.observed_class_generation == generation
                    && status.conditions.iter().any(|condition| condition.status == "True")
            })
        });
        if applied.count() == namespaces {
            return Ok(());
        }
        ensure!(began.elapsed() < Duration::from_mins(10), "not applied within ten minutes");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the operator's own metrics.
async fn metrics() -> anyhow::Result<String> {
    Ok(get(METRICS, "/metrics").await?.1)
}

/// Returns how many statuses of bindings the operator has written.
async fn status_writes() -> anyhow::Result<usize> {
    let text = metrics().await?;
    let written = text.lines().find(|line| {
        line.starts_with("lockstep_actions_total{action=\"patch_status\"")
            && line.contains("NamespaceClassBinding")
            && line.contains("outcome=\"ok\"")
    });
    Ok(written.and_then(|line| line.rsplit(' ').next()).and_then(|count| count.parse().ok()).unwrap_or(0))
}

fn report(what: &str, namespaces: usize, took: Duration) {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let rate = namespaces as f64 / took.as_secs_f64();
    println!("{what}: {:.2} s, {rate:.0} namespaces/s", took.as_secs_f64());
}

/// The operator in a separate process, which ends when this is dropped.
struct Operator {
    process: Child,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Operator {
    /// Starts it, and waits until it serves its metrics.
    async fn start(program: &Path, kubeconfig: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(kubeconfig.as_bytes())?;
        let process = Command::new(program)
            .args(["run", "--controllers", "namespaceclass", "--metrics-bind-address", METRICS])
            .args(["--health-probe-bind-address", "0", "--log-level", "warn", "--kubeconfig"])
            .arg(file.path())
            .args(arguments)
            .stdout(Stdio::null())
            .spawn()
            .context("starting the operator")?;
        let operator = Self { process, _kubeconfig: file };
        eventually("the operator serves its metrics", metrics).await?;
        Ok(operator)
    }

    fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
