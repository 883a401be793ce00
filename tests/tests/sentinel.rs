//! Tests the Sentinel process between a fleet that is served over HTTP and a real RabbitMQ.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http::{Method, Request};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use lockstep_crds::sentinel::LastCycle;
use lockstep_engine::machine::Event;
use lockstep_external::hyperfleet::host::{Mishap, Weather};
use lockstep_external::hyperfleet::{ADAPTERS, API, Dialect, HyperFleet, Kind, Labels};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::run::Options;
use lockstep_runtime::shutdown;
use lockstep_sentinel::{Sentinel, Settings};
use lockstep_tests::ground::eventually;
use lockstep_tests::program::sum;
use lockstep_tests::queue::{Arrival, Queue};
use lockstep_tests::rabbitmq::{ENCODED_PASSWORD, PASSWORD, RabbitMq, USER};
use lockstep_tests::shard::{
    BROKER_ERRORS, CYCLES, PAGE, PENDING, PUBLISHED, REPUBLISHED, SKIPPED, World, a_cycle_passes,
    an_hour_ago, arrive, first_cycle_publishes, reaches,
};
use serde_json::json;
use tokio::task::block_in_place;

/// Counts how often each resource was published.
fn counted(events: Vec<Arrival>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        *counts.entry(event.resource).or_default() += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_the_broker_loses_no_event() -> anyhow::Result<()> {
    const CLUSTERS: usize = 20_000;
    let Some(mut broker) = RabbitMq::start()? else { return Ok(()) };
    let world = World::new("broker_loss", CLUSTERS).await?;
    drop(Queue::bind(&broker, &world.namespace).await?);
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = world.frozen_midway(&broker, world.command()?).await?;
    block_in_place(|| broker.kill())?;
    eventually("the loss is reported", async || {
        let status = world.config.status().await?;
        let is_lost = status.conditions.iter().any(|c| c.type_ == "BrokerConnected" && c.status == "False");
        ensure!(is_lost, "{status:?}");
        Ok(())
    })
    .await?;
    block_in_place(|| broker.resume())?;
    world.config.until_condition("BrokerConnected", "True", "Connected").await?;
    first_cycle_publishes(&sentinel, 20_000).await?;

    let metrics = sentinel.metrics().await?;
    let events = Queue::bind(&broker, &world.namespace).await?.drain().await?;
    let received = events.len();
    // An event that is sent again keeps its id, and no two resources share one.
    let mut ids = BTreeMap::new();
    for event in events {
        let id = ids.entry(event.resource).or_insert_with(|| event.id.clone());
        assert_eq!(*id, event.id);
    }
    assert_eq!(ids.keys().cloned().collect::<Vec<_>>(), world.ids());
    assert_eq!(ids.values().collect::<BTreeSet<_>>().len(), CLUSTERS);
    let republished = sum(&metrics, REPUBLISHED, "");
    let doubled = (received - CLUSTERS) as u64;
    assert!(republished > 0 && doubled <= republished, "{received} received, {republished} republished");
    // There are as many confirms as events: no event was sent again after its confirm.
    assert!(sum(&metrics, PUBLISHED, "") == 20_000, "{metrics}");
    assert!(sum(&metrics, BROKER_ERRORS, "broker_type=\"rabbitmq\"") >= 1, "{metrics}");
    world.config.until_condition("Publishing", "True", "AllConfirmed").await?;
    let cycle = LastCycle { resources: 20_000, published: 20_000, ..LastCycle::default() };
    assert_eq!(world.config.status().await?.last_cycle, Some(cycle));
    assert!(sentinel.terminate().await?.success());
    Ok(())
}

/// Each page adds three rows: before all others, in the middle, and after all others. No row may be skipped because of that.
#[tokio::test(flavor = "multi_thread")]
async fn rows_inserted_while_pages_are_read_hide_no_other_row() -> anyhow::Result<()> {
    const CLUSTERS: usize = 100_000;
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
            // This row is sorted after the existing ones, because ids follow the clock.
            if number < CLUSTERS + PAGE {
                fleet.create("last", Labels::new(), created);
            }
            for (id, name) in [(format!("0{number:08}"), &first), (format!("{middle}-{number:08}"), &middle)]
            {
                if let Some(mut row) = fleet.get(name).cloned() {
                    row.id = id;
                    fleet.insert(row);
                }
            }
        });
        Mishap::default()
    });
    world.state().set_weather(Some(insert));
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    first_cycle_publishes(&sentinel, CLUSTERS as u64).await?;
    let counts = counted(queue.drain().await?);
    let missing = before.iter().filter(|id| !counts.contains_key(*id)).count();
    assert_eq!(missing, 0);
    assert!(counts.values().all(|count| *count == 1));
    assert!(world.ids().len() > CLUSTERS + 2 * CLUSTERS / PAGE, "hardly a row came meanwhile");
    assert!(counts.len() > CLUSTERS + CLUSTERS / PAGE / 2, "no new row was seen");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_it_well_in_the_middle_of_a_cycle() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("sigterm", 20_000).await?;
    world.state().answer_only(195);
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = world.sentinel().await?;
    reaches(&sentinel, PUBLISHED, 1000).await?;
    assert!(sentinel.terminate().await?.success());
    let counts = counted(queue.drain().await?);
    assert!((1000..20_000).contains(&counts.len()), "{}", counts.len());
    assert!(counts.values().all(|count| *count == 1));
    Ok(())
}

