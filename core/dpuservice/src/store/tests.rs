use lockstep_engine::time::Wall;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{Fixture, argo, deleting};

/// Argo CD would abandon such an Application, and not delete what it has deployed.
#[test]
fn only_what_terminates_at_an_old_server_of_a_cluster_that_exists_is_on_a_stale_server() {
    let elsewhere = |object: &mut Value| object["spec"]["destination"]["server"] = json!("https://old");
    let both = |object: &mut Value| {
        deleting(object);
        elsewhere(object);
    };
    for (name, change, has_cluster, has_secret, expected) in [
        ("terminates elsewhere", &both as &dyn Fn(&mut Value), true, true, true),
        ("stays elsewhere", &elsewhere, true, true, false),
        ("terminates here", &deleting, true, true, false),
        ("its cluster is gone", &both, false, true, false),
        ("no server is known", &both, true, false, false),
    ] {
        let mut fixture = Fixture::default();
        if has_cluster {
            fixture.cluster("c1", "Ready");
        }
        if has_secret {
            fixture.secret("c1", |_| ());
        }
        fixture.app("a", "c1", |object| change(object));
        let app = fixture.store.applications.get(&argo("a")).expect("the Application");
        assert_eq!(fixture.store.is_on_stale_server(app), expected, "{name}");
    }
}

/// Changes an Application: Argo CD compares with the current version of the chart, and still syncs the one before.
pub(crate) fn outdated(began: &'static str) -> impl Fn(&mut Value) {
    move |object| {
        let current = json!({ "repoURL": "https://charts", "chart": "svc", "targetRevision": "1.0.0" });
        let before = json!({ "repoURL": "https://charts", "chart": "svc", "targetRevision": "0.9.0" });
        let destination = object["spec"]["destination"].clone();
        object["status"]["sync"] = json!({
            "status": "OutOfSync", "comparedTo": { "source": current, "destination": destination },
        });
        object["status"]["operationState"] =
            json!({ "phase": "Running", "startedAt": began, "syncResult": { "source": before } });
    }
}

pub(crate) fn at(second: u64) -> Now {
    let wall = Wall::from_timestamp(k8s_openapi::jiff::Timestamp::UNIX_EPOCH);
    Now { wall, monotonic: Monotonic::START + Duration::from_secs(second) }
}

#[test]
fn each_outdated_sync_has_a_time_of_its_own() {
    const BEGAN: &str = "2026-01-01T00:00:00Z";
    const AGAIN: &str = "2026-01-01T01:00:00Z";
    let service = crate::fixture::service();
    let mut fixture = Fixture::default();
    fixture.service(json!({})).app("a", "c1", outdated(BEGAN)).app("b", "c2", |_| ());
    let overdue = |store: &Store, second| {
        store.overdue(&service, at(second)).map(|(name, _)| name.name.clone()).collect::<Vec<_>>()
    };
    fixture.store.note_held_up(&service, at(0));
    assert_eq!(fixture.store.next_overdue(&service, at(0)), Some(Duration::from_mins(5)));
    fixture.app("b", "c2", outdated(BEGAN));
    fixture.store.note_held_up(&service, at(100));
    assert_eq!(fixture.store.next_overdue(&service, at(100)), Some(Duration::from_secs(200)));
    assert_eq!(overdue(&fixture.store, 299), [""; 0]);
    assert_eq!(overdue(&fixture.store, 300), ["a"]);
    assert_eq!(overdue(&fixture.store, 400), ["a", "b"]);
    // Another sync has the whole time again.
    fixture.app("a", "c1", outdated(AGAIN));
    fixture.store.note_held_up(&service, at(350));
    assert_eq!(overdue(&fixture.store, 400), ["b"]);
    assert_eq!(overdue(&fixture.store, 650), ["a", "b"]);
    fixture.service(json!({ "paused": true }));
    assert_eq!(fixture.store.next_overdue(&service, at(650)), None);
}
