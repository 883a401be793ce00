//! The work queues and workers of machines, as they are at the last measurement.

use std::collections::BTreeMap;
use std::ops::Add;
use std::sync::{Arc, Mutex, PoisonError};

use lockstep_engine::machine::Workload;
use lockstep_engine::time::Monotonic;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};
use tokio::time::Instant;

use crate::metrics::derived::queue_name;

type Running = BTreeMap<(&'static str, String), Vec<Instant>>;

/// The metrics of work queues and workers.
#[derive(Debug, Clone)]
pub(super) struct Queues {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    active_workers: IntGaugeVec,
    max_concurrent: IntGaugeVec,
    /// When the reconciles in progress began, by controller and queue.
    running: Arc<Mutex<Running>>,
    /// The next two are computed during a scrape, which holds the lock: work gets older without a measurement.
    unfinished: GaugeVec,
    longest: GaugeVec,
}

impl Queues {
    pub(super) fn new() -> prometheus::Result<Self> {
        let (of_queue, of_controller) = (["controller", "name"], ["controller"]);
        let gauge = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &of_controller);
        let seconds = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &of_queue);
        Ok(Self {
            depth: IntGaugeVec::new(Opts::new("workqueue_depth", "Items in the work queue."), &of_queue)?,
            adds: IntCounterVec::new(
                Opts::new("workqueue_adds_total", "Items that were added to the work queue."),
                &of_queue,
            )?,
            active_workers: gauge("controller_runtime_active_workers", "Reconciles in progress.")?,
            max_concurrent: gauge(
                "controller_runtime_max_concurrent_reconciles",
                "The maximum number of reconciles at a time.",
            )?,
            running: Arc::default(),
            unfinished: seconds(
                "workqueue_unfinished_work_seconds",
                "Sum of the durations so far of the reconciles in progress.",
            )?,
            longest: seconds(
                "workqueue_longest_running_processor_seconds",
                "Duration so far of the longest reconcile in progress.",
            )?,
        })
    }

    /// Sets the state of a controller's queue. The item was added if its reconcile has `finished` or runs, or if it waits.
    pub(super) fn measure(
        &self,
        controller: &'static str,
        workload: &Workload,
        now: Monotonic,
        finished: impl Fn(&str) -> u64,
    ) {
        for queue in &workload.queues {
            let name = queue_name(controller, queue.name);
            self.depth.with_label_values(&[controller, &name]).set(number(queue.waiting));
            if workload.concurrency.is_none() {
                continue;
            }
            let adds = self.adds.with_label_values(&[controller, &name]);
            let open = u64::try_from(queue.waiting + queue.running.len()).unwrap_or(u64::MAX);
            adds.inc_by((finished(queue.name) + open).saturating_sub(adds.get()));
            let began = queue.running.iter().map(|began| Instant::now() - now.since(*began)).collect();
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.insert((controller, name), began);
        }
        if let Some(concurrency) = workload.concurrency {
            let active = workload.queues.iter().map(|queue| queue.running.len()).sum();
            self.active_workers.with_label_values(&[controller]).set(number(active));
            self.max_concurrent.with_label_values(&[controller]).set(number(concurrency));
        }
    }

    fn parts(&self) -> [&dyn Collector; 6] {
        [&self.depth, &self.adds, &self.active_workers, &self.max_concurrent, &self.unfinished, &self.longest]
    }
}

impl Collector for Queues {
    fn desc(&self) -> Vec<&Desc> {
        self.parts().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for ((controller, name), began) in &*running {
            let elapsed = || began.iter().map(|began| began.elapsed().as_secs_f64());
            self.unfinished.with_label_values(&[*controller, name]).set(elapsed().fold(0.0, Add::add));
            self.longest.with_label_values(&[*controller, name]).set(elapsed().fold(0.0, f64::max));
        }
        self.parts().into_iter().flat_map(Collector::collect).collect()
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
