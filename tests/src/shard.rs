//! The environment of one Sentinel: a configuration, and a fleet that is served over HTTP.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use lockstep_external::hyperfleet::host::{Host, State};
use lockstep_external::hyperfleet::{Dialect, HyperFleet, Kind, Labels};
use serde_json::{Value, json};

use crate::ground::{Ground, PATIENCE, eventually};
use crate::program::{Program, program};
use crate::queue::Arrivals;
use crate::rabbitmq::RabbitMq;
use crate::sentinel::Config;

/// Events that the broker confirmed.
pub const PUBLISHED: &str = "hyperfleet_sentinel_events_published_total";
/// Resources that were skipped.
pub const SKIPPED: &str = "hyperfleet_sentinel_resources_skipped_total";
/// Resources of the list that was read last.
pub const PENDING: &str = "hyperfleet_sentinel_pending_resources";
/// Cycles that have ended.
pub const CYCLES: &str = "hyperfleet_sentinel_reconcile_duration_seconds_count";
/// Failures of the API.
pub const API_ERRORS: &str = "hyperfleet_sentinel_api_errors_total";
/// Failures of the broker.
pub const BROKER_ERRORS: &str = "hyperfleet_sentinel_broker_errors_total";
/// Events that were sent again.
pub const REPUBLISHED: &str = "lockstep_sentinel_events_republished_total";
/// Events that are queued or in flight.
const HELD: &str = "workqueue_depth";
/// Resources that could not be parsed.
pub const MALFORMED: &str = "lockstep_sentinel_malformed_resources_total";

/// The number of resources in a page of the API.
pub const PAGE: usize = 100;

/// A namespace with a configuration, and the fleet that it names.
pub struct World {
    /// The client of the API server.
    pub client: Client,
    /// The namespace; the exchange has the same name.
    pub namespace: String,
    /// The configuration.
    pub config: Config,
    dialect: Dialect,
    host: Host,
}

impl World {
    /// Creates an environment with clusters that are all due and an API of the released dialect. The exchange is named after
    /// the test.
    pub async fn new(test: &str, clusters: usize) -> anyhow::Result<Self> {
        Self::with(Dialect::Released, test, clusters).await
    }

    /// Creates the same with an API of this dialect.
    pub async fn with(dialect: Dialect, test: &str, clusters: usize) -> anyhow::Result<Self> {
        let (client, namespace) = (Ground::embedded().client(), test.replace('_', "-"));
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        namespaces.create(&PostParams::default(), &object).await?;
        let config = Config::new(&client, &namespace, "shard");
        let mut fleet = HyperFleet::new(dialect, 1);
        fleet.populate(clusters, |_| Arc::new(Labels::new()), an_hour_ago()?);
        let host = Host::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), fleet).await?;
        Ok(Self { client, namespace, config, dialect, host })
    }

    /// Returns a configuration for a single cycle.
    pub fn spec(&self, broker: &str) -> Value {
        let dialect = match self.dialect {
            Dialect::Documented => "labels",
            Dialect::Released => "search",
        };
        json!({
            "resourceType": "clusters",
            "hyperfleetAPI": {"url": self.host.url(), "timeout": "30s", "dialect": dialect},
            "broker": {"type": "rabbitmq", "topic": self.namespace, "url": broker},
            "pollInterval": "1h",
        })
    }

    /// Returns the same for cycles one after another.
    pub fn polling(&self, broker: &str) -> Value {
        let mut spec = self.spec(broker);
        spec["pollInterval"] = json!("100ms");
        spec
    }

    /// Returns the command of its Sentinel.
    pub fn command(&self) -> anyhow::Result<Command> {
        self.command_of("shard")
    }

    /// Returns the command of a Sentinel that uses the configuration of this name.
    pub fn command_of(&self, config: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(program()?);
        command
            .args(["sentinel", "--config", config, "--namespace", &self.namespace])
            .args(["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"])
            .env("LOCKSTEP_LOG_FORMAT", "json")
            .env("LOCKSTEP_LOG_LEVEL", "debug");
        Ok(command)
    }

    /// Starts a command from [`World::command`], possibly with additions.
    pub async fn start(&self, command: Command) -> anyhow::Result<Program> {
        Program::start(command, &Ground::embedded().kubeconfig()?).await
    }

    /// Starts its Sentinel.
    pub async fn sentinel(&self) -> anyhow::Result<Program> {
        self.start(self.command()?).await
    }

    /// Starts a Sentinel with a command, and freezes the broker in the middle of its first cycle, which must have more than a
    /// hundred pages. Then thousands of events are in flight that the broker does not confirm.
    pub async fn frozen_midway(&self, broker: &RabbitMq, command: Command) -> anyhow::Result<Program> {
        // The content of the queues must survive a crash.
        broker.remember().await?;
        self.state().answer_only(50);
        let sentinel = self.start(command).await?;
        reaches(&sentinel, PUBLISHED, 1000).await?;
        broker.freeze()?;
        self.state().answer_only(u64::MAX);
        reaches(&sentinel, HELD, 2000).await?;
        Ok(sentinel)
    }

    /// Returns the state of the fleet's host.
    pub fn state(&self) -> &State {
        self.host.state()
    }

    /// Returns the ids of all clusters, in order.
    pub fn ids(&self) -> Vec<String> {
        self.state().with_fleet(|fleet| fleet.resources(Kind::Cluster).map(|row| row.id.clone()).collect())
    }
}

/// Returns a time one hour ago: every resource reported then is due now.
pub fn an_hour_ago() -> anyhow::Result<Timestamp> {
    Ok(Timestamp::now().checked_sub(SignedDuration::from_hours(1))?)
}

/// Waits until a metric has reached the goal.
pub async fn reaches(sentinel: &Program, metric: &str, goal: u64) -> anyhow::Result<u64> {
    eventually(metric, async || {
        let value = sentinel.metric(metric, "").await?;
        ensure!(value >= goal, "{value} instead of {goal}");
        Ok(value)
    })
    .await
}

/// Waits until the first cycle has ended and published this many events. The timeout starts again with each thousand.
pub async fn first_cycle_publishes(sentinel: &Program, events: u64) -> anyhow::Result<()> {
    for goal in (0..=events).step_by(1000) {
        reaches(sentinel, PUBLISHED, goal).await?;
    }
    reaches(sentinel, CYCLES, 1).await.map(drop)
}

/// Waits until a whole cycle has passed.
pub async fn a_cycle_passes(sentinel: &Program) -> anyhow::Result<()> {
    let ended = sentinel.metric(CYCLES, "").await?;
    reaches(sentinel, CYCLES, ended + 2).await.map(drop)
}

/// Collects the arriving events until all of these have arrived.
pub async fn arrive(arrivals: &mut Arrivals, expected: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let mut arrived = BTreeSet::new();
    let all = async {
        while !expected.iter().all(|id| arrived.contains(id)) {
            arrived.insert(arrivals.next().await?.resource);
        }
        Ok(())
    };
    let in_time = tokio::time::timeout(PATIENCE, all).await;
    in_time.with_context(|| format!("only {} arrived", arrived.len()))?.map(|()| arrived)
}
