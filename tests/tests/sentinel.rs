//! The Sentinel as a process, between a fleet that is served over HTTP and a real RabbitMQ.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use lockstep_core::engine::machine::Event;
use lockstep_core::sentinel::{Sentinel, Settings};
use lockstep_shell::clock::Clock;
use lockstep_shell::manager::Manager;
use lockstep_shell::metrics::Metrics;
use lockstep_shell::run::Options;
use lockstep_shell::shutdown;
use lockstep_sim::hyperfleet::damage::Damage;
use lockstep_sim::hyperfleet::host::{Host, Mishap, State, Weather};
use lockstep_sim::hyperfleet::{ADAPTERS, API, Dialect, HyperFleet, Kind, Labels, Resource};
use lockstep_tests::ground::{Ground, PATIENCE, eventually};
use lockstep_tests::program::{Program, program, sum};
use lockstep_tests::queue::{Arrivals, Queue};
use lockstep_tests::rabbitmq::{ENCODED_PASSWORD, PASSWORD, RabbitMq, USER};
use lockstep_tests::sentinel::Config;
use serde_json::{Value, json};
use tokio::task::block_in_place;

const PUBLISHED: &str = "hyperfleet_sentinel_events_published_total";
const SKIPPED: &str = "hyperfleet_sentinel_resources_skipped_total";
const CYCLES: &str = "hyperfleet_sentinel_reconcile_duration_seconds_count";
const API_ERRORS: &str = "hyperfleet_sentinel_api_errors_total";
const BROKER_ERRORS: &str = "hyperfleet_sentinel_broker_errors_total";
const REPUBLISHED: &str = "lockstep_sentinel_events_republished_total";
const MALFORMED: &str = "lockstep_sentinel_malformed_resources_total";

/// The pages of the API hold this many.
const PAGE: usize = 100;

/// A namespace with a configuration, and the fleet that it names.
struct World {
    client: Client,
    namespace: String,
    config: Config,
    host: Host,
}

impl World {
    /// A world with clusters that are all due. The exchange is named after the test.
    async fn new(test: &str, clusters: usize) -> anyhow::Result<Self> {
        let (client, namespace) = (Ground::embedded().client(), test.replace('_', "-"));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        namespaces.create(&PostParams::default(), &object).await?;
        let config = Config::new(&client, &namespace, "shard");
        let mut fleet = HyperFleet::new(Dialect::Released, 1);
        fleet.populate(clusters, |_| Arc::new(Labels::new()), an_hour_ago()?);
        let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), fleet).await?;
        Ok(Self { client, namespace, config, host })
    }

    /// A configuration whose first cycle is the only one.
    fn spec(&self, broker: &str) -> Value {
        json!({
            "resourceType": "clusters",
            "hyperfleetAPI": {"url": self.host.url(), "timeout": "30s", "dialect": "search"},
            "broker": {"type": "rabbitmq", "topic": self.namespace, "url": broker},
            "pollInterval": "1h",
        })
    }

    /// The same, but cycle follows cycle.
    fn polling(&self, broker: &str) -> Value {
        let mut spec = self.spec(broker);
        spec["pollInterval"] = json!("100ms");
        spec
    }

    async fn sentinel(&self) -> anyhow::Result<Program> {
        let mut command = Command::new(program()?);
        command
            .args(["sentinel", "--config=shard", "--namespace", &self.namespace])
            .args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"])
            .env("LOCKSTEP_LOG_FORMAT", "json")
            .env("LOCKSTEP_LOG_LEVEL", "debug");
        Program::start(command, &Ground::embedded().kubeconfig()?).await
    }

    fn state(&self) -> &State {
        self.host.state()
    }

    /// The ids of all clusters, in order.
    fn ids(&self) -> Vec<String> {
        self.state().with_fleet(|fleet| fleet.resources(Kind::Cluster).map(|row| row.id.clone()).collect())
    }
}

fn an_hour_ago() -> anyhow::Result<Timestamp> {
    Ok(Timestamp::now().checked_sub(SignedDuration::from_hours(1))?)
}

/// How often each is there.
fn counted(resources: Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for resource in resources {
        *counts.entry(resource).or_default() += 1;
    }
    counts
}

