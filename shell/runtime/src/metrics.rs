//! The metrics of Lockstep, in a registry of the caller. Those of reconciles, work queues and requests have the names of
//! controller-runtime and client-go.

mod conditions;
mod derived;
mod queues;

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_engine::action::{Action, BrokerRequest, KubeRequest, Outcome, WatchCommand};
use lockstep_engine::machine::{Amount, Event, Measure, Metric, MetricKind, ReconcileResult, Workload};
use lockstep_engine::time::Monotonic;
use prometheus::core::Collector;
#[cfg(target_os = "linux")]
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Encoder as _, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    TextEncoder,
};

use crate::metrics::conditions::Conditions;
use crate::metrics::derived::Derived;
use crate::metrics::queues::Queues;

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The upper bounds of the buckets of durations, in seconds.
const BUCKETS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The values of the label `result` of controller-runtime that occur. Its fourth one, `requeue`, does not: every repetition
/// has a delay.
const RESULTS: [&str; 3] = ["success", "error", "requeue_after"];

/// The metrics of the drivers.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    reconciles: IntCounterVec,
    reconcile_time: HistogramVec,
    /// Exported by [`Derived`] only.
    queue_time: HistogramVec,
    queues: Queues,
    conditions: Conditions,
    requests: IntCounterVec,
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
        let durations = |name: &str, help: &str| HistogramOpts::new(name, help).buckets(BUCKETS.to_vec());
        let metrics = Self {
            reconciles: IntCounterVec::new(
                Opts::new("controller_runtime_reconcile_total", "Finished reconciles, by result."),
                &["controller", "reconciler", "result"],
            )?,
            reconcile_time: HistogramVec::new(
                durations("controller_runtime_reconcile_time_seconds", "Reconcile duration."),
                reconciler,
            )?,
            queue_time: HistogramVec::new(durations("queue_time", "Not exported by this name."), reconciler)?,
            queues: Queues::new()?,
            conditions: Conditions::new()?,
            requests: IntCounterVec::new(
                Opts::new(
                    "rest_client_requests_total",
                    "HTTP requests to the Kubernetes API, by status code, method and host.",
                ),
                &["code", "method", "host"],
            )?,
            actions: IntCounterVec::new(
                Opts::new("lockstep_actions_total", "Finished requests, by kind of object and outcome."),
                &["controller", "action", "kind", "outcome"],
            )?,
            action_duration: HistogramVec::new(
                durations("lockstep_action_duration_seconds", "Request duration."),
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
        for family in metrics.families()? {
            metrics.registry.register(family)?;
        }
        #[cfg(target_os = "linux")]
        metrics.registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(metrics)
    }

    /// Returns all metrics, except those of the process and those that machines declare.
    pub(crate) fn families(&self) -> prometheus::Result<Vec<Box<dyn Collector>>> {
        let derived =
            Derived::new(self.reconciles.clone(), self.queue_time.clone(), self.reconcile_time.clone())?;
        Ok(vec![
            Box::new(self.reconciles.clone()),
            Box::new(self.reconcile_time.clone()),
            Box::new(derived),
            Box::new(self.queues.clone()),
            Box::new(self.conditions.clone()),
            Box::new(self.requests.clone()),
            Box::new(self.actions.clone()),
            Box::new(self.action_duration.clone()),
            Box::new(self.watch_errors.clone()),
            Box::new(self.leader.clone()),
            Box::new(self.build_info.clone()),
        ])
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

    /// Counts a reconcile. A user error is retried after a delay, and the controller has not failed: so it counts as
    /// `requeue_after`. An abandoned reconcile has no result.
    pub(crate) fn reconciled(
        &self,
        controller: &str,
        reconciler: &str,
        result: &ReconcileResult,
        [waited, took]: [Duration; 2],
    ) {
        let result = match result {
            ReconcileResult::Converged => "success",
            ReconcileResult::Failed { user_error: false, .. } => "error",
            ReconcileResult::Requeued { .. } | ReconcileResult::Failed { user_error: true, .. } => {
                "requeue_after"
            }
            ReconcileResult::Abandoned => return,
        };
        self.reconciles.with_label_values(&[controller, reconciler, result]).inc();
        self.queue_time.with_label_values(&[controller, reconciler]).observe(waited.as_secs_f64());
        self.reconcile_time.with_label_values(&[controller, reconciler]).observe(took.as_secs_f64());
    }

    /// Sets the metrics of a machine's work queues and workers.
    pub(crate) fn workload(&self, controller: &'static str, workload: &Workload, now: Monotonic) {
        if workload.concurrency.is_some() {
            // The series exist from the beginning, so that the first error is an increase.
            for queue in &workload.queues {
                for result in RESULTS {
                    let _ = self.reconciles.with_label_values(&[controller, queue.name, result]);
                }
            }
        }
        self.queues.measure(controller, workload, now, |reconciler| {
            self.reconcile_time.with_label_values(&[controller, reconciler]).get_sample_count()
        });
    }

    /// Updates the conditions of objects from an event of a watch.
    pub(crate) fn watched(&self, event: &Event) {
        self.conditions.observe(event);
    }

    /// Counts an HTTP request to the Kubernetes API; the code `<error>` means that there was no response.
    pub(crate) fn requested(&self, code: &str, method: &str, host: &str) {
        self.requests.with_label_values(&[code, method, host]).inc();
    }

    pub(crate) fn action(&self, controller: &str, action: &Action, outcome: &Outcome, took: Duration) {
        let kind = match action {
            Action::Watch(WatchCommand::Start { kind, .. } | WatchCommand::Stop { kind })
            | Action::Kube(KubeRequest::List { kind, .. }) => kind.to_string(),
            Action::Http(_) | Action::Registry(_) => String::new(),
            Action::Broker(BrokerRequest::Connect { broker } | BrokerRequest::Publish { broker, .. }) => {
                broker.name().to_owned()
            }
            Action::Kube(request) => {
                request.target().map_or_else(String::new, |target| target.kind.to_string())
            }
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

#[cfg(test)]
mod tests;
