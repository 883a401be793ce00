//! Where a machine's notes go: the log, the metrics and, where someone listens, the live view.

use std::time::Duration;

use lockstep_core::engine::action::{Action, Failure, Outcome};
use lockstep_core::engine::machine::{Note, ReconcileResult};
use lockstep_core::object::{Kind, ObjectRef};
use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, error, info, warn};

use crate::metrics::Metrics;
use crate::spans::Spans;

/// One note with the name of the controller that told it.
#[derive(Debug, Clone)]
pub struct Told {
    /// The controller.
    pub controller: &'static str,
    /// What it told.
    pub note: Note,
}

/// Passes on what one controller tells.
#[derive(Debug, Clone)]
pub struct Observer {
    metrics: Metrics,
    sink: Option<UnboundedSender<Told>>,
    spans: Option<Spans>,
}

impl Observer {
    /// Logs and counts.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, sink: None, spans: None }
    }

    /// Sends every note to the sink as well.
    #[must_use]
    pub fn with_sink(self, sink: UnboundedSender<Told>) -> Self {
        Self { sink: Some(sink), ..self }
    }

    /// Exports what belongs to traces.
    #[must_use]
    pub fn exporting(self, spans: Option<Spans>) -> Self {
        Self { spans, ..self }
    }

    pub(crate) fn note(&self, controller: &'static str, note: Note) {
        match &note {
            Note::Reconciled { reconciler, object, result, took } => {
                self.metrics.reconciled(controller, reconciler, result, *took);
                log_reconcile(controller, reconciler, object, result, *took);
            }
            Note::ConditionChanged { object, condition, status, reason, message } => {
                let (kind, namespace, name) = parts(object);
                info!(controller, kind, namespace, name, condition, status, reason, "{message}");
            }
            Note::EventAnnounced { object, warning, reason, note, .. } => {
                let (kind, namespace, name) = parts(object);
                let event = if *warning { "Warning" } else { "Normal" };
                debug!(controller, kind, namespace, name, event, reason, "{note}");
            }
            Note::LeadershipChanged { leading } => {
                self.metrics.set_leader(*leading);
                info!(controller, leading, "leadership {}", if *leading { "acquired" } else { "given up" });
            }
            Note::Error { message } => error!(controller, "{message}"),
            Note::Warning { message } => warn!(controller, "{message}"),
            Note::Told { debug: true, message } => debug!(controller, "{message}"),
            Note::Told { debug: false, message } => info!(controller, "{message}"),
            Note::Measured(measure) => self.metrics.measured(measure),
            Note::Traced(span) => {
                if let Some(spans) = &self.spans {
                    spans.told(span);
                }
            }
        }
        if let Some(sink) = &self.sink {
            // A closed sink means that nobody reads any more, as when the live view has ended before the drivers.
            let _ = sink.send(Told { controller, note });
        }
    }

    pub(crate) fn queue_depths(&self, controller: &str, depths: Vec<(&'static str, usize)>) {
        for (reconciler, depth) in depths {
            self.metrics.queue_depth(controller, reconciler, depth);
        }
    }

    pub(crate) fn action(&self, controller: &str, action: &Action, outcome: &Outcome, took: Duration) {
        self.metrics.action(controller, action, outcome, took);
        let result = outcome.as_ref().map_or_else(|failure| failure.class.name(), |_| "ok");
        let took_ms = millis(took);
        match (action.target(), outcome) {
            (Some(target), Err(failure)) => {
                let (kind, namespace, name) = parts(target);
                debug!(
                    controller,
                    action = action.name(),
                    kind,
                    namespace,
                    name,
                    result,
                    took_ms,
                    "{}",
                    failure.message
                );
            }
            (Some(target), Ok(_)) => {
                let (kind, namespace, name) = parts(target);
                debug!(controller, action = action.name(), kind, namespace, name, result, took_ms, "done");
            }
            (None, _) => debug!(controller, action = action.name(), result, took_ms, "done"),
        }
    }

    pub(crate) fn watch_failed(&self, controller: &str, kind: &Kind, failure: &Failure) {
        let kind = kind.to_string();
        self.metrics.watch_failed(controller, &kind, failure.class.name());
        warn!(controller, kind, result = failure.class.name(), "watch: {}", failure.message);
    }
}

fn log_reconcile(
    controller: &str,
    reconciler: &str,
    object: &ObjectRef,
    result: &ReconcileResult,
    took: Duration,
) {
    let (kind, namespace, name) = parts(object);
    let took_ms = millis(took);
    let ended = result.name();
    match result {
        ReconcileResult::Converged | ReconcileResult::Abandoned => {
            debug!(controller, reconciler, kind, namespace, name, result = ended, took_ms, "reconciled");
        }
        ReconcileResult::Requeued { after } => {
            let after_ms = millis(*after);
            debug!(
                controller,
                reconciler,
                kind,
                namespace,
                name,
                result = ended,
                after_ms,
                took_ms,
                "reconciled"
            );
        }
        ReconcileResult::Failed { reason, retry_after } => {
            let retry_after_ms = millis(*retry_after);
            warn!(
                controller,
                reconciler,
                kind,
                namespace,
                name,
                result = ended,
                retry_after_ms,
                took_ms,
                "{reason}"
            );
        }
    }
}

fn parts(object: &ObjectRef) -> (&str, &str, &str) {
    (&object.kind.kind, object.namespace.as_deref().unwrap_or_default(), &object.name)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
