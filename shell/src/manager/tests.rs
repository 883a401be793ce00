use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response};
use kube::client::Body;
use lockstep_core::engine::action::Action;
use lockstep_core::engine::lease::Election;
use lockstep_core::engine::machine::Event;
use lockstep_core::time::Monotonic;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{Ended, Manager};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::shutdown;
use crate::testing::{Scripted, client, json};

const SECOND: Duration = Duration::from_secs(1);

/// A server that holds one lease; renewals fail while `broken` says so.
#[derive(Clone, Default)]
struct LeaseServer {
    lease: Arc<Mutex<Option<Value>>>,
    broken: Arc<Mutex<bool>>,
}

impl LeaseServer {
    async fn answer(self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let mut lease = self.lease.lock().unwrap();
        match (head.method, lease.as_ref()) {
            (Method::GET, Some(lease)) => json(200, lease),
            (Method::GET, None) => json(404, &json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
            _ if *self.broken.lock().unwrap() => json(503, &json!({"kind": "Status", "code": 503})),
            _ => {
                let written = serde_json::from_slice::<Value>(&body).unwrap();
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
    let server = server.clone();
    let client = client(move |request| server.clone().answer(request));
    Manager::new(client, Clock::start(jiff::Timestamp::now), 1, Metrics::new(Registry::new()).unwrap())
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

#[tokio::test(start_paused = true)]
async fn the_lease_is_taken_before_controllers_act_and_given_back_at_the_end() {
    let server = LeaseServer::default();
    let mut manager = manager(&server);
    let (machine, seen) = Scripted::new(quiet);
    manager.add(Box::new(machine));
    manager.elect(election());
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
async fn a_lease_that_can_not_be_renewed_ends_the_process_before_another_may_lead() {
    let server = LeaseServer::default();
    let mut manager = manager(&server);
    manager.elect(election());
    let (_stop, stopping) = shutdown::channel();
    let running = tokio::spawn(manager.run(stopping));
    sleep(SECOND).await;
    *server.broken.lock().unwrap() = true;
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
