//! What the NamespaceClass operator costs, measured and told; nothing here passes or fails.
//!
//! `cargo bench -p lockstep-tests --bench namespaceclass -- [NAMESPACES]` (1,000 unless told) starts the real control
//! plane and runs the operator as a process of its own, as it would run in a cluster, built with the same profile.

#![expect(clippy::print_stdout, reason = "a benchmark tells what it measured")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures::stream::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt as _};
use lockstep_core::engine::machine::{Event, Machine};
use lockstep_core::engine::operator::Config;
use lockstep_core::namespaceclass::{Operator, names};
use lockstep_core::time::{Monotonic, Now, Wall};
use lockstep_crds::namespaceclass::{NamespaceClass, NamespaceClassBinding, NamespaceClassSpec};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::{eventually, install_crds};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Where the operator tells its metrics.
const METRICS: &str = "127.0.0.1:18080";
const LABEL: &str = "namespaceclass.akuity.io/name";
/// How many namespaces the raw client has in flight; the best of these counts.
const RAW_CONCURRENCY: [usize; 3] = [8, 16, 64];

fn main() -> anyhow::Result<()> {
    let namespaces = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1000);
    core_steps()?;
    let operator = binary()?;
    let plane = ControlPlane::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(cluster(&plane, &operator, namespaces))
}

