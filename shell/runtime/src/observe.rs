//! The destinations of a machine's notes: the log, the metrics and the optional live view.

use std::time::Duration;

use lockstep_engine::action::{Action, Failure, Outcome};
use lockstep_engine::machine::{Event, Note, ReconcileResult, Workload};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_engine::time::Monotonic;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, error, info, warn};

use crate::metrics::Metrics;
use crate::spans::Spans;

/// A note with the name of its controller.
#[derive(Debug, Clone)]
pub struct ControllerNote {
    /// The controller.
    pub controller: &'static str,
    /// The note.
    pub note: Note,
}

/// Forwards the notes of one controller.
#[derive(Debug, Clone)]
pub struct Observer {
    metrics: Metrics,
    sink: Option<UnboundedSender<ControllerNote>>,
    spans: Option<Spans>,
}

impl Observer {
    /// Creates an observer that logs and counts.
    pub fn new(metrics: Metrics) -> Self {
        Self { metrics, sink: None, spans: None }
    }

    /// Sends every note to the sink as well.
    #[must_use]
    pub fn with_sink(self, sink: UnboundedSender<ControllerNote>) -> Self {
        Self { sink: Some(sink), ..self }
    }

    /// Exports the spans of notes that belong to traces.
    #[must_use]
    pub fn exporting(self, spans: Option<Spans>) -> Self {
        Self { spans, ..self }
    }

    pub(crate) fn note(&self, controller: &'static str, note: Note) {
        match &note {
            Note::Reconciled { reconciler, object, result, waited, took } => {
                self.metrics.reconciled(controller, reconciler, result, [*waited, *took]);
                log_reconcile(controller, reconciler, object, result, *took);
            }
            Note::ConditionChanged { object, condition, status, reason, message, warning } => {
                let (kind, namespace, name) = parts(object);
                if *warning {
                    warn!(controller, kind, namespace, name, condition, status, reason, "{message}");
                } else {
                    info!(controller, kind, namespace, name, condition, status, reason, "{message}");
                }
            }
            Note::EventAnnounced { object, warning, reason, note, .. } => {
                let (kind, namespace, name) = parts(object);
                let event_type = if *warning { "Warning" } else { "Normal" };
                debug!(controller, kind, namespace, name, event_type, reason, "{note}");
            }
            Note::LeadershipChanged { leading } => {
                self.metrics.set_leader(*leading);
                info!(controller, leading, "leadership {}", if *leading { "acquired" } else { "given up" });
            }
            Note::Error { message, objects } => {
                let Fields { kind, namespace, name, related_kind, related_namespace, related_name } =
                    fields(objects);
                error!(
                    controller,
                    kind, namespace, name, related_kind, related_namespace, related_name, "{message}"
                );
            }
            Note::Warning { message } => warn!(controller, "{message}"),
            Note::Log { debug, message, objects } => log(controller, *debug, message, &fields(objects)),
            Note::Published { event, resource_type, resource } => {
                info!(controller, event, resource_type, resource, "event published");
            }
            Note::Measured(measure) => self.metrics.measured(measure),
            Note::Traced(span) => {
                if let Some(spans) = &self.spans {
                    spans.record(span);
                }
            }
        }
        if let Some(sink) = &self.sink {
            // A closed sink has no receiver, for example if the live view has ended before the drivers.
            let _ = sink.send(ControllerNote { controller, note });
        }
    }

    pub(crate) fn workload(&self, controller: &'static str, workload: &Workload, now: Monotonic) {
        self.metrics.workload(controller, workload, now);
    }

    pub(crate) fn watched(&self, event: &Event) {
        self.metrics.watched(event);
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
            (None, Err(failure)) => {
                debug!(controller, action = action.name(), result, took_ms, "{}", failure.message);
            }
            (None, Ok(_)) => debug!(controller, action = action.name(), result, took_ms, "done"),
        }
    }

    pub(crate) fn watch_failed(&self, controller: &str, kind: &Kind, failure: &Failure) {
        let result = failure.class.name();
        self.metrics.watch_failed(controller, &kind.to_string(), result);
        let (kind, api_version) = (&kind.kind, kind.api_version());
        warn!(controller, kind, api_version, result, "watch: {}", failure.message);
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
        // The condition of the object reports this too, and its change is logged at WARN.
        ReconcileResult::Failed { reason, retry_after, user_error: true } => {
            let retry_after_ms = millis(*retry_after);
            info!(
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
        ReconcileResult::Failed { reason, retry_after, user_error: false } => {
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

fn log(controller: &str, debug: bool, message: &str, fields: &Fields<'_>) {
    let Fields { kind, namespace, name, related_kind, related_namespace, related_name } = fields;
    if debug {
        debug!(controller, kind, namespace, name, related_kind, related_namespace, related_name, "{message}");
    } else {
        info!(controller, kind, namespace, name, related_kind, related_namespace, related_name, "{message}");
    }
}

/// The fields of the objects that a line is about; those of missing objects are left out of the line.
#[derive(Default)]
struct Fields<'a> {
    kind: Option<&'a str>,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    related_kind: Option<&'a str>,
    related_namespace: Option<&'a str>,
    related_name: Option<&'a str>,
}

fn fields(objects: &[ObjectRef]) -> Fields<'_> {
    let mut fields = Fields::default();
    if let Some(object) = objects.first() {
        fields.kind = Some(&object.kind.kind);
        fields.namespace = object.namespace.as_deref();
        fields.name = Some(&object.name);
    }
    if let Some(related) = objects.get(1) {
        fields.related_kind = Some(&related.kind.kind);
        fields.related_namespace = related.namespace.as_deref();
        fields.related_name = Some(&related.name);
    }
    fields
}

/// Returns the fields of an object; one without a namespace has no such field.
fn parts(object: &ObjectRef) -> (&str, Option<&str>, &str) {
    (&object.kind.kind, object.namespace.as_deref(), &object.name)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
