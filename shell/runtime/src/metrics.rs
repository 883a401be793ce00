//! The metrics of Lockstep, in a registry of the caller.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::action::{Action, Outcome};
use lockstep_engine::machine::{Amount, Measure, Metric, MetricKind, ReconcileResult};
use prometheus::core::Collector;
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of the drivers.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    queue_depth: IntGaugeVec,
    reconcile_total: IntCounterVec,
    reconcile_duration: HistogramVec,
    requeues: IntCounterVec,
    actions: IntCounterVec,
    action_duration: HistogramVec,
    watch_errors: IntCounterVec,
    leader: IntGauge,
    build_info: IntGaugeVec,
    declared: BTreeMap<&'static str, Family>,
}

/// A metric that a machine has declared.
#[derive(Debug, Clone)]
enum Family {
    Counter(IntCounterVec),
    Gauge(IntGaugeVec),
    Histogram(HistogramVec),
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, family: C) -> prometheus::Result<C> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}

impl Metrics {
    /// Registers all metrics.
    pub fn new(registry: Registry) -> prometheus::Result<Self> {
        let reconciler = &["controller", "reconciler"];
        let metrics = Self {
            queue_depth: IntGaugeVec::new(
                Opts::new("lockstep_queue_depth", "Items in the work queue of a reconciler."),
                reconciler,
            )?,
            reconcile_total: IntCounterVec::new(
                Opts::new("lockstep_reconcile_total", "Finished reconciles, by result."),
                &["controller", "reconciler", "result"],
            )?,
            reconcile_duration: HistogramVec::new(
                HistogramOpts::new("lockstep_reconcile_duration_seconds", "Reconcile duration.")
                    .buckets(prometheus::exponential_buckets(0.001, 2.5, 12)?),
                reconciler,
            )?,
            requeues: IntCounterVec::new(
                Opts::new("lockstep_requeues_total", "Reconciles that will be repeated after a delay."),
                reconciler,
            )?,
            actions: IntCounterVec::new(
                Opts::new("lockstep_actions_total", "Finished requests, by kind of object and outcome."),
                &["controller", "action", "kind", "outcome"],
            )?,
            action_duration: HistogramVec::new(
                HistogramOpts::new("lockstep_action_duration_seconds", "Request duration.")
                    .buckets(prometheus::exponential_buckets(0.001, 2.5, 12)?),
                &["controller", "action"],
            )?,
            watch_errors: IntCounterVec::new(
                Opts::new("lockstep_watch_errors_total", "Watch failures, by class."),
                &["controller", "kind", "class"],
            )?,
            leader: IntGauge::new(
                "lockstep_leader",
                "Whether this process is the leader (1) or on standby (0).",
            )?,
            build_info: IntGaugeVec::new(
                Opts::new("lockstep_build_info", "The running version; always 1."),
                &["version"],
            )?,
            declared: BTreeMap::new(),
            registry,
        };
        metrics.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        for family in metrics.families() {
            metrics.registry.register(family)?;
        }
        Ok(metrics)
    }

    /// Returns all metrics, except those that machines declare.
    pub(crate) fn families(&self) -> [Box<dyn Collector>; 9] {
        [
            Box::new(self.queue_depth.clone()),
            Box::new(self.reconcile_total.clone()),
            Box::new(self.reconcile_duration.clone()),
            Box::new(self.requeues.clone()),
            Box::new(self.actions.clone()),
            Box::new(self.action_duration.clone()),
            Box::new(self.watch_errors.clone()),
            Box::new(self.leader.clone()),
            Box::new(self.build_info.clone()),
        ]
    }

    /// Returns all metrics of the registry in Prometheus' text format.
    pub fn encode(&self) -> prometheus::Result<Vec<u8>> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    /// Sets whether this process leads.
    pub fn set_leader(&self, leading: bool) {
        self.leader.set(i64::from(leading));
    }

    pub(crate) fn queue_depth(&self, controller: &str, reconciler: &str, depth: usize) {
        let depth = i64::try_from(depth).unwrap_or(i64::MAX);
        self.queue_depth.with_label_values(&[controller, reconciler]).set(depth);
    }

