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
                let event = if *warning { "Warning" } else { "Normal" };
                debug!(controller, kind, namespace, name, event, reason, "{note}");
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

fn parts(object: &ObjectRef) -> (&str, &str, &str) {
    (&object.kind.kind, object.namespace.as_deref().unwrap_or_default(), &object.name)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Collects what is written to the log.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(note: Note) -> String {
        let (written, observer) =
            (Written::default(), Observer::new(Metrics::new(prometheus::Registry::new()).unwrap()));
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || observer.note("namespaceclass", note));
        let text = written.0.lock().unwrap().clone();
        String::from_utf8(text).unwrap()
    }

    fn class() -> ObjectRef {
        let kind =
            Kind::known("namespaceclass.akuity.io", "v1alpha1", "NamespaceClass", "namespaceclasses", false);
        ObjectRef::cluster(&kind, "web")
    }

    #[test]
    fn a_condition_that_someone_should_look_at_is_logged_at_warn() {
        for (warning, level) in [(true, " WARN "), (false, " INFO ")] {
            let text = |text: &str| text.to_owned();
            let line = logged(Note::ConditionChanged {
                object: class(),
                condition: text("Valid"),
                status: text("False"),
                reason: text("InvalidResources"),
                message: text("spec.resources[0]: it has no name"),
                warning,
            });
            assert!(line.starts_with(level) && line.contains("spec.resources[0]"), "{line}");
        }
    }

    #[test]
    fn the_objects_of_a_message_are_fields() {
        let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
        let related = ObjectRef::namespaced(&Kind::known("", "v1", "Secret", "secrets", true), "ns", "pull");
        for (objects, expected) in [
            (vec![], ""),
            (vec![ObjectRef::cluster(&kind, "a")], r#" kind="Namespace" name="a""#),
            (
                vec![class(), related],
                r#" kind="NamespaceClass" name="web" related_kind="Secret" related_namespace="ns" related_name="pull""#,
            ),
        ] {
            let message = "found".to_owned();
            let expected = format!(r#"found controller="namespaceclass"{expected}"#);
            for (level, note) in [
                (" INFO ", Note::Log { debug: false, message: message.clone(), objects: objects.clone() }),
                ("ERROR ", Note::Error { message, objects }),
            ] {
                assert_eq!(logged(note).trim_end(), format!("{level}{expected}"));
            }
        }
    }

    #[test]
    fn each_published_event_is_logged_with_its_resource() {
        let [event, resource_type, resource] = ["evt-1", "clusters", "c-1"].map(str::to_owned);
        let line = logged(Note::Published { event, resource_type, resource });
        let expected = r#"event published controller="namespaceclass" event="evt-1" resource_type="clusters" resource="c-1""#;
        assert_eq!(line.trim(), format!("INFO {expected}"));
    }

    #[test]
    fn a_failure_is_logged_at_warn_and_an_error_of_a_user_is_not() {
        for (user_error, level, result) in [(false, " WARN ", "failed"), (true, " INFO ", "user_error")] {
            let result_of =
                ReconcileResult::Failed { reason: "no".to_owned(), retry_after: Duration::ZERO, user_error };
            let (reconciler, [waited, took]) = ("binding".to_owned(), [Duration::ZERO; 2]);
            let line =
                logged(Note::Reconciled { reconciler, object: class(), result: result_of, waited, took });
            assert!(line.starts_with(level) && line.contains(&format!("result=\"{result}\"")), "{line}");
        }
    }
}
