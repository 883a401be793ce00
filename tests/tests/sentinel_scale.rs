//! What the size of a shard costs a Sentinel, as the program that is deployed: memory that does not grow, and a first event
//! that waits for no second page.

use std::collections::BTreeMap;

use lockstep_sim::hyperfleet::{Dialect, HyperFleet};
use lockstep_tests::queue::Queue;
use lockstep_tests::rabbitmq::RabbitMq;
use lockstep_tests::shard::{PAGE, World, an_hour_ago, arrive, first_cycle_publishes};
use serde_json::json;

/// What the specification requests for a Sentinel, in bytes.
const MEMORY: u64 = 64 << 20;

/// The most that a list of 20,000 resources in one answer may take, in bytes.
const LIST_MEMORY: u64 = 48 << 20;

/// The pages of the program's file that the optimised program has in memory (22 MiB), and a little more. The code of an
/// unoptimised one is larger by half; that is no memory that the deployed program takes.
const CODE: u64 = 24 << 20;

/// The most memory, in bytes, that a cycle takes in which so many clusters are due.
async fn peak(broker: &RabbitMq, clusters: u32) -> anyhow::Result<u64> {
    let world = World::new(&format!("memory-{clusters}"), usize::try_from(clusters)?).await?;
    peak_of(broker, &world, clusters).await
}

async fn peak_of(broker: &RabbitMq, world: &World, clusters: u32) -> anyhow::Result<u64> {
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let mut command = world.command()?;
    command.env("LOCKSTEP_LOG_LEVEL", "info");
    let sentinel = world.start(command).await?;
    first_cycle_publishes(&sentinel, clusters.into()).await?;
    assert_eq!(queue.len().await?, usize::try_from(clusters)?);
    let beyond = sentinel.memory("RssFile")?.saturating_sub(CODE);
    Ok(sentinel.memory("VmHWM")? - beyond)
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_does_not_grow_with_the_shard() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (few, many) = (peak(broker, 10_000).await?, peak(broker, 100_000).await?);
    assert!(many < MEMORY, "{many} bytes");
    assert!(many <= few / 5 * 6, "{few} bytes with 10,000 resources, {many} with 100,000");
    Ok(())
}

/// The specification tells of no pages: the API that it documents may give the whole list in one answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_in_one_answer_is_not_held_twice() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::with(Dialect::Documented, "one-answer", 20_000).await?;
    world.state().with_fleet(HyperFleet::forget_pages);
    let peak = peak_of(broker, &world, 20_000).await?;
    assert_eq!(world.state().answered(), BTreeMap::from([(200, 1)]));
    assert!(peak < LIST_MEMORY, "{peak} bytes");
    Ok(())
}

/// A page of such resources has 30 MB.
#[tokio::test(flavor = "multi_thread")]
async fn large_specifications_get_their_events_and_cost_no_memory() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let peak_with = async |specification: usize| {
        let world = World::new(&format!("specification-{specification}"), 300).await?;
        let spec = json!({ "manifest": "x".repeat(specification) });
        let (ids, created) = (world.ids(), an_hour_ago()?);
        world.state().with_fleet(|fleet| ids.iter().all(|id| fleet.set_spec(id, spec.clone(), created)));
        peak_of(broker, &world, 300).await
    };
    let (small, large) = (peak_with(10).await?, peak_with(300_000).await?);
    assert!(large <= small + (4 << 20), "{small} bytes with small specifications, {large} with large ones");
    Ok(())
}

/// All pages but the first are held back until its events have arrived.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_events_wait_for_no_second_page() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let world = World::new("first-page", 10 * PAGE).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    let (ids, mut arrivals) = (world.ids(), queue.arrivals().await?);
    world.state().answer_only(1);
    world.config.create(&world.spec(&broker.url())).await?;
    let _sentinel = world.sentinel().await?;
    let first = arrive(&mut arrivals, &ids[..PAGE]).await?;
    assert_eq!(first.len(), PAGE);
    assert_eq!(world.state().answered(), BTreeMap::from([(200, 1)]));
    world.state().answer_only(u64::MAX);
    arrive(&mut arrivals, &ids[PAGE..]).await?;
    Ok(())
}
