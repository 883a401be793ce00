use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lockstep_engine::action::{Action, ActionId, ErrorKind, Failure, Scope, Success, WatchCommand};
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::Options;
use crate::shutdown;
use crate::testing::{Scripted, apply, at, client, driver, get, json, record};

const SECOND: Duration = Duration::from_secs(1);

fn finished(id: u64, events: &[(u64, Event)]) -> Option<(u64, Result<Success, Failure>)> {
    events.iter().find_map(|(at, event)| match event {
        Event::Finished { id: ActionId(found), outcome } if *found == id => Some((*at, outcome.clone())),
        _ => None,
    })
}

#[tokio::test(start_paused = true)]
async fn it_starts_and_wakes_at_the_deadline() {
    let (machine, seen) = Scripted::new(|event, deadline| {
        *deadline = matches!(event, Event::Started).then(|| at(SECOND * 5));
        Vec::new()
    });
    let driver = driver(machine, client(|_| async { json(200, &json!({})) }), Options::default());
    let health = driver.health();
    assert!(!health.is_synced());
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(SECOND * 60).await;
    assert!(health.is_synced());
    trigger.pull();
    task.await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [(0, Event::Started), (5000, Event::TimerFired)]);
}

/// A deadline that became an earlier instant would be due again after each step.
#[tokio::test(start_paused = true)]
async fn it_wakes_once_at_each_deadline_after_a_year() {
    const YEAR: Duration = Duration::from_hours(366 * 24);
    let deadlines = [YEAR / 2, YEAR, YEAR + SECOND * 5];
    let mut next = deadlines.into_iter();
    let (machine, seen) = Scripted::new(move |_, deadline| {
        *deadline = next.next().map(at);
        Vec::new()
    });
    let driver = driver(machine, client(|_| async { json(200, &json!({})) }), Options::default());
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(YEAR + SECOND * 60).await;
    trigger.pull();
    task.await.unwrap();
    let stepped = seen.lock().unwrap().iter().map(|(at, _)| Duration::from_millis(*at)).collect::<Vec<_>>();
    assert_eq!(stepped, [&[Duration::ZERO], deadlines.as_slice()].concat());
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_bounded_and_begin_in_order() {
    let most = Arc::new(AtomicUsize::new(0));
    let order = Arc::new(Mutex::new(Vec::new()));
    let (machine, seen) = Scripted::new(|event, _| match event {
        Event::Started => (0..7).map(|id| (id, get(&format!("n{id}")))).collect(),
        _ => Vec::new(),
    });
    let (current, highest, paths) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&most), Arc::clone(&order));
    let client = client(move |request| {
        let (current, highest) = (Arc::clone(&current), Arc::clone(&highest));
        paths.lock().unwrap().push(request.uri().path().to_owned());
        async move {
            highest.fetch_max(current.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(SECOND).await;
            current.fetch_sub(1, Ordering::SeqCst);
            json(200, &json!({}))
        }
    });
    let driver = driver(machine, client, Options { max_in_flight: 2, ..Options::default() });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(SECOND * 10).await;
    trigger.pull();
    task.await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 2);
    let expected = (0..7).map(|id| format!("/api/v1/namespaces/ns/configmaps/n{id}")).collect::<Vec<_>>();
    assert_eq!(*order.lock().unwrap(), expected);
    let seen = seen.lock().unwrap();
    assert_eq!(finished(6, &seen).unwrap().0, 4000);
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_timeout_are_unknown_outcomes() {
    let (machine, seen) = Scripted::new(|event, _| match event {
        Event::Started => vec![(1, get("panic")), (2, apply("hang"))],
        _ => Vec::new(),
    });
    let client = client(|request| async move {
        assert!(!request.uri().path().ends_with("/panic"), "on purpose");
        std::future::pending().await
    });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver(machine, client, Options::default()).run(shutdown));
    sleep(SECOND * 40).await;
    trigger.pull();
    task.await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(finished(1, &seen).unwrap().1.unwrap_err().class, ErrorKind::Unknown);
    let (when, outcome) = finished(2, &seen).unwrap();
    assert_eq!((when, outcome.unwrap_err().class), (30_000, ErrorKind::Unknown));
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_writes_but_not_for_reads_or_queued_actions() {
    let done = Arc::new(Mutex::new(Vec::new()));
    let (machine, seen) = Scripted::new(|event, _| match event {
        Event::Started => vec![(1, get("read")), (2, apply("write")), (3, apply("later"))],
        _ => Vec::new(),
    });
    let ended = Arc::clone(&done);
    let client = client(move |request| {
        let ended = Arc::clone(&ended);
        async move {
            sleep(SECOND * 3).await;
            ended.lock().unwrap().push(request.uri().path().rsplit('/').next().unwrap().to_owned());
            json(200, &json!({}))
        }
    });
    let driver = driver(machine, client, Options { max_in_flight: 2, ..Options::default() });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(SECOND).await;
    let start = Instant::now();
    trigger.pull();
    task.await.unwrap();
    assert_eq!(start.elapsed(), SECOND * 2);
    assert_eq!(*done.lock().unwrap(), ["write"]);
    let seen = seen.lock().unwrap();
    assert!(seen.len() == 2 && finished(2, &seen).is_some(), "only the answer of the write: {seen:?}");
}

