//! Tests the output of a Sentinel for fixed cycles: its metrics as text, and the status of its configuration.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, ensure};
use jiff::Timestamp;
use lockstep_engine::machine::Event;
use lockstep_external::hyperfleet::damage::Damage;
use lockstep_external::hyperfleet::host::Mishap;
use lockstep_external::hyperfleet::{Dialect, Labels};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::publish::Publisher;
use lockstep_runtime::run::Options;
use lockstep_runtime::shutdown;
use lockstep_sentinel::{Sentinel, Settings};
use lockstep_tests::ground::eventually;
use lockstep_tests::program::sum;
use lockstep_tests::shard::{API_ERRORS, CYCLES, World, an_hour_ago};
use serde_json::{Value, json};

/// Returns the Sentinel's metrics with their help, without values that depend on durations.
fn specified(metrics: &str) -> String {
    let own = metrics.lines().filter(|line| line.contains("_sentinel_"));
    let lines = own.map(|line| match line.rsplit_once(' ') {
        Some((series, _)) if series.contains("_seconds_bucket{") || series.contains("_seconds_sum{") => {
            format!("{series} …")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a status without its times.
async fn status(world: &World) -> anyhow::Result<Value> {
    let mut status = serde_json::to_value(world.config.status().await?)?;
    for condition in status["conditions"].as_array_mut().context("no conditions")? {
        let time = condition["lastTransitionTime"].as_str().context("no time")?;
        time.parse::<Timestamp>()?;
        condition["lastTransitionTime"] = json!("…");
    }
    Ok(status)
}

/// Creates two ready clusters and three that are not ready in their backoff, four that are due, and one that can't be parsed.
fn populate(world: &World) -> anyhow::Result<()> {
    let (now, past) = (Timestamp::now(), an_hour_ago()?);
    let labels = Arc::new(Labels::from([("region".to_owned(), "us-east".to_owned())]));
    world.state().with_fleet(|fleet| {
        for number in 0..10 {
            let id = fleet.create(&format!("cluster-{number}"), Arc::clone(&labels), past);
            if number < 5 {
                fleet.report(&id, number < 2, now);
            }
        }
    });
    let has_failed = AtomicBool::new(false);
    world.state().set_weather(Some(Box::new(move |_| {
        let damage = if has_failed.swap(true, Ordering::Relaxed) {
            Damage::WrongTimeFormat { item: 9 }
        } else {
            Damage::ServerError(503)
        };
        Mishap { damage: Some(damage), ..Mishap::default() }
    })));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_status_of_two_cycles() -> anyhow::Result<()> {
    let world = World::with(Dialect::Documented, "metrics", 0).await?;
    populate(&world)?;
    let mut spec = world.spec("amqp://127.0.0.1/");
    spec["shardSelector"] = json!({"matchLabels": {"region": "us-east"}});
    spec["backoffNotReady"] = json!("30m");
    world.config.create(&spec).await?;

    let metrics = Metrics::new(prometheus::Registry::new())?;
    let mut manager = Manager::new(world.client.clone(), Clock::start(Timestamp::now), 1, metrics.clone());
    let (publisher, mut events) = Publisher::in_process();
    let settings = Settings {
        namespace: world.namespace.clone(),
        config: "shard".to_owned(),
        logs_decisions: false,
        traces: false,
        seed: 1,
    };
    let final_event = Some(Event::LeadershipChanged { leading: false });
    let options = Options { publisher, final_event, ..Options::default() };
    manager.add_with(Box::new(Sentinel::new(settings)), options);
    let (trigger, shutdown) = shutdown::channel();
    let running = tokio::spawn(manager.run(shutdown));
    let reach = async |metric: &str, holding: &str, goal: u64| {
        eventually(metric, async || {
            let text = String::from_utf8(metrics.encode()?)?;
            ensure!(sum(&text, metric, holding) == goal, "{text}");
            Ok(text)
        })
        .await
    };

    // The first page fails once, which is no failure of the poll. All due clusters are confirmed.
    reach(CYCLES, "", 1).await?;
    world.config.until_condition("Publishing", "False", "MalformedResources").await?;
    insta::assert_json_snapshot!("status_when_all_is_confirmed", status(&world).await?);
    let mut due = 0;
    while events.try_recv().is_ok() {
        due += 1;
    }
    assert_eq!(due, 4);

    // Change the configuration while no consumer accepts the events; then make the configuration invalid.
    drop(events);
    world.config.change(&json!({"pollInterval": "2h"})).await?;
    reach(CYCLES, "", 2).await?;
    world.config.until_condition("Publishing", "False", "EventsGivenUp").await?;
    world.config.change(&json!({"hyperfleetAPI": {"url": "http://"}})).await?;
    let text = reach(API_ERRORS, "config_load", 1).await?;
    insta::assert_snapshot!("metrics", specified(&text));
    world.config.until_condition("ConfigValid", "False", "InvalidConfig").await?;
    insta::assert_json_snapshot!("status_when_events_are_given_up", status(&world).await?);
    trigger.pull();
    running.await??;
    Ok(())
}