/// Steps of the core alone: events of a thousand namespaces that carry no label, again and again.
fn core_steps() -> anyhow::Result<()> {
    const STEPS: u32 = 1_000_000;
    let mut operator = Operator::new(Config {
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
    let mut told = 0;
    for number in 0..STEPS {
        let object = json!({ "metadata": {
            "name": format!("ns-{}", number % 1000), "uid": "u", "resourceVersion": (number + 1).to_string(),
        } });
        let event = Event::Observed { kind: names::namespace(), object: object.into() };
        told += operator.step(event, now).notes.len();
    }
    let rate = f64::from(STEPS) / began.elapsed().as_secs_f64();
    println!("core: {rate:.0} steps/s, each with a reconcile ({told} reconciles)");
    Ok(())
}

async fn cluster(plane: &ControlPlane, operator: &Path, namespaces: usize) -> anyhow::Result<()> {
    let client = plane.client().await?;
    install_crds(&client).await?;
    let mut operator = start(plane, operator)?;
    let result = measure(&client, namespaces, operator.id()).await;
    operator.kill()?;
    operator.wait()?;
    result
}

async fn measure(client: &Client, namespaces: usize, pid: u32) -> anyhow::Result<()> {
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    let spec = NamespaceClassSpec { resources: resources(0) };
    classes.create(&PostParams::default(), &NamespaceClass::new("bench", spec)).await?;
    println!("operator: {} MiB resident before any namespace", resident_mib(pid)?);

    let began = Instant::now();
    make_namespaces(client, "led", namespaces, Some("bench")).await?;
    until_applied(client, namespaces, 1).await?;
    report("rollout to new namespaces (their creation included)", namespaces, began.elapsed());

    let raw = Raw::prepare(client, namespaces).await?;
    raw.round(16, 0, true).await?;
    let applies = raw.fastest(false, 1).await?;
    let same_writes = raw.fastest(true, 11).await?;
    for (generation, changed) in [(2, 3), (3, 1)] {
        let (began, cpu, before) = (Instant::now(), cpu_time(pid)?, status_writes().await?);
        let patch = Patch::Merge(json!({ "spec": { "resources": changed_resources(generation, changed) } }));
        classes.patch("bench", &PatchParams::default(), &patch).await?;
        while status_writes().await? < before + namespaces {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = began.elapsed();
        let cpu = cpu_time(pid)?.saturating_sub(cpu);
        until_applied(client, namespaces, i64::try_from(generation)?).await?;
        report(&format!("operator, update of {changed} of 3 resources, status included"), namespaces, took);
        let ratio = |raw: Duration| raw.as_secs_f64() / took.as_secs_f64();
        println!("  ratio to the raw client's 3 applies and a status: {:.2}", ratio(same_writes));
        println!("  ratio to the raw client's 3 applies alone: {:.2}", ratio(applies));
        println!("  the operator itself: {:.2} s of processor time", cpu.as_secs_f64());
    }
    println!("operator: {} MiB resident at {namespaces} labelled namespaces", resident_mib(pid)?);
    idle(client, pid).await
}

/// What the operator asks for in a quiet minute.
async fn idle(client: &Client, pid: u32) -> anyhow::Result<()> {
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = requests(client).await?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let after = requests(client).await?;
    println!("idle: {} requests in a minute (writes to our kinds and applies, all clients)", after - before);
    println!("operator: {} MiB resident after it", resident_mib(pid)?);
    Ok(())
}

/// Requests of all clients, but for watches, leases and this measurement.
async fn requests(client: &Client) -> anyhow::Result<u64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let metrics = client.request_text(request).await?;
    let counts = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_total{")
            && ["configmaps", "secrets", "serviceaccounts", "namespaceclass"]
                .iter()
                .any(|kind| line.contains(kind))
            && !line.contains("verb=\"WATCH\"")
    });
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of requests")]
    Ok(counts.filter_map(count).sum::<f64>() as u64)
}

fn resources(generation: usize) -> Vec<Value> {
    changed_resources(generation, 3)
}

/// Three resources, of which the first few say the generation and the others still say the second.
fn changed_resources(generation: usize, changed: usize) -> Vec<Value> {
    let value = |index: usize| {
        if index < changed { format!("generation {generation}") } else { "generation 2".to_owned() }
    };
    let map = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("settings-{index}") },
            "data": { "value": value(index), "constant": "x".repeat(200) },
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

/// What the operator writes, written by a client that knows it all beforehand: the same manifests, with owner, label and
/// annotation, and then the status of a binding. Its bindings are of a kind with the same schema that no controller sees.
struct Raw {
    client: Client,
    bindings: ApiResource,
    uids: Vec<String>,
}

impl Raw {
    async fn prepare(client: &Client, namespaces: usize) -> anyhow::Result<Self> {
        let mut crd = serde_json::to_value(NamespaceClassBinding::crd())?;
        crd["metadata"]["name"] = json!("rawbindings.raw.test");
        crd["spec"]["group"] = json!("raw.test");
        crd["spec"]["names"] = json!({ "kind": "RawBinding", "plural": "rawbindings" });
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        crds.create(&PostParams::default(), &serde_json::from_value(crd)?).await?;
        let bindings = ApiResource {
            group: "raw.test".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "raw.test/v1alpha1".to_owned(),
            kind: "RawBinding".to_owned(),
            plural: "rawbindings".to_owned(),
        };
        make_namespaces(client, "raw", namespaces, None).await?;
        let mut raw = Self { client: client.clone(), bindings, uids: Vec::new() };
        for number in 0..namespaces {
            let name = format!("raw-{number}");
            let mut binding = DynamicObject::new(&name, &raw.bindings);
            binding.data = json!({ "spec": { "className": "raw" } });
            let api = raw.bindings_in(&name);
            let created = eventually("the kind is served", async || {
                Ok(api.create(&PostParams::default(), &binding).await?)
            });
            raw.uids.push(created.await?.metadata.uid.unwrap_or_default());
        }
        Ok(raw)
    }

    fn bindings_in(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.bindings)
    }

    /// One round over all namespaces, so many at a time; the applies of a namespace go out together.
    async fn round(&self, concurrency: usize, round: usize, status: bool) -> anyhow::Result<()> {
        futures::stream::iter(0..self.uids.len())
            .map(|number| self.one(number, round, status))
            .buffer_unordered(concurrency)
            .try_collect()
            .await
    }

    async fn one(&self, number: usize, round: usize, status: bool) -> anyhow::Result<()> {
        let namespace = format!("raw-{number}");
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
        let applies = resources(round).into_iter().map(|mut resource| {
            resource["metadata"]["labels"] = json!({ "raw.test/name": "bench" });
            resource["metadata"]["annotations"] = json!({ "raw.test/content": format!("{round:016}") });
            resource["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "raw.test/v1alpha1", "kind": "RawBinding", "name": namespace, "uid": self.uids[number],
                "controller": true, "blockOwnerDeletion": true,
            }]);
            let maps = maps.clone();
            async move {
                let name = resource["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                maps.patch(&name, &PatchParams::apply("raw").force(), &Patch::Apply(&resource)).await
            }
        });
        futures::future::try_join_all(applies).await?;
        if status {
            let listed = (0..3).map(|index| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": format!("settings-{index}") }));
            let patch = json!({ "status": {
                "observedGeneration": 1, "observedClassName": "bench", "observedClassUid": self.uids[number],
                "observedClassGeneration": round, "appliedResources": listed.collect::<Vec<_>>(),
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "ResourcesApplied", "observedGeneration": 1,
                    "message": format!("3 resources of class bench, generation {round} applied"),
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            } });
            let params = PatchParams { field_manager: Some("raw".to_owned()), ..PatchParams::default() };
            self.bindings_in(&namespace).patch_status(&namespace, &params, &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// The fastest round, with what is told about each.
    async fn fastest(&self, status: bool, first_round: usize) -> anyhow::Result<Duration> {
        let what = if status { "3 applies and a status" } else { "3 applies" };
        let mut fastest = Duration::MAX;
        for (round, concurrency) in RAW_CONCURRENCY.into_iter().enumerate() {
            let began = Instant::now();
            self.round(concurrency, first_round + round, status).await?;
            let took = began.elapsed();
            report(
                &format!("raw client, {concurrency} namespaces in flight, {what} each"),
                self.uids.len(),
                took,
            );
            fastest = fastest.min(took);
        }
        Ok(fastest)
    }
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

/// How many statuses of bindings the operator has written, by its own metrics.
async fn status_writes() -> anyhow::Result<usize> {
    let mut stream = tokio::net::TcpStream::connect(METRICS).await?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let written = text.lines().find(|line| {
        line.starts_with("lockstep_actions_total{action=\"patch_status\"")
            && line.contains("NamespaceClassBinding")
            && line.contains("outcome=\"ok\"")
    });
    Ok(written.and_then(|line| line.rsplit(' ').next()).and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// The processor time that a process has used.
fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    // Linux counts in hundredths of a second.
    Ok(Duration::from_millis(ticks * 10))
}

fn report(what: &str, namespaces: usize, took: Duration) {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let rate = namespaces as f64 / took.as_secs_f64();
    println!("{what}: {:.2} s, {rate:.0} namespaces/s", took.as_secs_f64());
}

fn start(plane: &ControlPlane, operator: &Path) -> anyhow::Result<Child> {
    Command::new(operator)
        .args(["run", "--controllers", "namespaceclass", "--metrics-bind-address", METRICS])
        .args(["--health-probe-bind-address", "0", "--log-level", "warn", "--kubeconfig"])
        .arg(plane.kubeconfig())
        .stdout(Stdio::null())
        .spawn()
        .context("starting the operator")
}

/// The `lockstep` binary of the profile that this benchmark was built with; built now if need be.
fn binary() -> anyhow::Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--locked", "-p", "lockstep-shell", "--bin", "lockstep"])
        .status()?;
    ensure!(status.success(), "the operator does not build");
    let own = std::env::current_exe()?;
    let profile = own.ancestors().nth(2).context("a benchmark lies in target/<profile>/deps")?;
    Ok(profile.join("lockstep"))
}

fn resident_mib(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.split_whitespace().next().context("no figure")?.parse()?;
    Ok(kib / 1024)
}