    pub(crate) fn reconciled(
        &self,
        controller: &str,
        reconciler: &str,
        result: &ReconcileResult,
        took: Duration,
    ) {
        self.reconcile_total.with_label_values(&[controller, reconciler, result.name()]).inc();
        self.reconcile_duration.with_label_values(&[controller, reconciler]).observe(took.as_secs_f64());
        if matches!(result, ReconcileResult::Requeued { .. } | ReconcileResult::Failed { .. }) {
            self.requeues.with_label_values(&[controller, reconciler]).inc();
        }
    }

    pub(crate) fn action(&self, controller: &str, action: &Action, outcome: &Outcome, took: Duration) {
        let kind = match action {
            Action::Watch { kind, .. } | Action::Unwatch { kind } | Action::List { kind, .. } => {
                kind.to_string()
            }
            Action::Discover { .. } | Action::Fetch { .. } | Action::ResolveImage { .. } => String::new(),
            Action::Connect { broker } | Action::Publish { broker, .. } => broker.name().to_owned(),
            Action::Get { target, .. }
            | Action::Apply { target, .. }
            | Action::Create { target, .. }
            | Action::Update { target, .. }
            | Action::Patch { target, .. }
            | Action::Delete { target, .. } => target.kind.to_string(),
        };
        let outcome = outcome.as_ref().map_or_else(|failure| failure.class.name(), |_| "ok");
        self.actions.with_label_values(&[controller, action.name(), &kind, outcome]).inc();
        self.action_duration.with_label_values(&[controller, action.name()]).observe(took.as_secs_f64());
    }

    /// Registers the metrics that a machine declares.
    pub fn declare(&mut self, metrics: &[Metric]) -> prometheus::Result<()> {
        for metric in metrics {
            // Another machine of the same kind has registered it.
            if self.declared.contains_key(metric.name) {
                continue;
            }
            let opts = Opts::new(metric.name, metric.help);
            let family = match metric.kind {
                MetricKind::Counter => {
                    Family::Counter(registered(&self.registry, IntCounterVec::new(opts, metric.labels)?)?)
                }
                MetricKind::Gauge => {
                    Family::Gauge(registered(&self.registry, IntGaugeVec::new(opts, metric.labels)?)?)
                }
                MetricKind::Histogram(buckets) => {
                    let opts = HistogramOpts::from(opts).buckets(buckets.to_vec());
                    Family::Histogram(registered(&self.registry, HistogramVec::new(opts, metric.labels)?)?)
                }
            };
            self.declared.insert(metric.name, family);
        }
        Ok(())
    }

    /// Updates a metric that a machine has declared.
    pub(crate) fn measured(&self, measure: &Measure) {
        let labels = measure.labels.iter().map(String::as_str).collect::<Vec<_>>();
        match (self.declared.get(&*measure.metric), measure.by) {
            (Some(Family::Counter(counter)), Amount::Add(by)) => {
                counter.with_label_values(&labels).inc_by(by);
            }
            (Some(Family::Gauge(gauge)), Amount::Set(value)) => {
                gauge.with_label_values(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
            }
            (Some(Family::Histogram(histogram)), Amount::Observe(took)) => {
                histogram.with_label_values(&labels).observe(took.as_secs_f64());
            }
            // An error means that there is no such series.
            (Some(Family::Counter(counter)), Amount::Forget) => drop(counter.remove_label_values(&labels)),
            (Some(Family::Gauge(gauge)), Amount::Forget) => drop(gauge.remove_label_values(&labels)),
            (Some(Family::Histogram(histogram)), Amount::Forget) => {
                drop(histogram.remove_label_values(&labels));
            }
            _ => debug_assert!(false, "{measure:?} is not declared so"),
        }
    }

    pub(crate) fn watch_failed(&self, controller: &str, kind: &str, class: &str) {
        self.watch_errors.with_label_values(&[controller, kind, class]).inc();
    }
}