/// The broker stops answering in the middle of a cycle. The Sentinel waits for confirms until the deadline, and not longer.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_waits_for_a_silent_broker_only_until_its_deadline() -> anyhow::Result<()> {
    const DEADLINE: Duration = Duration::from_secs(1);
    let Some(broker) = RabbitMq::start()? else { return Ok(()) };
    let world = World::new("deadline", 20_000).await?;
    let queue = Queue::bind(&broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let mut command = world.command()?;
    command.env("LOCKSTEP_SHUTDOWN_TIMEOUT", "1s");
    let sentinel = world.frozen_midway(&broker, command).await?;
    // Wait until the earlier confirms are counted.
    let (mut confirmed, mut same) = (0, 0);
    while same < 20 {
        let published = sentinel.metric(PUBLISHED, "").await?;
        same = if published == confirmed { same + 1 } else { 0 };
        confirmed = published;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let mut metrics = sentinel.metrics().await?;
    let asked = Instant::now();
    sentinel.ask_to_end()?;
    while let Ok(later) = sentinel.metrics().await {
        metrics = later;
    }
    let left = sentinel.logged("stopped without the answers to some requests").context("all was answered")?;
    let status = sentinel.ended().await?;
    let took = asked.elapsed();
    assert!(status.success(), "{status}");
    // Otherwise it waits half a minute for a confirm.
    assert!((DEADLINE..25 * DEADLINE).contains(&took), "{took:?}");
    assert!(left["left"].as_u64() >= Some(1), "{left}");
    assert_eq!(sum(&metrics, PUBLISHED, ""), confirmed);
    broker.thaw()?;
    let received = queue.drain().await?.len() as u64;
    assert!(received >= confirmed, "{received} received, {confirmed} counted");
    Ok(())
}

/// The metrics of a process end with it, so the Sentinel runs in this process.
#[tokio::test(flavor = "multi_thread")]
async fn at_the_end_nothing_new_begins_and_what_is_in_flight_counts() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("graceful", 20_000).await?;
    world.state().answer_only(195);
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let metrics = Metrics::new(prometheus::Registry::new())?;
    let clock = Clock::start(Timestamp::now);
    let mut manager = Manager::new(world.client.clone(), clock, 1, metrics.clone());
    let settings = Settings {
        namespace: world.namespace.clone(),
        config: "shard".to_owned(),
        logs_decisions: false,
        traces: true,
        seed: 1,
    };
    let final_event = Some(Event::LeadershipChanged { leading: false });
    // This is longer than a broker needs for all events in flight.
    let grace = Duration::from_mins(1);
    manager.add_with(Box::new(Sentinel::new(settings)), Options { final_event, grace, ..Options::default() });
    let published = || anyhow::Ok(sum(&String::from_utf8(metrics.encode()?)?, PUBLISHED, ""));
    let (trigger, shutdown) = shutdown::channel();
    let running = tokio::spawn(manager.run(shutdown));
    eventually("a thousand are confirmed", async || {
        ensure!(published()? >= 1000);
        Ok(())
    })
    .await?;
    trigger.pull();
    tokio::time::timeout(2 * grace, running).await.context("it goes on")???;

    // The number of pages that it reads before it learns of its shutdown depends on the speed of the host. Within the grace
    // period it could read all.
    let answered = world.state().answered()[&200];
    assert!(answered < 195, "{answered} pages");
    let received = queue.drain().await?.len() as u64;
    assert!(received < 20_000 && published()? == received, "{received}, {}", published()?);
    Ok(())
}

/// Posts one adapter report per event: the first adapter's, and after the backoff the second's. Reports in the documented API
/// do not name the adapter, so each report has a phase instead.
fn adapt(fleet: &mut HyperFleet, dialect: Dialect, id: &str, event: usize) -> u16 {
    let (path, report) = match dialect {
        Dialect::Documented => ("status", json!({"phase": if event == 0 { "Validated" } else { "Ready" }})),
        Dialect::Released => {
            let available = json!([{"type": "Available", "status": "True"}]);
            let adapter = ADAPTERS[event % ADAPTERS.len()];
            ("statuses", json!({"adapter": adapter, "observed_generation": 1, "conditions": available}))
        }
    };
    let request = Request::builder().method(Method::POST).uri(format!("{API}/clusters/{id}/{path}"));
    let request = request.body(Bytes::from(report.to_string())).expect("a request");
    fleet.handle(&request, Timestamp::now()).status().as_u16()
}