/// Returns the names of the objects of requests that reach the server if the driver is stopped after half a second. Each takes a
/// second, one after the other.
async fn carried_out(answer: impl FnMut(&Event) -> Vec<(u64, Action)> + Send + 'static) -> Vec<String> {
    let mut answer = answer;
    let (machine, _) = Scripted::new(move |event, _| answer(event));
    let done = Arc::new(Mutex::new(Vec::new()));
    let ended = Arc::clone(&done);
    let client = client(move |request| {
        let ended = Arc::clone(&ended);
        async move {
            sleep(SECOND).await;
            ended.lock().unwrap().push(request.uri().path().rsplit('/').next().unwrap().to_owned());
            json(200, &json!({}))
        }
    });
    let driver = driver(machine, client, Options { max_in_flight: 1, ..Options::default() });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(SECOND / 2).await;
    trigger.pull();
    task.await.unwrap();
    std::mem::take(&mut *done.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_only_events_are_written() {
    let done = carried_out(|event| match event {
        Event::Started => vec![(1, apply("write")), (2, apply("later")), (3, record("queued"))],
        Event::Finished { id: ActionId(1), .. } => vec![(4, record("announced")), (5, apply("next"))],
        _ => Vec::new(),
    });
    assert_eq!(done.await, ["write", "queued", "announced"]);
}

#[tokio::test(start_paused = true)]
async fn a_queued_event_takes_the_place_of_a_read() {
    let done = carried_out(|event| match event {
        Event::Started => vec![(1, get("read")), (2, record("queued"))],
        _ => Vec::new(),
    });
    assert_eq!(done.await, ["queued"]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_gives_up_on_a_write_after_the_grace_period() {
    let (machine, _) = Scripted::new(|event, _| match event {
        Event::Started => vec![(1, apply("hang"))],
        _ => Vec::new(),
    });
    let (trigger, shutdown) = shutdown::channel();
    let client = client(|_| std::future::pending());
    let task = tokio::spawn(driver(machine, client, Options::default()).run(shutdown));
    sleep(SECOND).await;
    let start = Instant::now();
    trigger.pull();
    task.await.unwrap();
    assert_eq!(start.elapsed(), SECOND * 5);
}

#[tokio::test(start_paused = true)]
async fn what_the_farewell_asks_for_is_carried_out() {
    let (machine, seen) = Scripted::new(|event, _| match event {
        Event::LeadershipChanged { leading: false } => vec![(1, apply("lease"))],
        _ => Vec::new(),
    });
    let final_event = Some(Event::LeadershipChanged { leading: false });
    let client = client(|_| async { json(200, &json!({})) });
    let driver = driver(machine, client, Options { final_event, ..Options::default() });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(SECOND).await;
    trigger.pull();
    task.await.unwrap();
    assert!(finished(1, &seen.lock().unwrap()).unwrap().1.is_ok());
}

#[tokio::test(start_paused = true)]
async fn neither_events_nor_an_overdue_deadline_starve_the_other() {
    // The deadline of this machine is always overdue.
    let (machine, seen) = Scripted::new(|_, deadline| {
        *deadline = Some(at(Duration::ZERO));
        Vec::new()
    });
    let driver = driver(machine, client(|_| async { json(200, &json!({})) }), Options::default());
    let handle = driver.handle();
    for _ in 0..100 {
        handle.send(Event::LeadershipChanged { leading: true }).await;
    }
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    tokio::task::yield_now().await;
    trigger.pull();
    task.await.unwrap();
    let seen = seen.lock().unwrap();
    for pair in seen[1..100].chunks_exact(2) {
        assert_eq!(
            (&pair[0].1, &pair[1].1),
            (&Event::TimerFired, &Event::LeadershipChanged { leading: true })
        );
    }
}

/// Answers a list with one object, and a watch with no events.
async fn list_and_watch(request: http::Request<kube::client::Body>) -> http::Response<kube::client::Body> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("watch=true") {
        return std::future::pending().await;
    }
    assert!(query.contains("limit=500"), "{query}");
    let metadata = json!({
        "name": "a",
        "resourceVersion": "7",
        "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}],
    });
    let object = json!({ "metadata": metadata, "data": {"k": "v"} });
    json(
        200,
        &json!({ "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "9"}, "items": [object] }),
    )
}

async fn watched(metadata_only: bool) -> Vec<Event> {
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let (machine, seen) = Scripted::new(move |event, _| match event {
        Event::Started => {
            let scope = Scope { selector: "a=b".to_owned(), metadata_only, ..Scope::default() };
            vec![(1, Action::Watch(WatchCommand::Start { kind: Arc::clone(&kind), scope }))]
        }
        _ => Vec::new(),
    });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver(machine, client(list_and_watch), Options::default()).run(shutdown));
    sleep(SECOND).await;
    trigger.pull();
    task.await.unwrap();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.into_iter().map(|(_, event)| event).collect()
}

#[tokio::test(start_paused = true)]
async fn a_watch_reports_its_list_in_order() {
    let events = watched(true).await;
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let object = json!({ "metadata": {
        "name": "a",
        "resourceVersion": "7",
        "managedFields": [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}],
    }});
    assert_eq!(
        events,
        [
            Event::Started,
            Event::Finished { id: ActionId(1), outcome: Ok(Success::Done) },
            Event::ListStarted { kind: Arc::clone(&kind) },
            Event::Applied { kind: Arc::clone(&kind), object: Arc::new(object) },
            Event::ListCompleted { kind },
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn whole_objects_carry_their_kind() {
    let events = watched(false).await;
    let Event::Applied { object, .. } = &events[3] else { panic!("{:?}", events[3]) };
    assert_eq!(object["apiVersion"], "v1");
    assert_eq!(object["kind"], "ConfigMap");
    assert_eq!(object["data"], json!({"k": "v"}));
}

#[tokio::test(start_paused = true)]
async fn a_failing_watch_reports_failures_and_retries_with_backoff() {
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let (machine, seen) = Scripted::new(move |event, _| match event {
        Event::Started => {
            let scope = Scope { selector: String::new(), metadata_only: true, ..Scope::default() };
            vec![(1, Action::Watch(WatchCommand::Start { kind: Arc::clone(&kind), scope }))]
        }
        _ => Vec::new(),
    });
    let status = json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": "no" });
    let client = client(move |_| {
        let answer = json(403, &status);
        async move { answer }
    });
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver(machine, client, Options::default()).run(shutdown));
    sleep(SECOND * 300).await;
    trigger.pull();
    task.await.unwrap();
    let seen = seen.lock().unwrap();
    let failures = seen.iter().filter_map(|(at, event)| match event {
        Event::WatchFailed { failure, .. } => Some((*at, failure.clone())),
        _ => None,
    });
    let failures = failures.collect::<Vec<_>>();
    assert!((5..=20).contains(&failures.len()), "{}", failures.len());
    assert!(failures.iter().all(|(_, failure)| *failure == Failure::new(ErrorKind::Forbidden, "no")));
    // The delay doubles up to 30 s, and jitter at most doubles it.
    assert!(failures.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 60_000));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_watch_reports_nothing_more() {
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let (machine, seen) = Scripted::new(move |event, _| {
        let watch = |selector: &str| {
            Action::Watch(WatchCommand::Start {
                kind: Arc::clone(&kind),
                scope: Scope { selector: selector.to_owned(), metadata_only: true, ..Scope::default() },
            })
        };
        match event {
            Event::Started => vec![(1, watch("old"))],
            // By now the first watch has reported its list, and waits for room in the queue or for its list.
            Event::TimerFired => {
                vec![
                    (2, watch("new")),
                    (3, Action::Watch(WatchCommand::Stop { kind: Arc::clone(&kind) })),
                    (4, watch("new")),
                ]
            }
            _ => Vec::new(),
        }
    });
    let client = client(|request| async move {
        if request.uri().query().unwrap_or_default().contains("labelSelector=old") {
            sleep(SECOND).await;
        }
        list_and_watch(request).await
    });
    let driver = driver(machine, client, Options::default());
    let handle = driver.handle();
    let (trigger, shutdown) = shutdown::channel();
    let task = tokio::spawn(driver.run(shutdown));
    sleep(SECOND / 2).await;
    handle.send(Event::TimerFired).await;
    sleep(SECOND * 5).await;
    trigger.pull();
    task.await.unwrap();
    let seen = seen.lock().unwrap();
    let after = seen.iter().position(|(_, event)| *event == Event::TimerFired).unwrap();
    let started = |event: &Event| matches!(event, Event::ListStarted { .. });
    let completed = |event: &Event| matches!(event, Event::ListCompleted { .. });
    assert!(seen[..after].iter().any(|(_, event)| started(event)));
    assert_eq!(seen[after..].iter().filter(|(_, event)| started(event)).count(), 1);
    assert_eq!(seen[after..].iter().filter(|(_, event)| completed(event)).count(), 1);
    assert!(!seen[..after].iter().any(|(_, event)| completed(event)));
}

#[tokio::test(start_paused = true)]
async fn what_one_step_asks_about_a_watch_is_done_in_its_order() {
    for watched_at_last in [true, false] {
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        let (machine, seen) = Scripted::new(move |event, _| {
            let scope = Scope { selector: String::new(), metadata_only: true, ..Scope::default() };
            let watch = (1, Action::Watch(WatchCommand::Start { kind: Arc::clone(&kind), scope }));
            let unwatch = (2, Action::Watch(WatchCommand::Stop { kind: Arc::clone(&kind) }));
            match event {
                Event::Started if watched_at_last => vec![unwatch, watch],
                Event::Started => vec![watch, unwatch],
                _ => Vec::new(),
            }
        });
        let (trigger, shutdown) = shutdown::channel();
        let task = tokio::spawn(driver(machine, client(list_and_watch), Options::default()).run(shutdown));
        sleep(SECOND).await;
        trigger.pull();
        task.await.unwrap();
        let seen = seen.lock().unwrap();
        let listed = seen.iter().any(|(_, event)| matches!(event, Event::ListCompleted { .. }));
        assert_eq!(listed, watched_at_last);
    }
}
