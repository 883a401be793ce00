//! Tests the spans of a Sentinel process: what a collector receives, and the effects of a failing collector.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use lockstep_tests::collector::{Collector, attributes, traceparent};
use lockstep_tests::ground::eventually;
use lockstep_tests::program::{Program, sum};
use lockstep_tests::queue::Queue;
use lockstep_tests::rabbitmq::{ENCODED_PASSWORD, PASSWORD, RabbitMq};
use lockstep_tests::shard::{CYCLES, PUBLISHED, REPUBLISHED, World, first_cycle_publishes, reaches};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::Value;
use tokio::task::block_in_place;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// How long spans wait for a full batch, in milliseconds: longer than a test.
const NEVER: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "3600000");

fn nanos(time: SystemTime) -> anyhow::Result<u64> {
    Ok(u64::try_from(time.duration_since(UNIX_EPOCH)?.as_nanos())?)
}

/// Returns the `traceparent` of each event.
fn named(events: &[Value]) -> anyhow::Result<BTreeSet<String>> {
    let text = |event: &Value| event["traceparent"].as_str().map(str::to_owned);
    events.iter().map(|event| text(event).with_context(|| event.to_string())).collect()
}

fn is_error(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

/// Returns the spans that a collector accepted: of polls, and of publications.
fn sorted(collector: &Collector) -> (Vec<Span>, Vec<Span>) {
    collector.spans().into_iter().partition(|span| span.name == "sentinel.poll")
}

/// Returns the command of the Sentinel with these environment variables.
fn traced(world: &World, variables: &[(&str, &str)]) -> anyhow::Result<Command> {
    let mut command = world.command()?;
    command.envs(variables.iter().copied());
    Ok(command)
}

/// Starts the Sentinel with these environment variables.
async fn started(world: &World, variables: &[(&str, &str)]) -> anyhow::Result<Program> {
    world.start(traced(world, variables)?).await
}

/// Returns the events in a queue, and removes them.
async fn drained(queue: &Queue) -> anyhow::Result<Vec<Value>> {
    let arrivals = queue.drain().await?;
    arrivals.iter().map(|arrival| Ok(serde_json::from_str(&arrival.body)?)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_names_the_span_of_its_publication_within_its_poll() -> anyhow::Result<()> {
    const CLUSTERS: usize = 300;
    const TOKEN: &str = "hunter7";
    const HEADER: &str = "hunter9";
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (world, collector) = (World::new("spans", CLUSTERS).await?, Collector::start().await?);
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let token = tempfile::NamedTempFile::new()?;
    std::fs::write(token.path(), TOKEN)?;
    let start = nanos(SystemTime::now())?;
    let header = format!("x-team={HEADER}");
    let sentinel = started(
        &world,
        &[
            (ENDPOINT, &collector.url()),
            ("OTEL_EXPORTER_OTLP_HEADERS", &header),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
            ("HYPERFLEET_API_TOKEN_FILE", token.path().to_str().context("a path")?),
            NEVER,
        ],
    )
    .await?;
    reaches(&sentinel, CYCLES, 1).await?;
    // There are fewer spans than a batch holds, so they are exported at the end.
    assert_eq!(collector.spans(), []);
    let log = sentinel.log();
    assert!(sentinel.terminate().await?.success());

    let (events, (polls, spans)) = (drained(&queue).await?, sorted(&collector));
    assert_eq!((events.len(), spans.len()), (CLUSTERS, CLUSTERS));
    let [poll] = polls.as_slice() else { panic!("{polls:?}") };
    assert!(
        poll.parent_span_id.is_empty() && poll.kind() == SpanKind::Internal && !is_error(poll),
        "{poll:?}"
    );
    let shard = [("hyperfleet.resource_type", "clusters"), ("hyperfleet.shard", "")];
    let shard = shard.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(attributes(&poll.attributes), shard.into());
    assert_eq!(named(&events)?, spans.iter().map(traceparent).collect());
    let events = events.iter().map(|event| (event["traceparent"].as_str().unwrap_or_default(), event));
    let events = events.collect::<BTreeMap<_, _>>();
    for span in &spans {
        let event = events[traceparent(span).as_str()];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let expected = [
            ("messaging.system", "rabbitmq".to_owned()),
            ("messaging.operation.name", "publish".to_owned()),
            ("messaging.operation.type", "send".to_owned()),
            ("messaging.destination.name", world.namespace.clone()),
            ("messaging.rabbitmq.destination.routing_key", world.namespace.clone()),
            ("messaging.message.id", text(&event["id"])),
            ("cloudevents.event_type", text(&event["type"])),
            ("hyperfleet.resource_id", text(&event["data"]["id"])),
            ("hyperfleet.resource_kind", "Cluster".to_owned()),
        ];
        assert_eq!(attributes(&span.attributes), expected.map(|(key, value)| (key.to_owned(), value)).into());
        assert_eq!((span.name.as_str(), span.kind()), ("publish spans", SpanKind::Producer));
        assert!(
            span.parent_span_id == poll.span_id && span.trace_id == poll.trace_id && !is_error(span),
            "{span:?}"
        );
    }
    for span in [poll].into_iter().chain(&spans) {
        let (began, ended) = (span.start_time_unix_nano, span.end_time_unix_nano);
        assert!(start < began && began < ended && ended < nanos(SystemTime::now())?, "{span:?}");
    }
    for resource in collector.resources() {
        let is = |key: &str| resource.get(key).map(String::as_str);
        assert_eq!(is("service.name"), Some("hyperfleet-sentinel"));
        assert_eq!(is("service.instance.id"), Some("spans/shard"));
        assert_eq!(is("deployment.environment.name"), Some("test"));
    }
    let headers = collector.header("x-team");
    assert!(!headers.is_empty() && headers.iter().all(|value| value == HEADER), "{headers:?}");
    for secret in [PASSWORD, ENCODED_PASSWORD, TOKEN, HEADER] {
        assert!(!collector.holds(secret) && !log.contains(secret), "{secret}");
    }
    Ok(())
}

/// The broker rejects events for a full queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_is_an_error_each_time_that_it_is_sent() -> anyhow::Result<()> {
    const CLUSTERS: usize = 20;
    const ATTEMPTS: usize = 5;
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (world, collector) = (World::new("refused_spans", CLUSTERS).await?, Collector::start().await?);
    let limit = r#"{"max-length":8,"overflow":"reject-publish"}"#;
    broker.control(&["set_policy", "limit", "^refused-spans-queue$", limit]).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let sentinel = started(&world, &[(ENDPOINT, &collector.url()), ("OTEL_SERVICE_NAME", "east")]).await?;
    world.config.until_condition("Publishing", "False", "EventsGivenUp").await?;
    assert!(sentinel.terminate().await?.success());

    let received = named(&drained(&queue).await?)?;
    assert!((1..CLUSTERS).contains(&received.len()), "{received:?}");
    let (polls, publications) = sorted(&collector);
    let [poll] = polls.as_slice() else { panic!("{polls:?}") };
    let why = &poll.status.as_ref().context("a status")?.message;
    assert!(is_error(poll) && why.contains("events of the last cycle were given up"), "{poll:?}");
    let mut events = BTreeMap::<_, Vec<_>>::new();
    for span in publications {
        assert_eq!((&span.trace_id, &span.parent_span_id), (&poll.trace_id, &poll.span_id));
        events.entry(attributes(&span.attributes)["messaging.message.id"].clone()).or_default().push(span);
    }
    assert_eq!(events.len(), CLUSTERS);
    for spans in events.values() {
        if let [span] = spans.as_slice() {
            assert!(received.contains(&traceparent(span)) && !is_error(span), "{span:?}");
            continue;
        }
        let ids = spans.iter().map(traceparent).collect::<BTreeSet<_>>();
        assert_eq!(ids.len(), ATTEMPTS);
        assert!(ids.is_disjoint(&received));
        for span in spans {
            let message = &span.status.as_ref().context("a status")?.message;
            assert!(is_error(span) && message.ends_with("the broker refused it (nack)"), "{span:?}");
            assert_eq!(attributes(&span.attributes)["error.type"], "unavailable");
        }
    }
    assert!(collector.resources().iter().all(|resource| resource["service.name"] == "east"));
    assert!(!collector.holds(PASSWORD) && !collector.holds(ENCODED_PASSWORD));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_connection_left_unconfirmed_is_an_error() -> anyhow::Result<()> {
    const CLUSTERS: usize = 10_000;
    let Some(mut broker) = RabbitMq::start()? else { return Ok(()) };
    let (world, collector) = (World::new("lost_spans", CLUSTERS).await?, Collector::start().await?);
    drop(Queue::bind(&broker, &world.namespace).await?);
    world.config.create(&world.spec(&broker.url())).await?;
    let roomy = ("OTEL_BSP_MAX_QUEUE_SIZE", "100000");
    let patient = ("LOCKSTEP_SHUTDOWN_TIMEOUT", "1m");
    let command = traced(&world, &[(ENDPOINT, &collector.url()), roomy, patient])?;
    let sentinel = world.frozen_midway(&broker, command).await?;
    block_in_place(|| broker.kill())?;
    block_in_place(|| broker.resume())?;
    first_cycle_publishes(&sentinel, CLUSTERS as u64).await?;
    let republished = sum(&sentinel.metrics().await?, REPUBLISHED, "");
    assert!(sentinel.terminate().await?.success());

    let received = named(&drained(&Queue::bind(&broker, &world.namespace).await?).await?)?;
    let (lost, well): (Vec<_>, Vec<_>) = sorted(&collector).1.into_iter().partition(is_error);
    assert_eq!(well.len(), CLUSTERS);
    let missing = well.iter().filter(|span| !received.contains(&traceparent(span))).count();
    assert_eq!(missing, 0, "{} received, {republished} republished", received.len());
    assert!(republished > 0 && lost.len() as u64 == republished, "{} of {republished}", lost.len());
    assert!(lost.iter().all(|span| attributes(&span.attributes)["error.type"] == "unknown"));
    // An event that arrived although its confirm was lost has the `traceparent` of the span with that error.
    let spans = well.iter().chain(&lost).map(traceparent).collect::<BTreeSet<_>>();
    assert_eq!(spans.len(), well.len() + lost.len());
    assert!(received.is_subset(&spans));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_silent_or_away_changes_nothing_for_events() -> anyhow::Result<()> {
    const CLUSTERS: usize = 3000;
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    // The listener accepts connections, but never answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    for (name, url) in [
        ("silent_spans", format!("http://{}", silent.local_addr()?)),
        ("no_spans", "http://127.0.0.1:1".to_owned()),
    ] {
        let world = World::new(name, CLUSTERS).await?;
        let queue = Queue::bind(broker, &world.namespace).await?;
        world.config.create(&world.spec(&broker.url())).await?;
        let timeout = ("OTEL_EXPORTER_OTLP_TIMEOUT", "300");
        // One request publishes more events than this queue holds spans.
        let narrow = ("OTEL_BSP_MAX_QUEUE_SIZE", "64");
        let sentinel = started(&world, &[(ENDPOINT, &url), timeout, narrow]).await?;
        world.config.until_condition("Publishing", "True", "AllConfirmed").await?;
        assert_eq!(sentinel.metric(PUBLISHED, "").await?, CLUSTERS as u64);
        let count = |words: &str| sentinel.log().lines().filter(|line| line.contains(words)).count();
        eventually("the loss is reported", async || {
            let lines = (count("spans are lost until the collector at "), count("due to queue full"));
            ensure!(lines == (1, 1), "{lines:?}");
            Ok(())
        })
        .await?;
        assert!(sentinel.terminate().await?.success());

        let events = drained(&queue).await?;
        assert_eq!((events.len(), named(&events)?.len()), (CLUSTERS, CLUSTERS));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovered_collector_is_logged_with_the_lost_spans() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (world, collector) = (World::new("regained_spans", 10).await?, Collector::start().await?);
    let _queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.polling(&broker.url())).await?;
    collector.refuse(true);
    let often = ("OTEL_BSP_SCHEDULE_DELAY", "50");
    let sentinel = started(&world, &[(ENDPOINT, &collector.url()), often]).await?;
    let logged = async |words: &str| {
        eventually(words, async || sentinel.logged(words).with_context(|| sentinel.log())).await
    };
    let line = logged("spans are lost until the collector at ").await?;
    let message = line["message"].as_str().context("a message")?;
    assert!(message.contains("503") && message.contains(&collector.url()), "{message}");
    collector.refuse(false);
    logged(" accepts spans again; ").await?;
    assert!(!collector.spans().is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_collector_events_have_traces_only_where_they_are_asked_for() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    for (name, value, traced) in [("untraced", "false", false), ("traced", "true", true)] {
        let world = World::new(name, 10).await?;
        let queue = Queue::bind(broker, &world.namespace).await?;
        world.config.create(&world.spec(&broker.url())).await?;
        let sentinel = started(&world, &[("LOCKSTEP_TRACEPARENT", value)]).await?;
        reaches(&sentinel, CYCLES, 1).await?;
        let events = drained(&queue).await?;
        assert_eq!(events.len(), 10);
        assert!(events.iter().all(|event| event["traceparent"].is_string() == traced), "{events:?}");
    }
    Ok(())
}
