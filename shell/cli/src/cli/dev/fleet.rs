//! Small fleets for Sentinels: the HyperFleet API model, an in-process broker, and adapters that answer events.
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
use lockstep_cli::controllers;
use lockstep_engine::broker::CloudEvent;
use lockstep_engine::machine::{Event, Note};
use lockstep_external::hyperfleet::host::Host;
use lockstep_external::hyperfleet::{ADAPTERS, API, Dialect, HyperFleet, Labels};
use lockstep_runtime::observe::ControllerNote;
use lockstep_runtime::publish::Publisher;
use lockstep_runtime::run::Options;
use lockstep_sentinel::{Sentinel, Settings};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// The namespace of the configurations.
const NAMESPACE: &str = "default";
/// How long adapters take to process an event.
const WORK: Duration = Duration::from_millis(800);

/// A fleet with an API of one dialect, and the configuration of its Sentinel.
#[derive(Debug)]
pub(super) struct Example {
    /// The name of the configuration.
    config: &'static str,
    dialect: Dialect,
    region: &'static str,
    /// The clusters, with their regions.
    clusters: &'static [(&'static str, &'static str)],
}

/// One for each dialect.
pub(super) const EXAMPLES: [Example; 2] = [
    Example {
        config: "clusters",
        dialect: Dialect::Released,
        region: "eu-west",
        clusters: &[
            ("payments", "eu-west"),
            ("search", "eu-west"),
            ("web", "eu-west"),
            ("batch", "eu-west"),
            ("elsewhere", "us-east"),
        ],
    },
    Example {
        config: "clusters-by-label",
        dialect: Dialect::Documented,
        region: "ap-south",
        clusters: &[("orders", "ap-south"), ("stock", "ap-south"), ("nowhere", "us-west")],
    },
];

/// A fleet that is being served.
pub(super) struct Fleet {
    example: &'static Example,
    host: Host,
    events: UnboundedReceiver<CloudEvent>,
}

impl Fleet {
    /// Serves a fleet. The returned options make a Sentinel publish to its adapters.
    pub(super) async fn start(example: &'static Example) -> io::Result<(Self, Options)> {
        let mut fleet = HyperFleet::new(example.dialect, 1);
        for (name, region) in example.clusters {
            let labels = Labels::from([("region".to_owned(), (*region).to_owned())]);
            fleet.create(name, Arc::new(labels), Timestamp::now());
        }
        let host = Host::bind((Ipv4Addr::LOCALHOST, 0).into(), fleet).await?;
        let (publisher, events) = Publisher::in_process();
        let final_event = Some(Event::LeadershipChanged { leading: false });
        Ok((
            Self { example, host, events },
            Options { publisher, final_event, ..controllers::options(lockstep_crds::sentinel::CONTROLLER) },
        ))
    }

    /// Returns the URL of its list of clusters.
    pub(super) fn url(&self) -> String {
        format!("{}{API}/clusters", self.host.url())
    }

    /// Returns the namespace and name of the configuration.
    pub(super) fn object(&self) -> String {
        format!("{NAMESPACE}/{}", self.example.config)
    }

    /// Returns the configuration of its Sentinel, with intervals that suit a demonstration.
    pub(super) fn config(&self) -> Value {
        let dialect = match self.example.dialect {
            Dialect::Documented => "labels",
            Dialect::Released => "search",
        };
        json!({
            "apiVersion": "hyperfleet.redhat.com/v1alpha1",
            "kind": "SentinelConfig",
            "metadata": { "name": self.example.config, "namespace": NAMESPACE },
            "spec": {
                "resourceType": "clusters",
                "backoffNotReady": "2s",
                "backoffReady": "1m",
                "pollInterval": "1s",
                "shardSelector": { "matchLabels": { "region": self.example.region } },
                "hyperfleetAPI": { "url": self.host.url(), "dialect": dialect },
                "broker": { "type": "rabbitmq", "topic": "hyperfleet-events", "url": "amqp://in-process/" },
            },
        })
    }

    /// Returns its Sentinel.
    pub(super) fn sentinel(&self, seed: u64) -> Sentinel {
        Sentinel::new(Settings {
            namespace: NAMESPACE.to_owned(),
            config: self.example.config.to_owned(),
            logs_decisions: false,
            traces: false,
            seed,
        })
    }

    /// Runs the adapters, which answer events and report that, for as long as the fleet is served.
    pub(super) async fn adapt(mut self, notes: UnboundedSender<ControllerNote>) {
        let mut answered: BTreeMap<String, u32> = BTreeMap::new();
        let client = reqwest::Client::new();
        while let Some(event) = self.events.recv().await {
            let times = answered.entry(event.data["id"].to_string()).or_default();
            *times += 1;
            // Validation takes one event, provisioning another.
            let is_ready = *times > 1;
            let reports = self.reports(&event, is_ready);
            let url = format!("{}{}", self.host.url(), event.data["href"].as_str().unwrap_or_default());
            tokio::spawn(report(client.clone(), url, reports, is_ready, notes.clone()));
        }
    }

    /// Returns what adapters post about the resource of an event, each with the end of the path.
    fn reports(&self, event: &CloudEvent, is_ready: bool) -> Vec<(&'static str, Value)> {
        match self.example.dialect {
            Dialect::Documented => {
                vec![("status", json!({ "phase": if is_ready { "Ready" } else { "Provisioning" } }))]
            }
            Dialect::Released => {
                let available = if is_ready { "True" } else { "False" };
                let report = |adapter: &str| {
                    json!({
                        "adapter": adapter,
                        "observed_generation": event.data["generation"],
                        "conditions": [{ "type": "Available", "status": available }],
                    })
                };
                ADAPTERS.map(|adapter| ("statuses", report(adapter))).into()
            }
        }
    }
}

/// Posts reports on a resource to the API after a delay, and logs that.
async fn report(
    client: reqwest::Client,
    url: String,
    reports: Vec<(&'static str, Value)>,
    is_ready: bool,
    notes: UnboundedSender<ControllerNote>,
) {
    tokio::time::sleep(WORK).await;
    let mut resource = Value::Null;
    for (path, report) in reports {
        let request = client.post(format!("{url}/{path}")).body(report.to_string());
        let Ok(answer) = request.send().await.and_then(reqwest::Response::error_for_status) else { return };
        let body = answer.bytes().await.unwrap_or_default();
        resource = serde_json::from_slice(&body).unwrap_or_default();
    }
    // Not every dialect has names.
    let name = resource["name"].as_str().or(resource["id"].as_str()).unwrap_or_default();
    let message = format!("cluster {name} is {}", if is_ready { "Ready" } else { "Pending, validated" });
    // An error means that the receiver is closed.
    let _ = notes.send(ControllerNote { controller: "adapters", note: Note::info(message) });
}
