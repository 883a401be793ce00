//! The metrics of a Sentinel.
//!
//! Source: HyperFleet Sentinel, "Prometheus Metrics": the first seven, by name and label. The last three are ours.

use std::borrow::Cow;
use std::time::Duration;

use lockstep_engine::machine::{Amount, Measure, Metric, MetricKind, Note};

/// Resources of the shard, gauge.
pub const PENDING: &str = "hyperfleet_sentinel_pending_resources";
/// Events that the broker confirmed.
pub const PUBLISHED: &str = "hyperfleet_sentinel_events_published_total";
/// Resources that were not due, by whether they are Ready.
pub const SKIPPED: &str = "hyperfleet_sentinel_resources_skipped_total";
/// The duration of cycles.
pub const DURATION: &str = "hyperfleet_sentinel_reconcile_duration_seconds";
/// Failures of the fleet's API, and to load the configuration, by operation.
pub const API_ERRORS: &str = "hyperfleet_sentinel_api_errors_total";
/// Failures of the broker.
pub const BROKER_ERRORS: &str = "hyperfleet_sentinel_broker_errors_total";
/// Changes of the configuration that took effect.
pub const RELOADS: &str = "hyperfleet_sentinel_config_reloads_total";
/// Events that were sent again.
pub const REPUBLISHED: &str = "lockstep_sentinel_events_republished_total";
/// Resources that could not be parsed.
pub const MALFORMED: &str = "lockstep_sentinel_malformed_resources_total";

/// Evaluations of expressions that failed.
pub const EXPRESSION_ERRORS: &str = "lockstep_sentinel_expression_errors_total";

const OF_SHARD: &[&str] = &["shard", "resource_type"];

/// From a millisecond to two minutes.
const BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];

/// All metrics of a Sentinel.
pub const ALL: &[Metric] = &[
    metric(PENDING, "Resources in this shard.", OF_SHARD, MetricKind::Gauge),
    metric(PUBLISHED, "Events that the broker confirmed.", OF_SHARD, MetricKind::Counter),
    metric(
        SKIPPED,
        "Resources skipped because their backoff had not expired, or because the result of messageDecision was false.",
        &["shard", "resource_type", "ready_state"],
        MetricKind::Counter,
    ),
    metric(
        DURATION,
        "How long a cycle took, from its poll to its last confirm.",
        OF_SHARD,
        MetricKind::Histogram(BUCKETS),
    ),
    metric(
        API_ERRORS,
        "Failed polls of the HyperFleet API (fetch_resources), and failures to load the SentinelConfig or its Secret (config_load).",
        &["shard", "resource_type", "operation"],
        MetricKind::Counter,
    ),
    metric(
        BROKER_ERRORS,
        "Failed connections to the broker, lost ones, and events that were given up.",
        &["shard", "resource_type", "broker_type"],
        MetricKind::Counter,
    ),
    metric(RELOADS, "Changes of the SentinelConfig that took effect.", OF_SHARD, MetricKind::Counter),
    metric(
        REPUBLISHED,
        "Events sent again because the broker had not confirmed them; consumers may see them twice.",
        OF_SHARD,
        MetricKind::Counter,
    ),
    metric(MALFORMED, "Resources that could not be understood.", OF_SHARD, MetricKind::Counter),
    metric(
        EXPRESSION_ERRORS,
        "Evaluations of expressions of the SentinelConfig that failed.",
        OF_SHARD,
        MetricKind::Counter,
    ),
];

const fn metric(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    kind: MetricKind,
) -> Metric {
    Metric { name, help, labels, kind }
}

/// The operations of [`API_ERRORS`].
pub mod operation {
    /// Polling the fleet: one failure for each poll that could not read its whole list.
    pub const FETCH_RESOURCES: &str = "fetch_resources";
    /// Reading the configuration, or the Secret that it names.
    pub const CONFIG_LOAD: &str = "config_load";
}

/// The labels of one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shard {
    /// The selector of the shard.
    pub shard: String,
    /// The type of its resources.
    pub resource_type: String,
    /// The type of its broker.
    pub broker_type: &'static str,
}

impl Shard {
    /// Returns an increase of a counter.
    pub fn count(&self, metric: &'static str, by: usize) -> Note {
        let by = Amount::Add(u64::try_from(by).unwrap_or(u64::MAX));
        let extra = (metric == BROKER_ERRORS).then_some(self.broker_type);
        self.measure(metric, extra, by)
    }

    /// Returns an increase of a counter for one label value.
    pub fn count_of(&self, metric: &'static str, label: &'static str, by: usize) -> Note {
        self.measure(metric, Some(label), Amount::Add(u64::try_from(by).unwrap_or(u64::MAX)))
    }

    /// Returns the number of resources.
    pub fn pending(&self, resources: u64) -> Note {
        self.measure(PENDING, None, Amount::Set(resources))
    }

    /// Returns the duration of a cycle that has ended.
    pub fn took(&self, took: Duration) -> Note {
        self.measure(DURATION, None, Amount::Observe(took))
    }

    /// Returns every counter with its current value, so that all series exist from the start.
    pub fn all(&self) -> Vec<Note> {
        self.counters(Amount::Add(0)).collect()
    }

    /// Returns the end of every series, because this shard is no longer watched. Those that the current shard has too
    /// continue.
    pub fn forgotten(&self, current: &Self) -> Vec<Note> {
        let kept: Vec<Note> = current.ends().collect();
        self.ends().filter(|end| !kept.contains(end)).collect()
    }

    fn ends(&self) -> impl Iterator<Item = Note> {
        let others = [PENDING, DURATION].map(|metric| self.measure(metric, None, Amount::Forget));
        self.counters(Amount::Forget).chain(others)
    }

    fn counters(&self, by: Amount) -> impl Iterator<Item = Note> {
        let plain =
            [PUBLISHED, RELOADS, REPUBLISHED, MALFORMED, EXPRESSION_ERRORS].map(|metric| (metric, None));
        let states = ["ready", "not_ready"].map(|state| (SKIPPED, Some(state)));
        let operations = [operation::FETCH_RESOURCES, operation::CONFIG_LOAD]
            .map(|operation| (API_ERRORS, Some(operation)));
        let broker = [(BROKER_ERRORS, Some(self.broker_type))];
        let all = plain.into_iter().chain(states).chain(operations).chain(broker);
        all.map(move |(metric, extra)| self.measure(metric, extra, by))
    }

    fn measure(&self, metric: &'static str, extra: Option<&'static str>, by: Amount) -> Note {
        let mut labels = vec![self.shard.clone(), self.resource_type.clone()];
        labels.extend(extra.map(str::to_owned));
        Note::Measured(Measure { metric: Cow::Borrowed(metric), labels, by })
    }
}
