use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::client::Body;
use lockstep_engine::action::{Action, ErrorKind, Scope, WatchCommand};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::run::Options;
use crate::shutdown;
use crate::testing::{Scripted, client, driver, json};

/// Returns the events of a watch over ten minutes, each with its time in milliseconds.
async fn seen(client: kube::Client) -> Vec<(u64, Event)> {
    let (machine, seen) = Scripted::new(|event, _| match event {
        Event::Started => {
            let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
            vec![(
                1,
                Action::Watch(WatchCommand::Start {
                    kind,
                    scope: Scope { metadata_only: true, ..Scope::default() },
                }),
            )]
        }
        _ => Vec::new(),
    });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver(machine, client, Options::default()).run(shutdown));
    sleep(Duration::from_mins(10)).await;
    trigger.pull();
    task.await.unwrap();
    std::mem::take(&mut *seen.lock().unwrap())
}

fn times(seen: &[(u64, Event)], of: fn(&Event) -> bool) -> Vec<u64> {
    seen.iter().filter(|(_, event)| of(event)).map(|(at, _)| *at).collect()
}

fn empty_list() -> http::Response<Body> {
    let metadata = json!({ "resourceVersion": "9" });
    json(200, &json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": [] }))
}

/// Returns a server whose answers to lists and watches depend on their number so far. A watch without an answer stays open.
fn server(
    list: fn(usize) -> http::Response<Body>,
    watch: fn(usize) -> Option<http::Response<Body>>,
) -> kube::Client {
    let counts = Arc::<[AtomicUsize; 2]>::default();
    client(move |request| {
        let counts = Arc::clone(&counts);
        async move {
            if !request.uri().query().unwrap_or_default().contains("watch=true") {
                return list(counts[0].fetch_add(1, Ordering::SeqCst));
            }
            match watch(counts[1].fetch_add(1, Ordering::SeqCst)) {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    })
}

/// A completed list clears a refusal, and a refusal the list. So after a refusal, only a running watch may report a completed
/// list.
#[tokio::test(start_paused = true)]
async fn what_can_be_listed_but_not_watched_is_completed_again_only_when_its_watch_runs() {
    for (code, reason, class) in
        [(403, "Forbidden", ErrorKind::Forbidden), (405, "MethodNotAllowed", ErrorKind::Invalid)]
    {
        let granted = Instant::now() + Duration::from_mins(5);
        let seen = seen(client(move |request| async move {
            if !request.uri().query().unwrap_or_default().contains("watch=true") {
                return empty_list();
            }
            if Instant::now() < granted {
                return json(
                    code,
                    &json!({ "kind": "Status", "code": code, "reason": reason, "message": "no" }),
                );
            }
            std::future::pending().await
        }))
        .await;
        let begun = times(&seen, |event| matches!(event, Event::ListStarted { .. }));
        let completed = times(&seen, |event| matches!(event, Event::ListCompleted { .. }));
        let failed = times(&seen, |event| matches!(event, Event::WatchFailed { .. }));
        let is_reported =
            |event: &Event| matches!(event, Event::WatchFailed { failure, .. } if failure.class == class);
        assert!(seen.iter().any(|(_, event)| is_reported(event)), "{code}: {seen:?}");
        assert!((5..=20).contains(&failed.len()), "{code}: {failed:?}");
        assert_eq!(begun.len(), failed.len() + 1, "{code}: what is not watched is listed now and then");
        assert_eq!(completed.len(), 2, "{code}: {completed:?}");
        assert!(completed[0] <= failed[0], "{code}: at first nothing is known of a refusal");
        assert!((300_000..=370_000).contains(&completed[1]), "{code}: {completed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panicking_watch_reports_a_failure_and_restarts() {
    let list = |before| {
        assert!(before > 0, "on purpose");
        empty_list()
    };
    let seen = seen(server(list, |_| None)).await;
    let failures = seen.iter().filter_map(|(_, event)| match event {
        Event::WatchFailed { failure, .. } => Some(failure.message.as_str()),
        _ => None,
    });
    assert_eq!(failures.collect::<Vec<_>>(), ["the watch panicked; this is a bug in Lockstep"]);
    assert_eq!(times(&seen, |event| matches!(event, Event::ListCompleted { .. })).len(), 1, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_can_not_be_read_is_made_up_for_by_a_list() {
    let unreadable = |before| (before == 0).then(|| json(200, &json!({ "type": "MODIFIED", "object": [] })));
    let seen = seen(server(|_| empty_list(), unreadable)).await;
    assert_eq!(times(&seen, |event| matches!(event, Event::WatchFailed { .. })).len(), 1, "{seen:?}");
    assert_eq!(times(&seen, |event| matches!(event, Event::ListCompleted { .. })).len(), 2, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_to_be_left_alone_is() {
    let list = |before| {
        if before > 0 {
            return empty_list();
        }
        let details = json!({ "retryAfterSeconds": 60 });
        json(429, &json!({ "kind": "Status", "code": 429, "reason": "TooManyRequests", "details": details }))
    };
    let seen = seen(server(list, |_| None)).await;
    let completed = times(&seen, |event| matches!(event, Event::ListCompleted { .. }));
    assert!(matches!(completed[..], [60_000..=61_000]), "{completed:?}");
}

/// A proxy may answer a watch and end it at once, each time.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_at_once_is_reported_and_repeated_with_pauses() {
    let seen = seen(server(|_| empty_list(), |_| Some(answer("")))).await;
    let failures: Vec<&str> = seen
        .iter()
        .filter_map(|(_, event)| match event {
            Event::WatchFailed { failure, .. } => Some(failure.message.as_str()),
            _ => None,
        })
        .collect();
    assert!((15..=40).contains(&failures.len()), "{failures:?}");
    assert!(
        failures.iter().all(|message| message.contains("the API server ended the watch at once")),
        "{failures:?}"
    );
}

/// Returns an answer with this text. `"DEEP"` is replaced by more levels than the parser follows.
fn answer(text: &str) -> http::Response<Body> {
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    http::Response::new(Body::from(text.replace("\"DEEP\"", &deep).into_bytes()))
}

fn object(name: &str, version: &str) -> serde_json::Value {
    let managed = json!([{ "fieldsV1": "DEEP" }]);
    json!({ "metadata": { "name": name, "resourceVersion": version, "managedFields": managed }, "data": "DEEP" })
}

#[tokio::test(start_paused = true)]
async fn an_object_that_nests_too_deeply_hides_no_other() {
    let list = |_| {
        let items = [object("a", "7"), object("b", "8")];
        answer(&json!({ "metadata": { "resourceVersion": "9" }, "items": items }).to_string())
    };
    let watch = |before| {
        let object = object("a", "10");
        // An API server names the type of an event first.
        (before == 0).then(|| answer(&format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}")))
    };
    let seen = seen(server(list, watch)).await;
    let applied = seen.iter().filter_map(|(_, event)| match event {
        Event::Applied { object, .. } => Some(&**object),
        _ => None,
    });
    let expected = [("a", "7"), ("b", "8"), ("a", "10")]
        .map(|(name, version)| json!({ "metadata": { "name": name, "resourceVersion": version } }));
    assert!(applied.eq(&expected), "{seen:?}");
    assert_eq!(times(&seen, |event| matches!(event, Event::ListStarted { .. })).len(), 1, "{seen:?}");
}
