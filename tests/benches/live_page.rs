//! Measures and prints the cost of the live page; no result passes or fails.
//!
//! `cargo bench --workspace --bench live_page -- [NAMESPACES]` (default: 5,000) starts the embedded API server. It runs the
//! NamespaceClass operator as a process of its own, first without the page and then with it. With the page it measures the API of
//! the page, and the page itself in a headless Chromium, if there is one.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::stream::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use lockstep_apiserver::host::{Host, Options};
use lockstep_crds::namespaceclass::{
    NamespaceClass, NamespaceClassBinding, NamespaceClassBindingStatus, NamespaceClassSpec,
};
use lockstep_tests::browser::Browser;
use lockstep_tests::cost;
use lockstep_tests::ground::{eventually, install_crds};
use lockstep_tests::program::get;
use serde_json::{Value, json};

/// The path of a binding on the page.
const BINDING: &str = "namespaceclass/NamespaceClassBinding.namespaceclass.akuity.io/team-0/team-0";
const LABEL: &str = "namespaceclass.akuity.io/name";
/// How often a namespace is changed.
const ROUNDS: usize = 20;
/// The interval between checks of a condition.
const POLL: Duration = Duration::from_secs(1);
/// The timeout; no step takes as long.
const PATIENCE: Duration = Duration::from_mins(10);

fn main() -> anyhow::Result<()> {
    let namespaces = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(5000);
    let program = cost::program()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for has_page in [false, true] {
        runtime.block_on(measure(&program, namespaces, has_page))?;
    }
    Ok(())
}

async fn measure(program: &Path, namespaces: usize, has_page: bool) -> anyhow::Result<()> {
    let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
    let client = Client::try_from(Config::new(host.url().parse()?))?;
    install_crds(&client).await?;
    let operator = Operator::start(program, &host.kubeconfig_yaml(), has_page).await?;
    let began = Instant::now();
    roll_out(&client, namespaces).await?;
    until_ready(&client, namespaces).await?;
    let took = began.elapsed().as_secs_f64();
    let (now, peak) = cost::resident_mib(operator.process.id())?;
    let cpu = cost::processor_time(operator.process.id())?.as_secs_f64();
    let page = if has_page { "with" } else { "without" };
    println!("{page} the page: rollout to {namespaces} namespaces in {took:.1} s");
    println!("  operator: {now:.1} MiB resident, {peak:.1} MiB at the peak, {cpu:.2} s of processor time");
    if has_page {
        operator.ask().await?;
        match Browser::start()? {
            Some(browser) => show(browser, &operator, &client).await?,
            None => println!("no chromium on the PATH: the page itself is not measured"),
        }
    }
    drop(operator);
    host.shutdown().await;
    Ok(())
}

/// Creates namespaces with a class of two resources.
async fn roll_out(client: &Client, namespaces: usize) -> anyhow::Result<()> {
    let map = |name: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } });
    let classes: Api<NamespaceClass> = Api::all(client.clone());
    let resources = vec![map("a"), map("b")];
    for class in ["bench", "other"] {
        let spec = NamespaceClassSpec { resources: resources.clone(), ..NamespaceClassSpec::default() };
        classes.create(&PostParams::default(), &NamespaceClass::new(class, spec)).await?;
    }
    let api: Api<Namespace> = Api::all(client.clone());
    let create = |number: usize| {
        let api = api.clone();
        async move {
            let labels = json!({ LABEL: "bench" });
            let object = json!({ "metadata": { "name": format!("team-{number}"), "labels": labels } });
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            Ok::<_, anyhow::Error>(())
        }
    };
    futures::stream::iter(0..namespaces).map(create).buffer_unordered(16).try_collect().await
}

/// Waits until every namespace has its resources.
async fn until_ready(client: &Client, namespaces: usize) -> anyhow::Result<()> {
    let api: Api<NamespaceClassBinding> = Api::all(client.clone());
    let began = Instant::now();
    loop {
        let bindings = api.list(&ListParams::default().match_any()).await?;
        let statuses = bindings.items.into_iter().filter_map(|binding| binding.status);
        let is_ready =
            |status: &NamespaceClassBindingStatus| status.conditions.iter().any(|it| it.status == "True");
        if statuses.filter(is_ready).count() == namespaces {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "not applied within {PATIENCE:?}");
        tokio::time::sleep(POLL).await;
    }
}

