//! Tests the Sentinel process between a fleet that is served over HTTP and Google's fake Pub/Sub. A consumer in another
//! language receives the messages.

use std::collections::{BTreeMap, BTreeSet};

use lockstep_tests::program::{Program, sum};
use lockstep_tests::pubsub::{Message, PubSub};
use lockstep_tests::shard::{BROKER_ERRORS, CYCLES, PUBLISHED, REPUBLISHED, World, reaches};
use serde_json::{Value, json};

fn topic(world: &World) -> String {
    format!("projects/fleet/topics/{}", world.namespace)
}

async fn sentinel(world: &World, service: &PubSub, traces: bool) -> anyhow::Result<Program> {
    let mut spec = world.spec("");
    spec["broker"] = json!({"type": "gcp-pubsub", "topic": world.namespace, "projectID": "fleet"});
    world.config.create(&spec).await?;
    let mut command = world.command()?;
    command.env("PUBSUB_EMULATOR_HOST", &service.address);
    command.env("LOCKSTEP_TRACEPARENT", traces.to_string());
    world.start(command).await
}

/// Returns the resource of a message.
fn resource(message: &Message) -> anyhow::Result<String> {
    let event: Value = serde_json::from_str(&message.data)?;
    Ok(event["data"]["resourceId"].as_str().unwrap_or_default().to_owned())
}

/// Returns the expected attributes of a message, from the event in its body.
fn attributes(event: &Value) -> BTreeMap<String, String> {
    let mut attributes =
        BTreeMap::from([("content-type".to_owned(), "application/cloudevents+json".to_owned())]);
    for name in ["specversion", "id", "type", "source", "time", "datacontenttype", "traceparent"] {
        if let Some(value) = event[name].as_str() {
            attributes.insert(format!("ce-{name}"), value.to_owned());
        }
    }
    attributes
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_whole_and_once() -> anyhow::Result<()> {
    const CLUSTERS: usize = 1000;
    for traces in [false, true] {
        let world = World::new(&format!("pubsub_whole_{traces}"), CLUSTERS).await?;
        let mut service = PubSub::start().await?;
        service.create(&topic(&world)).await?;
        let sentinel = sentinel(&world, &service, traces).await?;
        let (mut arrived, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..CLUSTERS {
            let message = service.next().await?;
            assert_eq!(message.topic, topic(&world));
            let mut event: Value = serde_json::from_str(&message.data)?;
            assert_eq!(message.attributes, attributes(&event));
            assert_eq!(event["traceparent"].is_string(), traces);
            assert!(arrived.insert(resource(&message)?), "{event} comes twice");
            assert!(ids.insert(event["id"].to_string()), "{event}");
            if arrived.len() == CLUSTERS && !traces {
                for unlike in ["/id", "/time", "/data/resourceId", "/data/id", "/data/href"] {
                    if let Some(value) = event.pointer_mut(unlike) {
                        *value = json!("…");
                    }
                }
                insta::assert_json_snapshot!("event", event);
            }
        }
        assert_eq!(arrived.into_iter().collect::<Vec<_>>(), world.ids());
        reaches(&sentinel, CYCLES, 1).await?;
        let metrics = sentinel.metrics().await?;
        assert_eq!(sum(&metrics, PUBLISHED, ""), CLUSTERS as u64, "{metrics}");
        world.config.until_condition("Publishing", "True", "AllConfirmed").await?;
        assert!(sentinel.terminate().await?.success());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_reported_until_it_exists() -> anyhow::Result<()> {
    let world = World::new("pubsub_missing", 10).await?;
    let mut service = PubSub::start().await?;
    let sentinel = sentinel(&world, &service, false).await?;
    let condition = world.config.until_condition("BrokerConnected", "False", "ConfigurationRefused").await?;
    assert!(
        condition.message.contains("create the topic") && condition.message.contains(&topic(&world)),
        "{condition:?}"
    );
    service.create(&topic(&world)).await?;
    for _ in 0..10 {
        service.next().await?;
    }
    world.config.until_condition("BrokerConnected", "True", "Connected").await?;
    assert!(sentinel.metric(BROKER_ERRORS, "broker_type=\"gcp-pubsub\"").await? > 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_goes_away_loses_no_event() -> anyhow::Result<()> {
    const CLUSTERS: usize = 3000;
    let world = World::new("pubsub_loss", CLUSTERS).await?;
    let mut service = PubSub::start().await?;
    service.create(&topic(&world)).await?;
    // The service becomes unavailable when half of the pages are read.
    world.state().answer_only(15);
    let sentinel = sentinel(&world, &service, false).await?;
    reaches(&sentinel, PUBLISHED, 500).await?;
    service.leave().await?;
    world.state().answer_only(u64::MAX);
    world.config.until_condition("BrokerConnected", "False", "ConnectionFailed").await?;
    service.come_back().await?;
    world.config.until_condition("BrokerConnected", "True", "Connected").await?;

    let (mut arrived, mut received) = (BTreeSet::new(), 0);
    while arrived.len() < CLUSTERS {
        arrived.insert(resource(&service.next().await?)?);
        received += 1;
    }
    assert_eq!(arrived.into_iter().collect::<Vec<_>>(), world.ids());
    reaches(&sentinel, CYCLES, 1).await?;
    let metrics = sentinel.metrics().await?;
    let republished = sum(&metrics, REPUBLISHED, "");
    assert!(received - CLUSTERS as u64 <= republished, "{received} received, {republished} republished");
    assert_eq!(sum(&metrics, PUBLISHED, ""), CLUSTERS as u64, "{metrics}");
    assert!(sentinel.terminate().await?.success());
    Ok(())
}
