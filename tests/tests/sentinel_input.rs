//! Tests how a Sentinel handles malformed answers, over HTTP and with a real RabbitMQ.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use lockstep_crds::sentinel::LastCycle;
use lockstep_external::hyperfleet::Dialect;
use lockstep_external::hyperfleet::damage::Damage;
use lockstep_external::hyperfleet::host::Mishap;
use lockstep_tests::ground::eventually;
use lockstep_tests::program::Program;
use lockstep_tests::queue::Queue;
use lockstep_tests::rabbitmq::RabbitMq;
use lockstep_tests::shard::{API_ERRORS, MALFORMED, PAGE, World, a_cycle_passes, arrive};
use serde_json::json;

const DIALECTS: [Dialect; 2] = [Dialect::Documented, Dialect::Released];

/// The damage to the answer with the second of three pages, and the expected report.
const BAD_PAGES: [(Damage, &str, &str); 4] = [
    (Damage::Html, "InvalidAnswer", r#"the answer is not JSON; it begins with "<!DOCTYPE html>"#),
    (Damage::EmptyBody, "InvalidAnswer", "the answer is empty"),
    (Damage::TruncatedJson, "InvalidAnswer", "the answer is no list of resources (EOF"),
    (Damage::ServerError(503), "Unreachable", "503 Service Unavailable: upstream connect error"),
];

/// The damage to the fourth item, and the expected report.
const BAD_ITEMS: [(Damage, &str); 3] = [
    (Damage::WrongTimeFormat { item: 3 }, "not a time as RFC 3339 has it"),
    (Damage::MissingId { item: 3 }, "item 3: missing field `id`"),
    (Damage::ItemNotAnObject { item: 3 }, "expected a resource"),
];

/// Runs a Sentinel on three pages of clusters with the damage from its first poll on. It publishes all clusters except the
/// damaged ones, and those as well once the damage is removed.
async fn outlives(
    broker: &RabbitMq,
    dialect: Dialect,
    test: &str,
    damage: Damage,
    is_hit: impl Fn(&[String], &str) -> bool + Send + Sync + 'static,
    spoilt: Range<usize>,
    reported: (&str, &str, &str),
) -> anyhow::Result<(String, Program)> {
    let test = format!("{test}_{dialect:?}").to_lowercase();
    let world = World::with(dialect, &test, 3 * PAGE).await?;
    let (queue, ids) = (Queue::bind(broker, &world.namespace).await?, world.ids());
    let mut arrivals = queue.arrivals().await?;
    let known = ids.clone();
    world.state().set_weather(Some(Box::new(move |request| {
        let is_hit = is_hit(&known, request.uri().query().unwrap_or_default());
        Mishap { damage: is_hit.then_some(damage), ..Mishap::default() }
    })));
    let mut spec = world.polling(&broker.url());
    spec["pollInterval"] = json!("1s");
    world.config.create(&spec).await?;
    let sentinel = world.sentinel().await?;
    let (status, reason, words) = reported;
    let condition = world.config.until_condition("FleetReachable", status, reason).await?;
    // A cycle is logged at its end, but the condition is set before that.
    eventually(words, async || {
        sentinel.logged(words).map(drop).with_context(|| format!("{damage:?}: {}", sentinel.log()))
    })
    .await?;
    a_cycle_passes(&sentinel).await?;
    eventually("the last cycle is reported", async || {
        let cycle = world.config.status().await?.last_cycle.context("no cycle")?;
        // A malformed item is reported. The content of a missing page is unknown.
        let malformed = u64::from(spoilt.len() == 1);
        let well = (3 * PAGE - spoilt.len()) as u64;
        let expected = LastCycle { resources: well, published: well, malformed, ..LastCycle::default() };
        ensure!(cycle == expected, "{cycle:?}");
        Ok(())
    })
    .await?;
    let others = [&ids[..spoilt.start], &ids[spoilt.end..]].concat();
    let arrived = arrive(&mut arrivals, &others).await?;
    assert!(!ids[spoilt].iter().any(|id| arrived.contains(id)), "{damage:?}");
    world.state().set_weather(None);
    world.config.until_condition("FleetReachable", "True", "FleetListed").await?;
    arrive(&mut arrivals, &ids).await?;
    Ok((condition.message, sentinel))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_page_is_named_and_spoils_no_other() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    for dialect in DIALECTS {
        let cases = BAD_PAGES.iter().enumerate().map(async |(case, &(damage, reason, words))| {
            let second = move |ids: &[String], query: &str| match dialect {
                Dialect::Documented => query.contains("page=2&"),
                Dialect::Released => query.contains(&ids[PAGE - 1]) && query.contains("page=1&"),
            };
            let (test, reported) = (format!("bad_page_{case}"), ("False", reason, words));
            let outlived = outlives(broker, dialect, &test, damage, second, PAGE..2 * PAGE, reported);
            let (message, sentinel) = outlived.await.with_context(|| format!("{dialect:?} {damage:?}"))?;
            assert!(message.contains(words), "{damage:?}: {message}");
            let errors = sentinel.metric(API_ERRORS, "fetch_resources").await?;
            assert!(errors >= 1, "{damage:?}: {errors}");
            anyhow::Ok(())
        });
        futures::future::try_join_all(cases).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_item_is_named_and_spoils_no_other() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    for dialect in DIALECTS {
        let cases = BAD_ITEMS.iter().enumerate().map(async |(case, &(damage, words))| {
            let first = |_: &[String], query: &str| !query.contains("search=") && query.contains("page=1&");
            let (test, reported) = (format!("bad_item_{case}"), ("True", "MalformedResources", words));
            let outlived = outlives(broker, dialect, &test, damage, first, 3..4, reported);
            let (message, sentinel) = outlived.await.with_context(|| format!("{dialect:?} {damage:?}"))?;
            assert!(message.contains("1 of its resources can't be understood"), "{damage:?}: {message}");
            let malformed = sentinel.metric(MALFORMED, "").await?;
            assert!(malformed >= 1, "{damage:?}: {malformed}");
            anyhow::Ok(())
        });
        futures::future::try_join_all(cases).await?;
        // A resource without a status has no report: its backoff counts from its creation, or it is due at once.
        let (damage, reported) = (Damage::NullStatus { item: 3 }, ("True", "FleetListed", "cycle 1 took"));
        outlives(broker, dialect, "no_status", damage, |_, _| true, 3..3, reported).await?;
    }
    Ok(())
}
