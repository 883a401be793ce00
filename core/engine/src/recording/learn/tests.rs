use serde_json::json;

use super::*;
use crate::action::{ActionId, Outcome};

const SECRET: &str = "team-blue";

fn applied(kind: &Arc<Kind>, object: Value) -> Event {
    Event::Applied { kind: Arc::clone(kind), object: Arc::new(object) }
}

fn finished(answer: Success) -> Event {
    let outcome: Outcome = Ok(answer);
    Event::Finished { id: ActionId(1), outcome }
}

fn config_maps() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

/// Returns a tracker that knows one secret.
fn tracker() -> SecretTracker {
    let mut tracker = SecretTracker::new([7; 32], Traits::NONE);
    let secrets = Kind::known("", "v1", "Secret", "secrets", true);
    let secret = json!({ "metadata": { "name": "a" }, "data": { "a": STANDARD.encode(SECRET) } });
    assert!(tracker.learn(&applied(&secrets, secret)).is_some_and(|update| update.rewrites));
    tracker
}

/// Returns whether the secret is hidden within a message.
fn is_hidden_within_texts(tracker: &SecretTracker) -> bool {
    let mut message = json!({ "message": format!("{SECRET} was refused") });
    tracker.redactor().redact(&mut message);
    !message["message"].as_str().unwrap().contains(SECRET)
}

/// Decisions depend on the order of names, so they can't be replaced.
#[test]
fn what_turns_out_to_be_part_of_a_name_is_hidden_within_texts_no_more() {
    let named = |object: Value| applied(&config_maps(), object);
    let kind = |group: &str, version: &str, kind: &str, plural: &str| Event::ListStarted {
        kind: Kind::known(group, version, kind, plural, true),
    };
    let answered = Kind::known("team-blue.example.com", "v1", "A", "as", true);
    let object = |name: &str| Arc::new(json!({ "metadata": { "name": name } }));
    let reference = |field: &str| named(json!({ "spec": { "ref": { "kind": "A", field: "my-team-blue" } } }));
    let events = [
        named(json!({ "metadata": { "name": "my-team-blue" } })),
        named(json!({ "metadata": { "generateName": "team-blue-" } })),
        named(json!({ "metadata": { "namespace": "team-blue" } })),
        named(json!({ "metadata": { "labels": { "team": "team-blue" } } })),
        named(json!({ "metadata": { "labels": { "example.com/team-blue": "" } } })),
        named(json!({ "spec": { "team-blue": 1 } })),
        named(json!({ "spec": { "items": [{ "team-blue": 1 }, { "a": 1 }] } })),
        named(json!({ "spec": { "className": "team-blue" } })),
        named(json!({ "status": { "observedClassName": "team-blue" } })),
        reference("name"),
        reference("namespace"),
        reference("apiVersion"),
        named(json!({ "kind": "team-blue" })),
        kind("team-blue", "v1", "A", "as"),
        kind("", "team-blue", "A", "as"),
        kind("", "v1", "team-blue", "as"),
        kind("", "v1", "A", "team-blue"),
        finished(Success::Object(object("team-blue-1"))),
        finished(Success::Objects(vec![object("a"), object("team-blue-1"), object("b")])),
        finished(Success::Kinds(vec![Kind::known("", "v1", "B", "bs", true), answered])),
    ];
    for event in events {
        let mut tracker = tracker();
        assert!(is_hidden_within_texts(&tracker));
        let update = tracker.learn(&event).unwrap_or_else(|| panic!("nothing was learned: {event:?}"));
        assert!(update.rewrites, "it is stored without the name: {event:?}");
        assert!(!is_hidden_within_texts(&tracker), "{event:?}");
        assert!(tracker.learn(&event).is_none(), "it is known: {event:?}");
    }
}

#[test]
fn what_is_no_name_leaves_secrets_hidden() {
    let events = [
        json!({ "metadata": { "name": "green", "annotations": { "a": "team-blue" } } }),
        json!({ "metadata": { "managedFields": [{ "fieldsV1": { "v:\"team-blue\"": {} } }] } }),
        json!({ "spec": { "name": "team-blue", "message": "team-blue" } }),
        json!({ "data": { "team-blue": "1" }, "kind": "Secret", "metadata": { "name": "b" } }),
        json!({ "data": { "className": "team-blue" } }),
    ];
    for object in events {
        let mut tracker = tracker();
        tracker.learn(&applied(&config_maps(), object.clone()));
        assert!(is_hidden_within_texts(&tracker), "{object}");
    }
}

#[test]
fn a_secret_that_is_part_of_a_known_name_is_hidden_only_as_a_whole() {
    let mut tracker = SecretTracker::new([7; 32], Traits::NONE);
    assert!(
        tracker.learn(&applied(&config_maps(), json!({ "metadata": { "name": "my-team-blue" } }))).is_none()
    );
    let secret = json!({ "kind": "Secret", "metadata": { "name": "a" }, "stringData": { "a": SECRET } });
    assert!(tracker.learn(&applied(&config_maps(), secret)).is_some());
    assert!(!is_hidden_within_texts(&tracker));
    let mut value = json!({ "annotations": { "a": SECRET } });
    tracker.redactor().redact(&mut value);
    assert_ne!(value["annotations"]["a"], SECRET);
}
