//! Metrics that are computed from the counts of reconciles while they are scraped, so that a reconcile is counted once.

use std::collections::{BTreeMap, HashMap};

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Counter, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{HistogramVec, IntCounterVec, Opts};

/// The counts of reconciles under the other names that controller-runtime and client-go have for them.
#[derive(Debug)]
pub(super) struct Derived {
    reconciles: IntCounterVec,
    waited: HistogramVec,
    took: HistogramVec,
    errors: Desc,
    retries: Desc,
    queue_duration: Desc,
    work_duration: Desc,
}

impl Derived {
    /// Creates the collector. The labels of the reconciles are `controller`, `reconciler` and `result`; those of the histograms
    /// are the first two.
    pub(super) fn new(
        reconciles: IntCounterVec,
        waited: HistogramVec,
        took: HistogramVec,
    ) -> prometheus::Result<Self> {
        let of_reconciler = |name: &str, help: &str| described(name, help, ["controller", "reconciler"]);
        let of_queue = |name: &str, help: &str| described(name, help, ["controller", "name"]);
        Ok(Self {
            reconciles,
            waited,
            took,
            errors: of_reconciler("controller_runtime_reconcile_errors_total", "Reconciles that failed.")?,
            retries: of_queue("workqueue_retries_total", "Reconciles that are repeated after a delay.")?,
            queue_duration: of_queue(
                "workqueue_queue_duration_seconds",
                "Time that items are in the work queue before their reconcile.",
            )?,
            work_duration: of_queue(
                "workqueue_work_duration_seconds",
                "Duration of reconciles, by work queue.",
            )?,
        })
    }
}

fn described(name: &str, help: &str, labels: [&str; 2]) -> prometheus::Result<Desc> {
    let Opts { help, .. } = Opts::new(name, help);
    Desc::new(name.to_owned(), help, labels.map(str::to_owned).to_vec(), HashMap::new())
}

impl Collector for Derived {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.errors, &self.retries, &self.queue_duration, &self.work_duration]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let reconciles = metrics(&self.reconciles);
        let mut retries: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        let mut errors = Vec::new();
        for metric in &reconciles {
            let (controller, reconciler) = (label(metric, "controller"), label(metric, "reconciler"));
            let (result, count) = (label(metric, "result"), metric.get_counter().get_value());
            if result == "error" {
                errors.push(counter([("controller", controller), ("reconciler", reconciler)], count));
            }
            if result != "success" {
                *retries.entry((controller, reconciler)).or_default() += count;
            }
        }
        let retries = retries.into_iter().map(|((controller, reconciler), count)| {
            counter([("controller", controller), ("name", &queue_name(controller, reconciler))], count)
        });
        vec![
            family(&self.errors, MetricType::COUNTER, errors),
            family(&self.retries, MetricType::COUNTER, retries.collect()),
            family(&self.queue_duration, MetricType::HISTOGRAM, by_queue(&self.waited)),
            family(&self.work_duration, MetricType::HISTOGRAM, by_queue(&self.took)),
        ]
    }
}

/// Returns the name of a reconciler's work queue in metrics.
pub(super) fn queue_name(controller: &str, reconciler: &str) -> String {
    format!("{controller}/{reconciler}")
}

/// Returns a histogram of reconcilers with the labels of work queues.
fn by_queue(histogram: &HistogramVec) -> Vec<Metric> {
    let mut metrics = metrics(histogram);
    for metric in &mut metrics {
        let (controller, reconciler) = (label(metric, "controller"), label(metric, "reconciler"));
        let name = queue_name(controller, reconciler);
        metric.set_label(labels([("controller", controller), ("name", &name)]));
    }
    metrics
}

fn metrics(collector: &impl Collector) -> Vec<Metric> {
    collector.collect().into_iter().flat_map(|mut family| family.take_metric()).collect()
}

fn family(desc: &Desc, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(desc.fq_name.clone());
    family.set_help(desc.help.clone());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn counter(of: [(&str, &str); 2], count: f64) -> Metric {
    let mut counter = Counter::default();
    counter.set_value(count);
    let mut metric = Metric::from_label(labels(of));
    metric.set_counter(counter);
    metric
}

fn labels(pairs: [(&str, &str); 2]) -> Vec<LabelPair> {
    let label = |(name, value): (&str, &str)| {
        let mut label = LabelPair::default();
        label.set_name(name.to_owned());
        label.set_value(value.to_owned());
        label
    };
    pairs.map(label).to_vec()
}

fn label<'a>(metric: &'a Metric, name: &str) -> &'a str {
    metric.get_label().iter().find(|label| label.name() == name).map_or("", LabelPair::value)
}