/// Waits until a metric has come so far.
async fn reaches(sentinel: &Program, metric: &str, goal: f64) -> anyhow::Result<f64> {
    eventually(metric, async || {
        let value = sentinel.metric(metric, "").await?;
        ensure!(value >= goal, "{value} instead of {goal}");
        Ok(value)
    })
    .await
}

/// Waits until a whole cycle has passed.
async fn a_cycle_passes(sentinel: &Program) -> anyhow::Result<()> {
    let ended = sentinel.metric(CYCLES, "").await?;
    reaches(sentinel, CYCLES, ended + 2.0).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_broker_loses_no_event() -> anyhow::Result<()> {
    const CLUSTERS: usize = 20_000;
    let Some(mut broker) = RabbitMq::start()? else { return Ok(()) };
    let world = World::new("broker_loss", CLUSTERS).await?;
    drop(Queue::bind(&broker, &world.namespace).await?);
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    let published = reaches(&sentinel, PUBLISHED, 3000.0).await?;
    ensure!(published < 20_000.0, "all was published before the broker was lost");
    block_in_place(|| broker.kill())?;
    eventually("the loss is told", async || {
        let status = world.config.status().await?;
        let is_lost = status.conditions.iter().any(|c| c.type_ == "BrokerConnected" && c.status == "False");
        ensure!(is_lost, "{status:?}");
        Ok(())
    })
    .await?;
    block_in_place(|| broker.resume())?;
    world.config.told("BrokerConnected", "True", "Connected").await?;
    reaches(&sentinel, CYCLES, 1.0).await?;

    let metrics = sentinel.metrics().await?;
    let counts = counted(Queue::bind(&broker, &world.namespace).await?.drain().await?);
    assert_eq!(counts.keys().cloned().collect::<Vec<_>>(), world.ids());
    let received = counts.values().sum::<usize>();
    let republished = sum(&metrics, REPUBLISHED, "");
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let doubled = (received - CLUSTERS) as f64;
    assert!(republished > 0.0 && doubled <= republished, "{received} received, {republished} republished");
    assert!((sum(&metrics, PUBLISHED, "") - 20_000.0).abs() < 0.5, "{metrics}");
    assert!(sum(&metrics, BROKER_ERRORS, "broker_type=\"rabbitmq\"") >= 1.0, "{metrics}");
    world.config.told("Publishing", "True", "AllConfirmed").await?;
    assert!(sentinel.terminate().await?.success());
    Ok(())
}

/// With each page three rows come: before all, in the middle, and after all.
#[tokio::test(flavor = "multi_thread")]
async fn rows_that_come_while_pages_are_read_move_none_out_of_sight() -> anyhow::Result<()> {
    const CLUSTERS: usize = 20_000;
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("page_limits", CLUSTERS).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    let before = world.ids();
    let state = world.state().clone();
    let (first, middle) = (before[0].clone(), before[CLUSTERS / 2].clone());
    let created = an_hour_ago()?;
    let insert: Weather = Box::new(move |_| {
        state.with_fleet(|fleet| {
            let number = fleet.resources(Kind::Cluster).len();
            // Behind those that exist: ids follow the clock.
            if number < CLUSTERS + PAGE {
                fleet.create("last", Labels::new(), created);
            }
            for (id, name) in [(format!("0{number:08}"), &first), (format!("{middle}-{number:08}"), &middle)]
            {
                let row = fleet.get(name).cloned().map(|row| Resource { id, ..row });
                row.into_iter().for_each(|row| fleet.insert(row));
            }
        });
        Mishap::default()
    });
    world.state().set_weather(Some(insert));
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    reaches(&sentinel, CYCLES, 1.0).await?;
    let counts = counted(queue.drain().await?);
    let missing = before.iter().filter(|id| !counts.contains_key(*id)).count();
    assert_eq!(missing, 0);
    assert!(counts.values().all(|count| *count == 1));
    assert!(world.ids().len() > CLUSTERS + 2 * CLUSTERS / PAGE, "hardly a row came meanwhile");
    assert!(counts.len() > CLUSTERS + CLUSTERS / PAGE / 2, "no new row was seen");
    Ok(())
}

/// What is wrong with the answer that brings the second of three pages, and what is then told.
const BAD_PAGES: [(Damage, &str, &str); 6] = [
    (Damage::Html, "InvalidAnswer", r#"the answer is not JSON; it begins with "<!DOCTYPE html>"#),
    (Damage::EmptyBody, "InvalidAnswer", "the answer is empty"),
    (Damage::TruncatedJson, "InvalidAnswer", "the answer is no list of resources (EOF"),
    (Damage::HugeBody, "RequestRefused", "the answer is longer than 8 MiB"),
    (Damage::ServerError(503), "Unreachable", "503 Service Unavailable: upstream connect error"),
    (Damage::Throttled { retry_after: 1 }, "Throttled", "429 Too Many Requests"),
];

/// What is wrong with the fourth item, and what is then told.
const BAD_ITEMS: [(Damage, &str); 3] = [
    (Damage::WrongTimeFormat { item: 3 }, "not a time as RFC 3339 has it"),
    (Damage::MissingId { item: 3 }, "item 3: missing field `id`"),
    (Damage::ItemNotAnObject { item: 3 }, "expected a resource"),
];

/// Collects what arrives until all of these have.
async fn arrive(arrivals: &mut Arrivals, awaited: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let mut arrived = BTreeSet::new();
    let all = async {
        while !awaited.iter().all(|id| arrived.contains(id)) {
            arrived.insert(arrivals.next().await?);
        }
        Ok(())
    };
    let in_time = tokio::time::timeout(PATIENCE, all).await;
    in_time.with_context(|| format!("only {} arrived", arrived.len()))?.map(|()| arrived)
}

/// Three pages of clusters, and a Sentinel that meets the damage from its first poll on: all are published but those that
/// are spoilt, and once the damage is gone, those as well.
async fn outlives(
    broker: &RabbitMq,
    test: &str,
    damage: Damage,
    is_hit: impl Fn(&[String], &str) -> bool + Send + Sync + 'static,
    spoilt: std::ops::Range<usize>,
    told: (&str, &str, &str),
) -> anyhow::Result<(String, Program)> {
    let world = World::new(test, 3 * PAGE).await?;
    let (queue, ids) = (Queue::bind(broker, &world.namespace).await?, world.ids());
    let mut arrivals = queue.arrivals().await?;
    let known = ids.clone();
    world.state().set_weather(Some(Box::new(move |request| {
        let is_hit = is_hit(&known, request.uri().query().unwrap_or_default());
        Mishap { damage: is_hit.then_some(damage), ..Mishap::default() }
    })));
    world.config.create(&world.polling(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    let (status, reason, words) = told;
    let condition = world.config.told("FleetReachable", status, reason).await?;
    sentinel.logged(words).with_context(|| format!("{damage:?}: {}", sentinel.log()))?;
    a_cycle_passes(&sentinel).await?;
    let others = [&ids[..spoilt.start], &ids[spoilt.end..]].concat();
    let arrived = arrive(&mut arrivals, &others).await?;
    assert!(!ids[spoilt].iter().any(|id| arrived.contains(id)), "{damage:?}");
    world.state().set_weather(None);
    world.config.told("FleetReachable", "True", "FleetListed").await?;
    arrive(&mut arrivals, &ids).await?;
    Ok((condition.message, sentinel))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_page_is_named_and_spoils_no_other() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let cases = BAD_PAGES.iter().enumerate().map(async |(case, &(damage, reason, words))| {
        let second =
            |ids: &[String], query: &str| query.contains(&ids[PAGE - 1]) && query.contains("page=1&");
        let (test, told) = (format!("bad_page_{case}"), ("False", reason, words));
        let outlived = outlives(broker, &test, damage, second, PAGE..2 * PAGE, told);
        let (message, sentinel) = outlived.await.with_context(|| format!("{damage:?}"))?;
        assert!(message.contains(words), "{damage:?}: {message}");
        let errors = sentinel.metric(API_ERRORS, "fetch_resources").await?;
        assert!(errors >= 3.0, "{damage:?}: {errors}");
        anyhow::Ok(())
    });
    futures::future::try_join_all(cases).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_is_named_and_spoils_no_other() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let cases = BAD_ITEMS.iter().enumerate().map(async |(case, &(damage, words))| {
        let first = |_: &[String], query: &str| !query.contains("search=");
        let (test, told) = (format!("bad_item_{case}"), ("True", "MalformedResources", words));
        let outlived = outlives(broker, &test, damage, first, 3..4, told);
        let (message, sentinel) = outlived.await.with_context(|| format!("{damage:?}"))?;
        assert!(message.contains("1 of its resources can't be understood"), "{damage:?}: {message}");
        let malformed = sentinel.metric(MALFORMED, "").await?;
        assert!(malformed >= 1.0, "{damage:?}: {malformed}");
        anyhow::Ok(())
    });
    futures::future::try_join_all(cases).await?;
    // Nobody has ever reported on a resource without a status, so that it counts from its creation.
    let (damage, told) = (Damage::NullStatus { item: 3 }, ("True", "FleetListed", "cycle 1 took"));
    outlives(broker, "no_status", damage, |_, _| true, 3..3, told).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_well_in_the_middle_of_a_cycle() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("sigterm", 20_000).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    reaches(&sentinel, PUBLISHED, 1000.0).await?;
    assert!(sentinel.terminate().await?.success());
    let counts = counted(queue.drain().await?);
    assert!((1000..20_000).contains(&counts.len()), "{}", counts.len());
    assert!(counts.values().all(|count| *count == 1));
    Ok(())
}

/// The counts of a process end with it, so that the Sentinel runs in this one.
#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_nothing_new_begins_and_what_is_in_flight_counts() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("graceful", 20_000).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let metrics = Metrics::new(prometheus::Registry::new())?;
    let clock = Clock::start(Timestamp::now);
    let mut manager = Manager::new(world.client.clone(), clock, 1, metrics.clone());
    let settings = Settings {
        namespace: world.namespace.clone(),
        config: "shard".to_owned(),
        tells_decisions: false,
        traces: true,
        seed: 1,
    };
    let farewell = Some(Event::LeadershipChanged { leading: false });
    manager.add_with(Box::new(Sentinel::new(settings)), Options { farewell, ..Options::default() });
    let published = || anyhow::Ok(sum(&String::from_utf8(metrics.encode()?)?, PUBLISHED, ""));
    let (trigger, shutdown) = shutdown::channel();
    let running = tokio::spawn(manager.run(shutdown));
    eventually("a thousand are confirmed", async || {
        ensure!(published()? >= 1000.0);
        Ok(())
    })
    .await?;
    trigger.pull();
    let asked = world.state().answered()[&200];
    let grace = Options::default().grace;
    tokio::time::timeout(grace + Duration::from_secs(1), running).await.context("it goes on")???;

    let answered = world.state().answered()[&200];
    assert!(answered <= asked + 1, "{asked}, then {answered} pages");
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let received = queue.drain().await?.len() as f64;
    assert!(received < 20_000.0 && (published()? - received).abs() < 0.5, "{received}, {}", published()?);
    Ok(())
}

/// One adapter reports at each event: the first, and after the backoff the second.
fn adapt(fleet: &mut HyperFleet, id: &str, adapter: &str) -> u16 {
    let report = json!({
        "adapter": adapter,
        "observed_generation": 1,
        "conditions": [{"type": "Available", "status": "True"}],
    });
    let request = Request::builder().method(Method::POST).uri(format!("{API}/clusters/{id}/statuses"));
    let request = request.body(Bytes::from(report.to_string())).expect("a request");
    fleet.handle(&request, Timestamp::now()).status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_bring_resources_to_rest() -> anyhow::Result<()> {
    const CLUSTERS: usize = 500;
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("closed_loop", CLUSTERS).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    let mut spec = world.polling(&broker.url());
    (spec["backoffNotReady"], spec["backoffReady"]) = (json!("200ms"), json!("1h"));
    world.config.create(&spec).await?;
    let sentinel = world.sentinel().await?;

    let (mut arrivals, state) = (queue.arrivals().await?, world.state().clone());
    let adapters = tokio::spawn(async move {
        let mut events = BTreeMap::<String, usize>::new();
        while let Ok(id) = arrivals.next().await {
            let event = events.entry(id.clone()).or_default();
            let adapter = ADAPTERS[*event % ADAPTERS.len()];
            *event += 1;
            assert_eq!(state.with_fleet(|fleet| adapt(fleet, &id, adapter)), 201);
        }
    });
    eventually("all are ready", async || {
        let body = world.state().with_fleet(|fleet| {
            let request =
                Request::get(format!("{API}/clusters?search=status.conditions.Reconciled%3D%27True%27"));
            fleet.handle(&request.body(Bytes::new()).expect("a request"), Timestamp::now()).into_body()
        });
        let list = serde_json::from_slice::<Value>(&body)?;
        ensure!(list["total"] == json!(CLUSTERS), "{list}");
        Ok(())
    })
    .await?;
    // The cycle that was under way when the last became ready.
    a_cycle_passes(&sentinel).await?;
    let quiet = sentinel.metrics().await?;
    a_cycle_passes(&sentinel).await?;
    let later = sentinel.metrics().await?;
    let published = sum(&later, PUBLISHED, "");
    assert!(published >= 1000.0, "{published}");
    assert!((published - sum(&quiet, PUBLISHED, "")).abs() < 0.5, "{quiet}\n{later}");
    let ready = |metrics: &str| sum(metrics, SKIPPED, "ready_state=\"ready\"");
    assert!(ready(&later) >= ready(&quiet) + 500.0, "{quiet}\n{later}");
    assert!(!adapters.is_finished());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_credentials_are_found_and_never_shown() -> anyhow::Result<()> {
    const NEW: &str = "hunter3";
    let Some(broker) = RabbitMq::start()? else { return Ok(()) };
    let world = World::new("rotation", 10).await?;
    let queue = Queue::bind(&broker, &world.namespace).await?;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let secret = json!({"metadata": {"name": "rabbit"}, "stringData": {"url": broker.url()}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let mut spec = world.polling("");
    spec["broker"] = json!({
        "type": "rabbitmq", "topic": world.namespace, "urlSecretRef": {"name": "rabbit", "key": "url"},
    });
    world.config.create(&spec).await?;
    let sentinel = world.sentinel().await?;
    arrive(&mut queue.arrivals().await?, &world.ids()).await?;

    block_in_place(|| broker.control(&["change_password", USER, NEW]))?;
    let url = format!("amqp://{USER}:{NEW}@{}/", broker.address());
    let patch = Patch::Merge(json!({"stringData": {"url": url}}));
    secrets.patch("rabbit", &PatchParams::default(), &patch).await?;
    block_in_place(|| broker.control(&["close_all_connections", "rotation"]))?;
    world.config.told("BrokerConnected", "False", "CredentialsRefused").await?;
    world.config.told("BrokerConnected", "True", "Connected").await?;
    let published = sentinel.metric(PUBLISHED, "").await?;
    reaches(&sentinel, PUBLISHED, published + 1.0).await?;

    let status = serde_json::to_string(&world.config.status().await?)?;
    for said in [sentinel.log(), sentinel.metrics().await?, status] {
        assert!(!said.is_empty());
        for password in [PASSWORD, ENCODED_PASSWORD, NEW] {
            assert!(!said.contains(password), "{said}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_cycle_is_alive_and_not_ready_before_its_end() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("long_cycle", PAGE).await?;
    // Longer than a Sentinel may go without a step.
    let late = Mishap { delay: Duration::from_secs(12), damage: None };
    world.state().set_weather(Some(Box::new(move |_| late)));
    world.config.create(&world.polling(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    let mut probes = 0;
    loop {
        let (alive, ready) = (sentinel.probe("/healthz").await?, sentinel.probe("/readyz").await?);
        assert_eq!(alive, (200, "ok\n".to_owned()));
        if ready.0 == 200 {
            break;
        }
        probes += 1;
        ensure!(probes < 400, "{ready:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let metrics = sentinel.metrics().await?;
    assert!(sum(&metrics, CYCLES, "") >= 1.0, "{metrics}");
    assert!(probes > 50, "{probes}");
    world.config.told("BrokerConnected", "True", "Connected").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_needs_the_broker() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("not_ready", 0).await?;
    world.config.create(&world.polling("amqp://127.0.0.1:1/")).await?;
    let sentinel = world.sentinel().await?;
    world.config.told("FleetReachable", "True", "FleetListed").await?;
    assert_eq!(sentinel.probe("/readyz").await?.0, 503);
    world.config.change(&json!({"broker": {"url": broker.url()}})).await?;
    eventually("it is ready", async || {
        let ready = sentinel.probe("/readyz").await?;
        ensure!(ready.0 == 200, "{ready:?}");
        Ok(())
    })
    .await
}
