use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures::FutureExt as _;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use lockstep_engine::action::{Action, Scope, WatchCommand};
use lockstep_engine::lease::Election;
use lockstep_engine::machine::Event;
use lockstep_engine::object::Kind;
use lockstep_engine::time::Monotonic;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Ended, Manager};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::run::Options;
use crate::shutdown;
use crate::testing::{Scripted, apply, client, json};

const SECOND: Duration = Duration::from_secs(1);

/// A server with one lease. While `broken` is set, renewals fail. `slow` delays the answers. If `hangs` is set, the next
/// request gets no answer.
#[derive(Clone, Default)]
struct LeaseServer {
    lease: Arc<Mutex<Option<Value>>>,
    broken: Arc<Mutex<bool>>,
    slow: Arc<Mutex<Duration>>,
    hangs: Arc<Mutex<bool>>,
}

impl LeaseServer {
    async fn answer(self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        if std::mem::take(&mut *self.hangs.lock().unwrap()) {
            std::future::pending::<()>().await;
        }
        let answer = self.carry_out(&head.method, &body);
        let slow = *self.slow.lock().unwrap();
        sleep(slow).await;
        answer
    }

    fn carry_out(&self, method: &Method, body: &[u8]) -> Response<Body> {
        let mut lease = self.lease.lock().unwrap();
        match (method, lease.as_ref()) {
            (&Method::GET, Some(lease)) => json(200, lease),
            (&Method::GET, None) => {
                let details = json!({"name": "lockstep", "kind": "leases"});
                json(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": details}))
            }
            _ if *self.broken.lock().unwrap() => json(503, &json!({"kind": "Status", "code": 503})),
            (_, held) => {
                let mut written = serde_json::from_slice::<Value>(body).unwrap();
                let version = held.map_or("", |held| held["metadata"]["resourceVersion"].as_str().unwrap());
                if written["metadata"]["resourceVersion"].as_str().unwrap_or_default() != version {
                    return json(409, &json!({"kind": "Status", "code": 409, "reason": "Conflict"}));
                }
                written["metadata"]["resourceVersion"] = format!("{version}x").into();
                *lease = Some(written.clone());
                json(200, &written)
            }
        }
    }

    fn holder(&self) -> String {
        let lease = self.lease.lock().unwrap();
        lease.as_ref().unwrap()["spec"]["holderIdentity"].as_str().unwrap().to_owned()
    }
}

fn manager(server: &LeaseServer) -> Manager {
    Manager::new(
        served_by(server),
        Clock::start(jiff::Timestamp::now),
        1,
        Metrics::new(Registry::new()).unwrap(),
    )
}

fn served_by(server: &LeaseServer) -> Client {
    let server = server.clone();
    client(move |request| server.clone().answer(request))
}

fn quiet(_: &Event, _: &mut Option<Monotonic>) -> Vec<(u64, Action)> {
    Vec::new()
}

fn election() -> Box<Election> {
    Box::new(Election::new("ns", "lockstep", "me".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn without_an_election_controllers_act_at_once() {
    let mut manager = manager(&LeaseServer::default());
    let (machine, seen) = Scripted::new(quiet);
    manager.add(Box::new(machine));
    let (stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND).await;
    stop.pull();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!(seen.lock().unwrap()[1].1, Event::LeadershipChanged { leading: true });
}

/// With many controllers, the first ones run before the last ones receive an event.
#[tokio::test(start_paused = true)]
async fn without_an_election_controllers_act_before_they_list_anything() {
    let mut manager = manager(&LeaseServer::default());
    let kind = Arc::new(Kind::known("", "v1", "ConfigMap", "configmaps", true));
    let seen: Vec<_> = (0..300)
        .map(|_| {
            let kind = Arc::clone(&kind);
            let (machine, seen) = Scripted::new(move |event, _| match event {
                Event::Started => {
                    let watch = WatchCommand::Start { kind: Arc::clone(&kind), scope: Scope::default() };
                    vec![(1, Action::Watch(watch))]
                }
                _ => Vec::new(),
            });
            manager.add(Box::new(machine));
            seen
        })
        .collect();
    let (stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND).await;
    stop.pull();
    assert_eq!(running.await.unwrap(), Ok(()));
    for seen in seen {
        let seen = seen.lock().unwrap();
        let at = |wanted: fn(&Event) -> bool| seen.iter().position(|(_, event)| wanted(event));
        let leads = at(|event| matches!(event, Event::LeadershipChanged { leading: true })).unwrap();
        let listed =
            at(|event| matches!(event, Event::ListStarted { .. } | Event::WatchFailed { .. })).unwrap();
        assert!(leads < listed, "{leads} {listed}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_taken_before_controllers_act_and_given_back_at_the_end() {
    let server = LeaseServer::default();
    let mut manager = manager(&server);
    let (machine, seen) = Scripted::new(quiet);
    manager.add(Box::new(machine));
    manager.elect(election(), served_by(&server));
    let (stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND * 60).await;
    assert_eq!(server.holder(), "me");
    assert_eq!(seen.lock().unwrap()[1].1, Event::LeadershipChanged { leading: true });
    stop.pull();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!(server.holder(), "", "released");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_under_way_at_the_end_does_not_keep_the_lease() {
    let server = LeaseServer::default();
    *server.slow.lock().unwrap() = SECOND;
    let mut manager = manager(&server);
    manager.elect(election(), served_by(&server));
    let (stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    // The lease is read until 1 s, created until 2 s, and renewed from 4 s to 5 s.
    sleep(SECOND * 9 / 2).await;
    stop.pull();
    assert_eq!(running.await.unwrap(), Ok(()));
    assert_eq!(server.holder(), "", "released");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_cost_the_leadership() {
    let server = LeaseServer::default();
    let mut manager = manager(&server);
    manager.elect(election(), served_by(&server));
    let (_stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    for _ in 0..5 {
        sleep(SECOND * 30).await;
        *server.hangs.lock().unwrap() = true;
    }
    sleep(SECOND * 30).await;
    assert!(!*server.hangs.lock().unwrap() && !running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_can_not_be_renewed_ends_the_process_before_another_may_lead() {
    let server = LeaseServer::default();
    let mut manager = manager(&server);
    manager.elect(election(), served_by(&server));
    let (_stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND).await;
    *server.broken.lock().unwrap() = true;
    let start = Instant::now();
    assert_eq!(running.await.unwrap(), Err(Ended::LeadershipLost));
    assert!(start.elapsed() < SECOND * 15, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_at_the_end_ends_the_process_at_once() {
    let server = LeaseServer::default();
    let (clock, metrics) = (Clock::start(jiff::Timestamp::now), Metrics::new(Registry::new()).unwrap());
    let mut manager = Manager::new(client(|_| std::future::pending()), clock, 1, metrics);
    let (machine, _) = Scripted::new(|event, _| match event {
        Event::LeadershipChanged { leading: true } => vec![(1, apply("hangs"))],
        _ => Vec::new(),
    });
    manager.add_with(
        Box::new(machine),
        Options { grace: SECOND * 60, timeout: SECOND * 90, ..Options::default() },
    );
    manager.elect(election(), served_by(&server));
    let (stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND).await;
    *server.broken.lock().unwrap() = true;
    stop.pull();
    let start = Instant::now();
    assert_eq!(running.await.unwrap(), Err(Ended::LeadershipLost));
    assert!(start.elapsed() < SECOND * 15, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_controller_ends_the_process() {
    let mut manager = manager(&LeaseServer::default());
    let (machine, _) = Scripted::new(|_, _| panic!("on purpose"));
    manager.add(Box::new(machine));
    let (_stop, stopping) = shutdown::channel();
    assert_eq!(manager.run(stopping).await, Err(Ended::Panicked));
}

#[tokio::test(start_paused = true)]
async fn a_panic_during_the_shutdown_is_an_error() {
    let mut manager = manager(&LeaseServer::default());
    let (machine, _) = Scripted::new(|event, _| match event {
        Event::LeadershipChanged { leading: false } => panic!("on purpose"),
        _ => Vec::new(),
    });
    let final_event = Some(Event::LeadershipChanged { leading: false });
    manager.add_with(Box::new(machine), Options { final_event, ..Options::default() });
    let (stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND).await;
    stop.pull();
    assert_eq!(running.await.unwrap(), Err(Ended::Panicked));
}

/// The first controller hangs in a step while its queue is full, so it can't receive that this process leads. The second one
/// panics when it receives that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_hangs_hides_no_panic_of_another() {
    let server = LeaseServer::default();
    let mut manager = manager(&server);
    let (release, released) = mpsc::channel::<()>();
    let (hanging, _) = Scripted::new(move |_, _| {
        // An error means that the test has ended.
        let _ = released.recv();
        Vec::new()
    });
    manager.add(Box::new(hanging));
    let (panicking, _) = Scripted::new(|event, _| match event {
        Event::LeadershipChanged { leading: true } => panic!("on purpose"),
        _ => Vec::new(),
    });
    manager.add(Box::new(panicking));
    let full = manager.controllers[0].handle();
    while tokio::task::unconstrained(full.send(Event::TimerFired)).now_or_never().is_some() {}
    manager.elect(election(), served_by(&server));
    let (_stop, stopping) = shutdown::channel();
    let ended = tokio::time::timeout(SECOND * 60, manager.run(stopping)).await;
    drop(release);
    assert_eq!(ended, Ok(Err(Ended::Panicked)));
}
