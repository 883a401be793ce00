//! Measures and prints the cost of the Sentinel; no result passes or fails.
//!
//! `cargo bench --workspace --bench sentinel -- [RESOURCES]...` (default: 10,000, 20,000 and 100,000) serves a fleet in which
//! every cluster is due. It starts RabbitMQ with one durable queue. It runs the Sentinel as a process of its own, as in a
//! cluster, built with the same profile. The baseline is a bare publisher with the same library and the same messages, in its
//! faster mode: message by message or in batches.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use kube::{Client, Config};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use lockstep_apiserver::host::{Host, Options};
use lockstep_external::hyperfleet::host::{Host as FleetHost, Mishap};
use lockstep_external::hyperfleet::{Dialect, HyperFleet, Labels};
use lockstep_tests::collector::Collector;
use lockstep_tests::cost;
use lockstep_tests::ground::install_crds;
use lockstep_tests::program::{Program, sum};
use lockstep_tests::queue::Queue;
use lockstep_tests::rabbitmq::RabbitMq;
use lockstep_tests::sentinel;
use lockstep_tests::shard::{CYCLES, PUBLISHED, an_hour_ago};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Messages that the bare publisher has in flight, as many as the Sentinel.
const WINDOW: usize = 2000;
/// The numbers of messages that the bare publisher sends at a time; both are measured.
const BATCHES: [usize; 2] = [1, 100];
const TOOK: &str = "hyperfleet_sentinel_reconcile_duration_seconds_sum";

fn main() -> anyhow::Result<()> {
    let mut sizes = std::env::args().filter_map(|argument| argument.parse().ok()).collect::<Vec<usize>>();
    if sizes.is_empty() {
        sizes = vec![10_000, 20_000, 100_000];
    }
    let program = cost::program()?;
    let broker = RabbitMq::start()?.context("nothing is measured without RabbitMQ")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(&program, &broker, &sizes))
}

async fn measure(program: &Path, broker: &RabbitMq, sizes: &[usize]) -> anyhow::Result<()> {
    let cluster = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Options::default()).await?;
    let client = Client::try_from(Config::new(cluster.url().parse()?))?;
    install_crds(&client).await?;
    let mut peaks = BTreeMap::new();
    for &size in sizes {
        let mut bare = Duration::MAX;
        for batch in BATCHES {
            bare = bare.min(publish(broker, size, batch).await?);
        }
        let environment = Environment { program, broker, cluster: &cluster, client: &client };
        let ratio = |took: Duration| bare.as_secs_f64() / took.as_secs_f64();
        let (took, _) = environment.cycle(Dialect::Documented, size, None).await?;
        println!("  ratio to the bare publisher: {:.2}", ratio(took));
        let (took, peak) = environment.cycle(Dialect::Released, size, None).await?;
        println!("  ratio to the bare publisher: {:.2}", ratio(took));
        peaks.insert(size, peak);
        let collector = Collector::start().await?;
        let (traced, traced_peak) = environment.cycle(Dialect::Released, size, Some(&collector)).await?;
        println!(
            "  with spans exported: {:.2} of the rate, {:.2} of the memory; {} of {size} spans came, the rest found no room",
            took.as_secs_f64() / traced.as_secs_f64(),
            traced_peak / peak,
            collector.spans().len(),
        );
    }
    if let (Some((least, at_least)), Some((most, at_most))) =
        (peaks.first_key_value(), peaks.last_key_value())
    {
        println!("peak with {most} resources to that with {least}: {:.2}", at_most / at_least);
    }
    Ok(())
}

/// Publishes messages like those of the Sentinel, encoded beforehand, as fast as the broker confirms them. It sends `batch`
/// messages together, and waits for their confirms while it sends the next ones.
async fn publish(broker: &RabbitMq, count: usize, batch: usize) -> anyhow::Result<Duration> {
    let exchange = format!("bare-{count}-{batch}");
    let queue = Queue::bind(broker, &exchange).await?;
    // The library does not accept the empty text after the slash as a virtual host without a name.
    let url = format!("{}%2F", broker.url());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let (body, properties) = message();
    let length = body.len();
    let window = Arc::new(Semaphore::new(WINDOW));
    // It runs on a thread of the runtime, like all code of the Sentinel.
    let sending = tokio::spawn(async move {
        let began = Instant::now();
        let mut in_flight = JoinSet::new();
        for first in (0..count).step_by(batch) {
            let permit = Arc::clone(&window).acquire_many_owned(u32::try_from(batch)?).await?;
            let sendings = (first..count.min(first + batch)).map(|_| {
                let (exchange, options) = (exchange.as_str().into(), BasicPublishOptions::default());
                channel.basic_publish(exchange, "clusters".into(), options, &body, properties.clone())
            });
            let confirms = try_join_all(sendings).await?;
            in_flight.spawn(async move {
                try_join_all(confirms).await?;
                drop(permit);
                anyhow::Ok(())
            });
        }
        while let Some(batch) = in_flight.join_next().await {
            batch??;
        }
        anyhow::Ok(began.elapsed())
    });
    let took = sending.await??;
    report(&format!("bare publisher, {batch} at a time, {length} bytes each"), count, took);
    ensure!(queue.drain().await?.len() == count, "not all arrived");
    connection.close(200, "OK".into()).await?;
    Ok(took)
}

