use std::io;
use std::sync::{Arc, Mutex};

use lockstep_engine::action::{ErrorKind, KubeRequest, Success};
use serde_json::{Map, Value};

use super::*;

/// Collects what is written to the log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn observer() -> Observer {
    Observer::new(Metrics::new(prometheus::Registry::new()).unwrap())
}

/// Returns what is logged about a note, in the format for people.
fn logged(note: Note) -> String {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || observer().note("namespaceclass", note));
    written.text()
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
        let line = logged(Note::Reconciled { reconciler, object: class(), result: result_of, waited, took });
        assert!(line.starts_with(level) && line.contains(&format!("result=\"{result}\"")), "{line}");
    }
}

/// Returns the lines of the format JSON at the level debug.
fn lines(log: impl FnOnce(&Observer)) -> Vec<Map<String, Value>> {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_target(false)
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || log(&observer()));
    written.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the keys of a line, in alphabetical order, without those of every line.
fn keys(line: &Map<String, Value>) -> String {
    for key in ["timestamp", "level", "message", "controller"] {
        assert!(line[key].is_string(), "{key}: {line:?}");
    }
    let others =
        line.keys().filter(|key| !["timestamp", "level", "message", "controller"].contains(&&***key));
    others.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// Other programs read these keys: a change of this table is a change for users.
#[test]
fn the_keys_of_each_line_are_stable_and_documented() {
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let map = || ObjectRef::namespaced(&kind, "shop", "settings");
    let text = |text: &str| text.to_owned();
    let reconciled = |result| Note::Reconciled {
        reconciler: text("binding"),
        object: map(),
        result,
        waited: Duration::ZERO,
        took: Duration::ZERO,
    };
    let failed =
        |user_error| ReconcileResult::Failed { reason: text("no"), retry_after: Duration::ZERO, user_error };
    let changed = |object| Note::ConditionChanged {
        object,
        condition: text("Ready"),
        status: text("False"),
        reason: text("ApplyFailed"),
        message: text("no"),
        warning: true,
    };
    let announced = Note::EventAnnounced {
        object: map(),
        uid: "1".into(),
        warning: true,
        reason: text("ApplyFailed"),
        note: text("no"),
    };
    let published =
        Note::Published { event: text("evt-1"), resource_type: text("clusters"), resource: text("c-1") };
    let notes = [
        (changed(class()), "condition kind name reason status"),
        (changed(map()), "condition kind name namespace reason status"),
        (announced, "event_type kind name namespace reason"),
        (reconciled(ReconcileResult::Converged), "kind name namespace reconciler result took_ms"),
        (
            reconciled(ReconcileResult::Requeued { after: Duration::ZERO }),
            "after_ms kind name namespace reconciler result took_ms",
        ),
        (reconciled(failed(true)), "kind name namespace reconciler result retry_after_ms took_ms"),
        (reconciled(failed(false)), "kind name namespace reconciler result retry_after_ms took_ms"),
        (Note::LeadershipChanged { leading: true }, "leading"),
        (Note::Warning { message: text("no") }, ""),
        (published, "event resource resource_type"),
        (
            Note::Error { message: text("no"), objects: vec![map(), class()] },
            "kind name namespace related_kind related_name",
        ),
        (Note::Log { debug: false, message: text("no"), objects: vec![class()] }, "kind name"),
    ];
    let page = include_str!("../../../../docs/logs.md");
    let check = |line: &Map<String, Value>, expected: &str| {
        assert_eq!(keys(line), expected, "{line:?}");
        for key in line.keys() {
            assert!(page.contains(&format!("| `{key}` |")), "docs/logs.md does not document {key}");
        }
    };
    for (note, expected) in notes {
        let lines = lines(|observer| observer.note("namespaceclass", note));
        let [line] = &lines[..] else { panic!("{lines:?}") };
        check(line, expected);
    }
    let failure = Failure::new(ErrorKind::Forbidden, "no");
    let get = Action::Kube(KubeRequest::Get { target: map(), metadata_only: false });
    let discover = Action::Kube(KubeRequest::Discover { api_version: text("v1") });
    let lines = lines(|observer| {
        observer.watch_failed("namespaceclass", &kind, &failure);
        observer.action("namespaceclass", &get, &Err(failure.clone()), Duration::ZERO);
        observer.action("namespaceclass", &get, &Ok(Success::Done), Duration::ZERO);
        observer.action("namespaceclass", &discover, &Err(failure.clone()), Duration::ZERO);
    });
    let expected = [
        "api_version kind result",
        "action kind name namespace result took_ms",
        "action kind name namespace result took_ms",
        "action result took_ms",
    ];
    assert_eq!(lines.len(), expected.len());
    for (line, expected) in lines.iter().zip(expected) {
        check(line, expected);
    }
    assert_eq!(lines[3]["message"], "no", "the failure of a request without an object is logged too");
}