async fn events_bring_to_rest(dialect: Dialect) -> anyhow::Result<()> {
    const CLUSTERS: usize = 500;
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::with(dialect, &format!("closed-loop-{dialect:?}").to_lowercase(), CLUSTERS).await?;
    if dialect == Dialect::Documented {
        world.state().with_fleet(HyperFleet::forget_pages);
    }
    let queue = Queue::bind(broker, &world.namespace).await?;
    let mut spec = world.polling(&broker.url());
    (spec["backoffNotReady"], spec["backoffReady"]) = (json!("200ms"), json!("1h"));
    world.config.create(&spec).await?;
    let sentinel = world.sentinel().await?;

    let (mut arrivals, state) = (queue.arrivals().await?, world.state().clone());
    let adapters = tokio::spawn(async move {
        let mut events = BTreeMap::<String, usize>::new();
        while let Ok(Arrival { resource: id, .. }) = arrivals.next().await {
            let event = events.entry(id.clone()).or_default();
            assert_eq!(state.with_fleet(|fleet| adapt(fleet, dialect, &id, *event)), 201);
            *event += 1;
        }
    });
    eventually("all are ready", async || {
        let is_ready = |fleet: &mut HyperFleet| {
            fleet.resources(Kind::Cluster).filter(|cluster| cluster.is_ready()).count()
        };
        let ready = world.state().with_fleet(is_ready);
        ensure!(ready == CLUSTERS, "{ready}");
        Ok(())
    })
    .await?;
    // Skip the cycle that was running when the last cluster became ready.
    a_cycle_passes(&sentinel).await?;
    let quiet = sentinel.metrics().await?;
    a_cycle_passes(&sentinel).await?;
    let later = sentinel.metrics().await?;
    let published = sum(&later, PUBLISHED, "");
    assert!(published >= 1000, "{published}");
    assert_eq!(published, sum(&quiet, PUBLISHED, ""), "{quiet}\n{later}");
    let ready = |metrics: &str| sum(metrics, SKIPPED, "ready_state=\"ready\"");
    assert!(ready(&later) >= ready(&quiet) + 500, "{quiet}\n{later}");
    assert!(!adapters.is_finished());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn events_bring_resources_to_rest() -> anyhow::Result<()> {
    events_bring_to_rest(Dialect::Released).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_bring_resources_of_the_documented_api_to_rest() -> anyhow::Result<()> {
    events_bring_to_rest(Dialect::Documented).await
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

    broker.control(&["change_password", USER, NEW]).await?;
    broker.control(&["close_all_connections", "rotation"]).await?;
    world.config.until_condition("BrokerConnected", "False", "CredentialsRefused").await?;
    let url = format!("amqp://{USER}:{NEW}@{}/", broker.address());
    let patch = Patch::Merge(json!({"stringData": {"url": url}}));
    secrets.patch("rabbit", &PatchParams::default(), &patch).await?;
    world.config.until_condition("BrokerConnected", "True", "Connected").await?;
    let published = sentinel.metric(PUBLISHED, "").await?;
    reaches(&sentinel, PUBLISHED, published + 1).await?;

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
async fn a_long_cycle_is_alive_and_not_ready_before_its_list_is_read() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("long_cycle", PAGE).await?;
    // This is longer than a Sentinel may go without a step.
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
        // At least three minutes.
        ensure!(probes < 1800, "{ready:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Its events may still be in flight.
    assert_eq!(sentinel.metric(PENDING, "").await?, PAGE as u64);
    assert!(probes > 10, "{probes}");
    reaches(&sentinel, CYCLES, 1).await?;
    world.config.until_condition("BrokerConnected", "True", "Connected").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_needs_the_broker() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("not_ready", 0).await?;
    world.config.create(&world.polling("amqp://127.0.0.1:1/")).await?;
    let sentinel = world.sentinel().await?;
    world.config.until_condition("FleetReachable", "True", "FleetListed").await?;
    assert_eq!(sentinel.probe("/readyz").await?.0, 503);
    world.config.change(&json!({"broker": {"url": broker.url()}})).await?;
    eventually("it is ready", async || {
        let ready = sentinel.probe("/readyz").await?;
        ensure!(ready.0 == 200, "{ready:?}");
        Ok(())
    })
    .await
}