/// Returns a message as the Sentinel sends it.
fn message() -> (Vec<u8>, BasicProperties) {
    let (id, resource) = ("0199a4c1-0000-7000-8000-000000000000", "0199a4c1-1111-7000-8000-111111111111");
    let (kind, time) = ("com.redhat.hyperfleet.cluster.reconcile", "2025-10-21T12:00:00.123Z");
    let attributes = [
        ("specversion", "1.0"),
        ("type", kind),
        ("source", "hyperfleet-sentinel"),
        ("id", id),
        ("time", time),
        ("datacontenttype", "application/json"),
    ];
    let mut body = serde_json::Map::new();
    let mut headers = FieldTable::default();
    for (name, value) in attributes {
        body.insert(name.to_owned(), json!(value));
        headers.insert(format!("cloudEvents:{name}").into(), AMQPValue::LongString(value.into()));
    }
    body.insert("data".to_owned(), json!({
        "resourceType": "clusters", "resourceId": resource, "reason": "backoff-expired", "id": resource, "kind": "Cluster",
        "href": format!("/api/hyperfleet/v1/clusters/{resource}"), "generation": 1,
    }));
    let properties = BasicProperties::default()
        .with_content_type("application/cloudevents+json".into())
        .with_delivery_mode(2)
        .with_headers(headers)
        .with_message_id(id.into())
        .with_timestamp(1_761_048_000)
        .with_type(kind.into());
    (serde_json::Value::Object(body).to_string().into_bytes(), properties)
}

/// The environment of a Sentinel.
struct Environment<'e> {
    program: &'e Path,
    broker: &'e RabbitMq,
    cluster: &'e Host,
    client: &'e Client,
}

impl Environment<'_> {
    /// Runs one cycle of a Sentinel over clusters that are all due, and exports its spans if there is a collector. Returns the
    /// duration of the cycle and the peak memory, in MiB.
    async fn cycle(
        &self,
        spoken: Dialect,
        count: usize,
        collector: Option<&Collector>,
    ) -> anyhow::Result<(Duration, f64)> {
        let Self { program, broker, cluster, client } = *self;
        let dialect = if spoken == Dialect::Released { "search" } else { "labels" };
        let name = format!("{dialect}-{}-{count}", if collector.is_some() { "traced" } else { "cycle" });
        let queue = Queue::bind(broker, &name).await?;
        let mut fleet = HyperFleet::new(spoken, 1);
        let labels = Arc::new(Labels::new());
        fleet.populate(count, |_| Arc::clone(&labels), an_hour_ago()?);
        let fleet = FleetHost::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), fleet).await?;
        let (first_page, asked) = std::sync::mpsc::channel();
        fleet.state().set_weather(Some(Box::new(move |_| {
            let _ = first_page.send(Instant::now());
            Mishap::default()
        })));
        sentinel::Config::new(client, "default", &name)
            .create(&json!({
                "resourceType": "clusters",
                "hyperfleetAPI": {"url": fleet.url(), "dialect": dialect},
                "broker": {"type": "rabbitmq", "topic": name, "url": broker.url()},
                "pollInterval": "1h",
            }))
            .await?;
        let mut command = Command::new(program);
        command.args(["sentinel", "--namespace=default", "--config", &name]);
        command.args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]);
        command.env("LOCKSTEP_LOG_FORMAT", "json");
        if let Some(collector) = collector {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
        }
        let mut arrivals = queue.arrivals().await?;
        let sentinel = Program::start(command, &cluster.kubeconfig_yaml()).await?;
        arrivals.next().await?;
        let first_event = Instant::now();
        drop(arrivals);
        let metrics = loop {
            let metrics = sentinel.metrics().await?;
            if sum(&metrics, CYCLES, "") >= 1 {
                break metrics;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        ensure!(sum(&metrics, PUBLISHED, "") == count as u64, "not all were published: {metrics}");
        let took =
            metrics.lines().find(|line| line.starts_with(TOOK)).and_then(|line| line.rsplit(' ').next());
        let took = Duration::from_secs_f64(took.context("the cycle was measured")?.parse()?);
        report(&format!("the Sentinel's first cycle ({name})"), count, took);
        let first = first_event.duration_since(asked.recv()?);
        println!(
            "  from the first page's answer to the first event's arrival: {:.1} ms",
            first.as_secs_f64() * 1e3
        );
        let cpu = cost::processor_time(sentinel.id())?;
        println!("  the Sentinel itself: {:.2} s of processor time", cpu.as_secs_f64());
        let (now, peak) = cost::resident_mib(sentinel.id())?;
        println!("  resident after it: {now:.1} MiB, {peak:.1} MiB at the peak");
        Ok((took, peak))
    }
}

fn report(what: &str, count: usize, took: Duration) {
    #[expect(clippy::cast_precision_loss, reason = "far from as many")]
    let rate = count as f64 / took.as_secs_f64();
    println!("{what}: {count} events in {:.2} s, {rate:.0} events/s", took.as_secs_f64());
}
