//! Tests a broker that crashes, restarts or stops answering.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use lockstep_engine::action::{ErrorKind, Failure, Success};
use lockstep_engine::broker::{Broker, CloudEvent};
use lockstep_runtime::publish::Publisher;
use lockstep_tests::ground::eventually;
use lockstep_tests::rabbitmq::RabbitMq;

use crate::{Consumer, event, published, to};

/// The number of events in one call.
const BATCH: usize = 100;

fn batch(first: usize) -> Vec<CloudEvent> {
    (first..first + BATCH).map(event).collect()
}

/// Publishes batches until one is not completely confirmed. Returns the result of each event.
async fn publish_until_cut(
    publisher: Publisher,
    target: Arc<Broker>,
    next: Arc<AtomicUsize>,
    cut: Arc<AtomicBool>,
    confirmed: Arc<AtomicUsize>,
) -> Vec<(String, Result<(), Failure>)> {
    let mut all = Vec::new();
    loop {
        let events = batch(next.fetch_add(BATCH, Ordering::Relaxed));
        let results = match publisher.publish(&target, &events).await {
            Ok(Success::Published(results)) => results,
            Err(failure) if failure.class == ErrorKind::Unavailable && cut.load(Ordering::SeqCst) => {
                return all;
            }
            outcome => panic!("{outcome:?}"),
        };
        let well = results.iter().filter(|result| result.is_ok()).count();
        assert!(well == BATCH || cut.load(Ordering::SeqCst), "{results:?}");
        confirmed.fetch_add(well, Ordering::SeqCst);
        all.extend(events.into_iter().map(|event| event.id).zip(results));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_confirmed_outlives_a_crash() -> anyhow::Result<()> {
    let Some(mut broker) = RabbitMq::start()? else { return Ok(()) };
    let (publisher, target) = (Publisher::default(), to(&broker.url(), "crash"));
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    drop(Consumer::of(&broker, "crash").await?);
    broker.remember().await?;

    let (next, confirmed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let cut = Arc::<AtomicBool>::default();
    let callers = (0..32).map(|_| {
        let (publisher, target) = (publisher.clone(), Arc::clone(&target));
        let shared = (Arc::clone(&next), Arc::clone(&cut), Arc::clone(&confirmed));
        tokio::spawn(publish_until_cut(publisher, target, shared.0, shared.1, shared.2))
    });
    let callers = callers.collect::<Vec<_>>();
    eventually("thousands are confirmed", async || {
        let count = confirmed.load(Ordering::SeqCst);
        anyhow::ensure!(count >= 3_000, "{count}");
        Ok(())
    })
    .await?;
    cut.store(true, Ordering::SeqCst);
    tokio::task::block_in_place(|| broker.kill())?;
    let mut results = Vec::new();
    for caller in callers {
        results.extend(caller.await?);
    }

    tokio::task::block_in_place(|| broker.resume())?;
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    let consumer = Consumer::of(&broker, "crash").await?;
    let received = consumer.messages().await?.into_iter().filter_map(|message| {
        message.basic_properties.and_then(|properties| properties.message_id().cloned())
    });
    let received = received.collect::<BTreeSet<_>>();
    let mut unknown = 0;
    for (id, result) in results {
        match result {
            Ok(()) => assert!(received.contains(&id), "{id} was confirmed, and is lost"),
            Err(failure) => {
                assert_eq!(failure.class, ErrorKind::Unknown, "{failure}");
                unknown += 1;
            }
        }
    }
    assert!(unknown > 0, "the crash met nothing in flight");
    assert!(published(publisher.publish(&target, &batch(0)).await).iter().all(Result::is_ok));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_connection_and_a_restart_ends_it() -> anyhow::Result<()> {
    let Some(mut broker) = RabbitMq::start()? else { return Ok(()) };
    let publisher = Publisher::default();
    let (former, target) = (to(&broker.url(), "former"), to(&broker.url(), "present"));
    for target in [&former, &former, &target] {
        assert_eq!(publisher.connect(target).await, Ok(Success::Done));
    }
    let unpublished = publisher.publish(&former, &[event(1)]).await.expect_err("another broker's connection");
    assert_eq!(unpublished.class, ErrorKind::Unavailable);
    assert_eq!(published(publisher.clone().publish(&target, &[event(1)]).await), [Ok(())]);
    eventually("the former connection ends", async || {
        let connections = broker.connections()?;
        anyhow::ensure!(connections == 1, "{connections}");
        Ok(())
    })
    .await?;

    tokio::task::block_in_place(|| broker.stop())?;
    eventually("the end is noticed", async || match publisher.publish(&target, &[event(2)]).await {
        Err(failure) if failure.class == ErrorKind::Unavailable => Ok(()),
        outcome => anyhow::bail!("{outcome:?}"),
    })
    .await?;
    assert_eq!(publisher.connect(&target).await.expect_err("no broker").class, ErrorKind::Unavailable);
    tokio::task::block_in_place(|| broker.resume())?;
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    assert_eq!(published(publisher.publish(&target, &[event(3)]).await), [Ok(())]);
    Ok(())
}

#[tokio::test]
async fn a_silent_broker_is_left() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::start()? else { return Ok(()) };
    let (publisher, target) = (Publisher::default(), to(&broker.url(), "silent"));
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    assert_eq!(published(publisher.publish(&target, &[event(1)]).await), [Ok(())]);

    broker.freeze()?;
    // Nothing else is running, so the wait ends at once.
    tokio::time::pause();
    for result in published(publisher.publish(&target, &batch(0)).await) {
        let failure = result.expect_err("a frozen broker confirms nothing");
        assert_eq!(failure.class, ErrorKind::Unknown, "{failure}");
        assert!(failure.message.ends_with("not confirmed within 30 s"), "{failure}");
    }
    tokio::time::resume();
    eventually("the connection is given up", async || match publisher.publish(&target, &[event(2)]).await {
        Err(failure) if failure.class == ErrorKind::Unavailable => Ok(()),
        outcome => anyhow::bail!("{outcome:?}"),
    })
    .await?;

    broker.thaw()?;
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    assert_eq!(published(publisher.publish(&target, &[event(3)]).await), [Ok(())]);
    Ok(())
}

/// The broker accepts no messages until it has memory again. The connection is kept, and `connect` returns the reason.
#[tokio::test]
async fn a_broker_without_memory_is_waited_for() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::start()? else { return Ok(()) };
    let (publisher, target) = (Publisher::default(), to(&broker.url(), "short"));
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    assert_eq!(published(publisher.publish(&target, &[event(1)]).await), [Ok(())]);
    let connections = broker.connections()?;

    broker.control(&["set_vm_memory_high_watermark", "0"]).await?;
    // The broker reports the alarm to connections that publish. If it confirmed the events before it checks its memory, it
    // would receive no more events and report nothing.
    eventually("the broker raises its alarm", async || {
        let alarms = broker.control(&["eval", "rabbit_alarm:get_alarms()."]).await?;
        anyhow::ensure!(alarms.contains("memory"), "{alarms}");
        Ok(())
    })
    .await?;
    let sent = batch(0);
    let sending = publisher.publish(&target, &sent);
    let noticing =
        eventually("the broker's alarm is noticed", async || match publisher.connect(&target).await {
            Err(failure) if failure.message.contains("short of memory or disk space") => Ok(()),
            outcome => anyhow::bail!("{outcome:?}"),
        });
    let (outcome, noticed) = tokio::join!(sending, async {
        let noticed = noticing.await;
        // Nothing else is running, so the wait ends at once.
        tokio::time::pause();
        noticed
    });
    tokio::time::resume();
    noticed?;
    for result in published(outcome) {
        let failure = result.expect_err("nothing is confirmed");
        assert_eq!(failure.class, ErrorKind::Unknown, "{failure}");
    }
    let Err(failure) = publisher.publish(&target, &[event(2)]).await else { panic!("nothing is taken") };
    assert_eq!(failure.class, ErrorKind::Unavailable, "{failure}");

    broker.control(&["set_vm_memory_high_watermark", "0.6"]).await?;
    eventually("messages are taken again", async || match publisher.connect(&target).await {
        Ok(_) => Ok(()),
        outcome => anyhow::bail!("{outcome:?}"),
    })
    .await?;
    assert_eq!(broker.connections()?, connections, "it is the same one");
    assert_eq!(published(publisher.publish(&target, &[event(3)]).await), [Ok(())]);
    Ok(())
}
