//! Measures and prints the cost of the Sentinel; no result passes or fails.
//!
//! `cargo bench --workspace --bench sentinel -- [RESOURCES]...` (default: 20,000 and 100,000) serves a fleet in which every
//! cluster is due. It starts RabbitMQ with one durable queue. It runs the Sentinel as a process of its own, as in a cluster,
//! built with the same profile, in the environment that the image sets. The baseline is a raw publisher with the same library and
//! messages of the same size, which pipelines its confirms: as many messages are in flight as the Sentinel allows. All run in
//! turn, so that other load on the host affects them equally.

#![expect(clippy::print_stdout, reason = "a benchmark prints its measurements")]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::{Client, Config};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use lockstep_apiserver::host::{Host, Options};
use lockstep_external::hyperfleet::host::Host as FleetHost;
use lockstep_external::hyperfleet::{API, Dialect, HyperFleet, Labels, Release};
use lockstep_release::image::ENVIRONMENT;
use lockstep_tests::collector::Collector;
use lockstep_tests::cost;
use lockstep_tests::ground::install_crds;
use lockstep_tests::program::{Program, sum};
use lockstep_tests::queue::Queue;
use lockstep_tests::rabbitmq::RabbitMq;
use lockstep_tests::sentinel;
use lockstep_tests::shard::{CYCLES, PUBLISHED, an_hour_ago};
use serde_json::json;
use tokio::task::JoinSet;

/// Messages that the raw publisher has in flight, as many as the Sentinel.
const WINDOW: usize = 2000;
/// The numbers of messages that the raw publisher sends together; the fastest one counts.
const BATCHES: [usize; 3] = [1, 20, 100];
/// How often everything is measured; the results are medians.
const ROUNDS: usize = 3;
const TOOK: &str = "hyperfleet_sentinel_reconcile_duration_seconds_sum";

/// A fleet's API.
#[derive(Clone, Copy)]
struct Api {
    name: &'static str,
    dialect: Dialect,
    has_pages: bool,
}

const APIS: [Api; 3] = [
    Api { name: "search", dialect: Dialect::Released, has_pages: true },
    Api { name: "labels", dialect: Dialect::Documented, has_pages: true },
    Api { name: "labels, in one answer", dialect: Dialect::Documented, has_pages: false },
];

