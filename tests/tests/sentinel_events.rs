//! Tests what Sentinel processes publish through a real RabbitMQ to a consumer of another library: every byte, and its
//! publisher.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use lockstep_external::hyperfleet::{Dialect, Kind, Labels, Resource};
use lockstep_tests::queue::{Arrival, Queue};
use lockstep_tests::rabbitmq::RabbitMq;
use lockstep_tests::sentinel::Config;
use lockstep_tests::shard::{CYCLES, World, an_hour_ago, arrive, reaches};
use serde_json::{Value, json};

/// More resources than a page holds.
const RESOURCES: usize = 130;

/// Returns the body of the event about a row.
fn body(row: &Resource, id: &str, time: &str, traceparent: Option<&str>) -> String {
    let (kind, plural, singular) = match row.kind {
        Kind::Cluster => ("Cluster", "clusters", "cluster"),
        Kind::NodePool => ("NodePool", "nodepools", "nodepool"),
    };
    let (resource, generation) = (&row.id, row.generation);
    let (href, owners) = match &row.owner {
        None => (format!("/api/hyperfleet/v1/clusters/{resource}"), String::new()),
        Some(owner) => {
            let href = format!("/api/hyperfleet/v1/clusters/{owner}");
            let owners =
                format!(r#""owner_references":{{"href":"{href}","id":"{owner}","kind":"Cluster"}},"#);
            (format!("{href}/nodepools/{resource}"), owners)
        }
    };
    let traced = traceparent.map(|trace| format!(r#","traceparent":"{trace}""#)).unwrap_or_default();
    format!(
        r#"{{"specversion":"1.0","id":"{id}","type":"com.redhat.hyperfleet.{singular}.reconcile","source":"hyperfleet-sentinel","datacontenttype":"application/json","time":"{time}","data":{{"generation":{generation},"href":"{href}","id":"{resource}","kind":"{kind}",{owners}"reason":"backoff-expired","resourceId":"{resource}","resourceType":"{plural}"}}{traced}}}"#
    )
}

/// Returns whether a text consists of hexadecimal digits, this many of them between hyphens.
fn has_form(text: &str, lengths: &[usize]) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    text.split('-').map(str::len).eq(lengths.iter().copied()) && text.split('-').all(is_hex)
}

/// Compares an event with its row. Returns its time and the milliseconds of its id.
fn compare(arrival: &Arrival, row: &Resource, traces: bool) -> anyhow::Result<(i64, i64)> {
    let event: Value = serde_json::from_str(&arrival.body)?;
    let time = event["time"].as_str().context("no time")?;
    let traceparent = event["traceparent"].as_str();
    assert_eq!(arrival.body, body(row, &arrival.id, time, traceparent));
    assert_eq!(traceparent.is_some(), traces);
    if let Some(traceparent) = traceparent {
        assert!(has_form(traceparent, &[2, 32, 16, 2]), "{traceparent}");
        assert!(traceparent.starts_with("00-") && traceparent.ends_with("-01"), "{traceparent}");
    }
    let id = &arrival.id;
    assert!(has_form(id, &[8, 4, 4, 4, 12]), "{id}");
    assert!(&id[14..15] == "7" && "89ab".contains(&id[19..20]), "{id} is no UUID of version 7");

    let mut headers = BTreeMap::new();
    for name in ["specversion", "id", "type", "source", "time", "datacontenttype", "traceparent"] {
        if let Some(value) = event[name].as_str() {
            headers.insert(format!("cloudEvents:{name}"), value.to_owned());
        }
    }
    assert_eq!(arrival.headers(), headers);
    let (properties, time) = (&arrival.properties, time.parse::<Timestamp>()?);
    assert_eq!(properties.content_type().map(String::as_str), Some("application/cloudevents+json"));
    assert_eq!(properties.delivery_mode(), Some(2));
    assert_eq!(properties.message_id(), Some(id));
    assert_eq!(properties.message_type().map(String::as_str), event["type"].as_str());
    assert_eq!(properties.timestamp(), Some(u64::try_from(time.as_second())?));
    Ok((time.as_millisecond(), i64::from_str_radix(&id[..13].replace('-', ""), 16)?))
}

async fn every_byte_is_as_it_should_be(
    broker: &RabbitMq,
    dialect: Dialect,
    kind: Kind,
    traces: bool,
) -> anyhow::Result<()> {
    let test = format!("{dialect:?}-{}-{traces}", kind.plural()).to_lowercase();
    let world = World::with(dialect, &test, RESOURCES).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    let (clusters, created) = (world.ids(), an_hour_ago()?);
    let rows = world.state().with_fleet(|fleet| {
        for owner in clusters.iter().filter(|_| kind == Kind::NodePool) {
            fleet.create_node_pool(owner, "workers", Labels::new(), created);
        }
        let ids: Vec<String> = fleet.resources(kind).map(|row| row.id.clone()).collect();
        assert!(fleet.set_spec(&ids[7], json!({"size": 3}), created));
        fleet.resources(kind).cloned().collect::<Vec<_>>()
    });
    assert_eq!((rows.len(), rows[7].generation), (RESOURCES, 2));
    let mut spec = world.spec(&broker.url());
    spec["resourceType"] = json!(kind.plural());
    world.config.create(&spec).await?;

    let began = Timestamp::now().as_millisecond();
    let mut command = world.command()?;
    command.env("LOCKSTEP_TRACEPARENT", traces.to_string());
    let sentinel = world.start(command).await?;
    let (mut arrivals, mut events) = (queue.arrivals().await?, BTreeMap::new());
    for _ in &rows {
        let arrival = arrivals.next().await?;
        if let Some(other) = events.insert(arrival.resource.clone(), arrival) {
            panic!("{other:?} comes twice");
        }
    }
    let ended = Timestamp::now().as_millisecond();
    let mut ids = Vec::new();
    for row in &rows {
        let arrival = events.remove(&row.id).with_context(|| format!("{} did not come", row.id))?;
        let (time, of_id) = compare(&arrival, row, traces)?;
        assert!(began <= time && time <= of_id && of_id <= ended, "{began} {time} {of_id} {ended}");
        ids.push(arrival.id);
    }
    // The ids are in the order in which the resources were listed.
    assert!(ids.is_sorted_by(|one, other| one < other), "{ids:?}");
    assert!(sentinel.terminate().await?.success());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_arrives_of_both_types_in_both_dialects() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let cases = [
        (Dialect::Documented, Kind::Cluster, false),
        (Dialect::Documented, Kind::NodePool, true),
        (Dialect::Released, Kind::Cluster, true),
        (Dialect::Released, Kind::NodePool, false),
    ];
    for (dialect, kind, traces) in cases {
        let case = every_byte_is_as_it_should_be(broker, dialect, kind, traces).await;
        case.with_context(|| format!("{dialect:?} {kind:?}"))?;
    }
    Ok(())
}

/// The exchange exists before the Sentinel, as the adapter's chart declares it. The wrong type is reported with the field to
/// set, and once that is set all events arrive.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_of_adapters_is_published_to() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("topic-exchange", RESOURCES).await?;
    let queue = Queue::bind_to(broker, &world.namespace, "topic").await?;
    let mut spec = world.spec(&broker.url());
    world.config.create(&spec).await?;
    let _sentinel = world.sentinel().await?;
    let refused = world.config.until_condition("BrokerConnected", "False", "ConfigurationRefused").await?;
    assert!(refused.message.contains("set spec.broker.exchangeType to its type"), "{refused:?}");
    spec["broker"]["exchangeType"] = json!("topic");
    world.config.change(&spec).await?;
    let arrived = arrive(&mut queue.arrivals().await?, &world.ids()).await?;
    assert_eq!(arrived.len(), RESOURCES);
    world.config.until_condition("Publishing", "True", "AllConfirmed").await?;
    Ok(())
}

/// The regions of clusters in turn; the last cluster has none.
const REGIONS: [Option<&str>; 4] = [Some("us-east"), Some("us-west"), Some("eu-west"), None];

/// Checks two Sentinels that share a fleet: one selects two of the regions, the other all clusters in neither of them.
async fn each_publishes_its_own(broker: &RabbitMq, dialect: Dialect, key: &str) -> anyhow::Result<()> {
    let world = World::with(dialect, &format!("shards-{dialect:?}-{key}").to_lowercase(), RESOURCES).await?;
    let (ids, now) = (world.ids(), Timestamp::now());
    world.state().with_fleet(|fleet| {
        for (id, region) in ids.iter().zip(REGIONS.iter().cycle()) {
            let labels = region.map(|region| (key.to_owned(), region.to_owned()));
            assert!(fleet.set_labels(id, Arc::new(labels.into_iter().collect::<Labels>()), now));
        }
    });
    let shard = async |operator: &str| {
        let name = operator.to_lowercase();
        let exchange = format!("{}-{name}", world.namespace);
        let queue = Queue::bind(broker, &exchange).await?;
        let mut spec = world.spec(&broker.url());
        spec["broker"]["topic"] = json!(exchange);
        let term = json!({"key": key, "operator": operator, "values": ["us-east", "us-west"]});
        spec["shardSelector"] = json!({"matchExpressions": [term]});
        Config::new(&world.client, &world.namespace, &name).create(&spec).await?;
        anyhow::Ok((world.start(world.command_of(&name)?).await?, queue))
    };
    let shards = [(shard("In").await?, 0), (shard("NotIn").await?, 2)];
    for ((sentinel, queue), first) in shards {
        reaches(&sentinel, CYCLES, 1).await?;
        let mut published: Vec<String> =
            queue.drain().await?.into_iter().map(|event| event.resource).collect();
        published.sort();
        let own = ids.iter().enumerate().filter(|(number, _)| number % 4 / 2 * 2 == first);
        assert_eq!(published, own.map(|(_, id)| id.clone()).collect::<Vec<_>>(), "{dialect:?} {key}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_with_disjoint_selectors_publish_each_resource_once() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    for dialect in [Dialect::Documented, Dialect::Released] {
        // The API's search can't query a label with a hyphen.
        for key in ["region", "cluster-region"] {
            each_publishes_its_own(broker, dialect, key).await?;
        }
    }
    Ok(())
}