async fn label(client: &Client, namespace: &str, class: &str) -> anyhow::Result<()> {
    let api: Api<Namespace> = Api::all(client.clone());
    let patch = json!({ "metadata": { "labels": { LABEL: class } } });
    api.patch(namespace, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Measures the page in a browser.
async fn show(mut browser: Browser, operator: &Operator, client: &Client) -> anyhow::Result<()> {
    browser.open_url(&format!("http://{}/", operator.page))?;
    browser.wait_for("document.querySelectorAll('#object-rows tr').length > 100")?;
    let rows = browser.evaluate("performance.now()")?.as_f64().context("no time")?;
    // A headless browser need not paint.
    let paint = browser.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime")?;
    println!("browser: first paint after {paint} ms, all rows after {rows:.0} ms");
    // This binding is among the first rows.
    let row = format!("document.querySelector('tr[data-path=\"{BINDING}\"]')");
    browser.evaluate("performance.clearMeasures()")?;
    let mut delays = Vec::new();
    for round in 0..ROUNDS {
        let class = ["other", "bench"][round % 2];
        let began = Instant::now();
        label(client, "team-0", class).await?;
        browser.wait_for(&format!("{row}?.innerText.includes('class {class}')"))?;
        delays.push(began.elapsed());
    }
    let measures = browser.evaluate("performance.getEntriesByName('update').map((it) => it.duration)")?;
    let mut scripts: Vec<f64> = measures.as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    scripts.sort_unstable_by(f64::total_cmp);
    let middle = scripts.get(scripts.len() / 2).context("no update was measured")?;
    let most = scripts.last().context("no update was measured")?;
    println!("browser, from a change until it is shown: {}", spread(delays));
    println!("browser, the script of {} updates: median {middle:.1} ms, longest {most:.1} ms", scripts.len());
    Ok(())
}

fn spread(mut delays: Vec<Duration>) -> String {
    delays.sort_unstable();
    let at = |place: usize| delays.get(place).copied().unwrap_or_default();
    format!("median {:.0?}, longest {:.0?}", at(delays.len() / 2), at(delays.len().saturating_sub(1)))
}

/// The operator in a process of its own, which ends when this is dropped.
struct Operator {
    process: Child,
    metrics: String,
    page: String,
    _kubeconfig: tempfile::NamedTempFile,
}

impl Operator {
    /// Starts it, and waits until it serves its metrics.
    async fn start(program: &Path, kubeconfig: &str, has_page: bool) -> anyhow::Result<Self> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(kubeconfig.as_bytes())?;
        let (metrics, page) = (free_address()?, free_address()?);
        let process = Command::new(program)
            .args(["run", "--controllers", "namespaceclass", "--metrics-bind-address", &metrics])
            .args(["--health-probe-bind-address", "0", "--log-level", "warn", "--kubeconfig"])
            .arg(file.path())
            .args(["--status-bind-address", if has_page { &page } else { "0" }])
            .stdout(Stdio::null())
            .spawn()
            .context("starting the operator")?;
        let operator = Self { process, metrics, page, _kubeconfig: file };
        eventually("the operator serves its metrics", async || get(&operator.metrics, "/metrics").await)
            .await?;
        Ok(operator)
    }

    /// Measures the documents that the page loads first.
    async fn ask(&self) -> anyhow::Result<()> {
        let client = Client::try_from(Config::new(format!("http://{}", self.page).parse()?))?;
        for (what, path) in [
            ("first document, 200 rows", "/api/view"),
            ("first document, 1,000 rows", "/api/view?rows=1000"),
            ("a filter that matches nothing", "/api/view?filter=nothing"),
            (
                "a selected class, which all namespaces name",
                "/api/view?object=namespaceclass/NamespaceClass.namespaceclass.akuity.io//bench",
            ),
            ("a selected binding", &format!("/api/view?object={BINDING}")),
        ] {
            let (mut delays, mut size) = (Vec::new(), 0);
            for _ in 0..ROUNDS {
                let began = Instant::now();
                size = client.request_text(http::Request::get(path).body(Vec::new())?).await?.len();
                delays.push(began.elapsed());
            }
            println!("{what}: {} KiB, {}", size / 1024, spread(delays));
        }
        let (now, peak) = cost::resident_mib(self.process.id())?;
        println!("operator after that: {now:.1} MiB resident, {peak:.1} MiB at the peak");
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns an address that no other process listens on.
fn free_address() -> anyhow::Result<String> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string())
}
