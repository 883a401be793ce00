//! A small fleet for the Sentinel: the HyperFleet API model, an in-process broker, and adapters that answer events.
//!
//! ```text
//!   Sentinel ── polls ──▶ fleet ◀── reports ── adapters ◀── events ── in-process broker ◀── publishes ── Sentinel
//! ```

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use lockstep_core::engine::broker::CloudEvent;
use lockstep_core::engine::machine::{Event, Note};
use lockstep_core::sentinel::{Sentinel, Settings};
use lockstep_shell::observe::Told;
use lockstep_shell::publish::Publisher;
use lockstep_shell::run::Options;
use lockstep_sim::hyperfleet::host::{Host, State};
use lockstep_sim::hyperfleet::{Dialect, HyperFleet, Labels};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// The namespace of the configuration.
const NAMESPACE: &str = "default";
/// The name of the configuration.
pub(super) const CONFIG: &str = "clusters";
/// The clusters, with their regions; the Sentinel's shard is the first region.
const CLUSTERS: [(&str, &str); 5] = [
    ("payments", "eu-west"),
    ("search", "eu-west"),
    ("web", "eu-west"),
    ("batch", "eu-west"),
    ("elsewhere", "us-east"),
];
/// How long adapters work on an event.
const WORK: Duration = Duration::from_millis(800);

/// The fleet, being served.
pub(super) struct Fleet {
    host: Host,
    events: UnboundedReceiver<CloudEvent>,
}

impl Fleet {
    /// Serves the fleet; the options let a Sentinel publish to its adapters.
    pub(super) async fn start() -> io::Result<(Self, Options)> {
        let mut fleet = HyperFleet::new(Dialect::Released, 1);
        for (name, region) in CLUSTERS {
            let labels = Labels::from([("region".to_owned(), region.to_owned())]);
            fleet.create(name, Arc::new(labels), Timestamp::now());
        }
        let host = Host::bind((Ipv4Addr::LOCALHOST, 0).into(), fleet).await?;
        let (publisher, events) = Publisher::in_process();
        let farewell = Some(Event::LeadershipChanged { leading: false });
        Ok((Self { host, events }, Options { publisher, farewell, ..Options::default() }))
    }

    /// Where it is served.
    pub(super) fn url(&self) -> String {
        self.host.url()
    }

    /// The configuration of its Sentinel, with intervals that suit those who watch.
    pub(super) fn config(&self) -> Value {
        json!({
            "apiVersion": "hyperfleet.redhat.com/v1alpha1",
            "kind": "SentinelConfig",
            "metadata": { "name": CONFIG, "namespace": NAMESPACE },
            "spec": {
                "resourceType": "clusters",
                "backoffNotReady": "2s",
                "backoffReady": "1m",
                "pollInterval": "1s",
                "shardSelector": { "matchLabels": { "region": CLUSTERS[0].1 } },
                "hyperfleetAPI": { "url": self.url(), "dialect": "search" },
                "broker": { "type": "rabbitmq", "topic": "hyperfleet-events", "url": "amqp://in-process/" },
            },
        })
    }

    /// Lets adapters answer events, and tell of it, for as long as the fleet is served.
    pub(super) async fn adapt(mut self, told: UnboundedSender<Told>) {
        let mut answered: BTreeMap<String, u32> = BTreeMap::new();
        while let Some(event) = self.events.recv().await {
            let id = event.data["id"].as_str().unwrap_or_default().to_owned();
            let times = answered.entry(id.clone()).or_default();
            *times += 1;
            // Validation takes one event, provisioning another.
            let is_ready = *times > 1;
            tokio::spawn(report(self.host.state().clone(), id, is_ready, told.clone()));
        }
    }
}

async fn report(state: State, id: String, is_ready: bool, told: UnboundedSender<Told>) {
    tokio::time::sleep(WORK).await;
    let name = state.with_fleet(|fleet| {
        fleet.report(&id, is_ready, Timestamp::now());
        fleet.get(&id).map(|resource| resource.name.clone())
    });
    let Some(name) = name else { return };
    let message = format!("cluster {name} is {}", if is_ready { "Ready" } else { "Pending, validated" });
    // An error means that nobody reads any more.
    let _ = told.send(Told { controller: "adapters", note: Note::Told { debug: false, message } });
}

/// The Sentinel of the fleet.
pub(super) fn sentinel(seed: u64) -> Sentinel {
    Sentinel::new(Settings {
        namespace: NAMESPACE.to_owned(),
        config: CONFIG.to_owned(),
        tells_decisions: false,
        traces: false,
        seed,
    })
}