fn main() -> anyhow::Result<()> {
    let mut sizes = std::env::args().filter_map(|argument| argument.parse().ok()).collect::<Vec<usize>>();
    if sizes.is_empty() {
        sizes = vec![20_000, 100_000];
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
    let environment = Environment { program, broker, cluster: &cluster, client: &client };
    for &size in sizes {
        let mut figures = APIS.map(|_| Vec::new());
        for round in 0..ROUNDS {
            let mut raw = Duration::MAX;
            for batch in BATCHES {
                raw = raw.min(publish(broker, size, round, batch).await?);
            }
            for (api, figures) in APIS.into_iter().zip(&mut figures) {
                let cycle = environment.cycle(api, size, round, None).await?;
                figures.push((raw.as_secs_f64() / cycle.took.as_secs_f64(), cycle));
            }
        }
        for (api, mut figures) in APIS.into_iter().zip(figures) {
            figures.sort_by(|(one, _), (other, _)| one.total_cmp(other));
            let (ratio, _) = figures[ROUNDS / 2];
            let peak = figures.iter().map(|(_, cycle)| cycle.peak).fold(0.0, f64::max);
            println!(
                "{}: {size} events at {ratio:.2} of the raw publisher's rate, {peak:.1} MiB at the peak",
                api.name
            );
        }
        let collector = Collector::start().await?;
        let untraced = environment.cycle(APIS[0], size, ROUNDS, None).await?;
        let traced = environment.cycle(APIS[0], size, ROUNDS, Some(&collector)).await?;
        println!(
            "with spans exported: {:.2} of the rate, {:.2} of the memory; {} of {size} spans came, the rest found no room",
            untraced.took.as_secs_f64() / traced.took.as_secs_f64(),
            traced.peak / untraced.peak,
            collector.spans().len(),
        );
    }
    Ok(())
}

/// Publishes messages like those of the Sentinel, encoded beforehand, as fast as the broker confirms them. It sends `batch`
/// messages together, and sends more as soon as all messages of an earlier batch are confirmed.
async fn publish(broker: &RabbitMq, count: usize, round: usize, batch: usize) -> anyhow::Result<Duration> {
    let exchange = format!("raw-{count}-{round}-{batch}");
    let queue = Queue::bind(broker, &exchange).await?;
    // The library does not accept the empty text after the slash as a virtual host without a name.
    let url = format!("{}%2F", broker.url());
    let connection = Connection::connect(&url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let message = Arc::new(message());
    let length = message.0.len();
    let began = Instant::now();
    let mut in_flight = JoinSet::new();
    for first in (0..count).step_by(batch) {
        if in_flight.len() == WINDOW / batch {
            in_flight.join_next().await.context("nothing is in flight")???;
        }
        let (channel, message, exchange) = (channel.clone(), Arc::clone(&message), exchange.clone());
        in_flight.spawn(async move {
            let (body, properties) = &*message;
            let sendings = (first..count.min(first + batch)).map(async |_| {
                let (exchange, options) = (exchange.as_str().into(), BasicPublishOptions::default());
                channel.basic_publish(exchange, "".into(), options, body, properties.clone()).await?.await
            });
            try_join_all(sendings).await
        });
    }
    while let Some(batch) = in_flight.join_next().await {
        batch??;
    }
    let took = began.elapsed();
    report(&format!("raw publisher, {batch} at a time, {length} bytes each"), count, took);
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

/// The duration of a cycle, and the peak memory of its process in MiB.
struct Cycle {
    took: Duration,
    peak: f64,
}

impl Environment<'_> {
    /// Runs one cycle of a Sentinel over clusters that are all due, and exports its spans if there is a collector.
    async fn cycle(
        &self,
        api: Api,
        count: usize,
        round: usize,
        collector: Option<&Collector>,
    ) -> anyhow::Result<Cycle> {
        let Self { program, broker, cluster, client } = *self;
        let dialect = if api.dialect == Dialect::Released { "search" } else { "labels" };
        let kind = if collector.is_some() { "traced" } else { "cycle" };
        let name = format!("{dialect}-{}-{kind}-{count}-{round}", api.has_pages);
        let queue = Queue::bind(broker, &name).await?;
        let mut fleet = HyperFleet::new(api.dialect, 1);
        let labels = Arc::new(Labels::new());
        fleet.populate(count, |_| Arc::clone(&labels), an_hour_ago()?);
        if !api.has_pages {
            fleet.forget_pages();
        }
        write_out(&mut fleet, count)?;
        let fleet = FleetHost::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), fleet).await?;
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
        command.env("LOCKSTEP_LOG_FORMAT", "json").envs(ENVIRONMENT);
        if let Some(collector) = collector {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
        }
        let sentinel = Program::start(command, &cluster.kubeconfig_yaml()).await?;
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
        report(&format!("the Sentinel's first cycle ({}, {kind})", api.name), count, took);
        let cpu = cost::processor_time(sentinel.id())?;
        let (now, peak) = cost::resident_mib(sentinel.id())?;
        let (requests, cpu) = (fleet.state().answered(), cpu.as_secs_f64());
        println!(
            "  requests to the API by status: {requests:?}; {cpu:.2} s of processor time; resident after it: {now:.1} MiB, {peak:.1} MiB at the peak"
        );
        drop(sentinel);
        let arrived = queue.drain().await?;
        let resources = arrived.iter().map(|arrival| &arrival.resource).collect::<BTreeSet<_>>();
        ensure!(arrived.len() == count && resources.len() == count, "not each arrived once");
        Ok(Cycle { took, peak })
    }
}

/// Lists everything once: the model keeps the JSON of each resource, so that its own work counts as little as possible.
fn write_out(fleet: &mut HyperFleet, count: usize) -> anyhow::Result<()> {
    fleet.release(Release::V0_3_0);
    let all = http::Request::get(format!("{API}/clusters?orderBy=id&size={count}")).body(Bytes::new())?;
    ensure!(fleet.handle(&all, Timestamp::now()).status().is_success(), "the list was refused");
    fleet.release(Release::V0_3_1);
    Ok(())
}

fn report(what: &str, count: usize, took: Duration) {
    #[expect(clippy::cast_precision_loss, reason = "far from as many")]
    let rate = count as f64 / took.as_secs_f64();
    println!("{what}: {count} events in {:.2} s, {rate:.0} events/s", took.as_secs_f64());
}
