//! Tests a deployed Sentinel with large shards: its memory does not grow, and its first event does not wait for the second
//! page.

use std::collections::BTreeMap;

use lockstep_release::image::ENVIRONMENT;
use lockstep_tests::queue::Queue;
use lockstep_tests::rabbitmq::RabbitMq;
use lockstep_tests::shard::{PAGE, World, arrive, first_cycle_publishes};

/// The memory request of the specification for a Sentinel, in bytes.
const MEMORY: u64 = 64 << 20;

/// The resident pages of the optimised program's file (22 MiB), with a margin. The code of an unoptimised program is larger by
/// half; the deployed program does not use that memory.
const CODE: u64 = 24 << 20;

/// Returns the peak memory, in bytes, of a cycle with this many due clusters, in the environment that the image sets: the allocator
/// keeps less memory with it.
async fn peak(broker: &RabbitMq, clusters: u32) -> anyhow::Result<u64> {
    let world = World::new(&format!("memory-{clusters}"), usize::try_from(clusters)?).await?;
    let queue = Queue::bind(broker, &world.namespace).await?;
    world.config.create(&world.spec(&broker.url())).await?;
    let mut command = world.command()?;
    command.env("LOCKSTEP_LOG_LEVEL", "info").envs(ENVIRONMENT);
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

/// All pages except the first are delayed until its events have arrived.
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
