//! The clients in a setup of the model level: users, who bypass the network, and the systems around the controller, on a host
//! of their own without faults.

use std::sync::MutexGuard;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use jiff::Timestamp;
use lockstep_apiserver::host::State;
use lockstep_apiserver::server::{ApiServer, Response};
use lockstep_engine::random::Random;
use lockstep_external as external;
use lockstep_external::{Pace, System};
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::shutdown;
use lockstep_sim::cluster::ExternalSystems;
use lockstep_sim::{Client, Operation, SystemUnderTest};
use prometheus::Registry;
use serde_json::Value;

use super::beyond::Beyond;
use super::client::client;
use super::server;
use super::timing::TROUBLE;
use super::trace::Trace;

/// The host of the systems around the controller.
pub const HOST: &str = "around";

/// Users stop this long before fault injection ends.
const LAST_ACT: Duration = Duration::from_secs(10);

/// Runs the systems.
pub async fn around(systems: &'static [System], seed: u64, trace: Trace) -> turmoil::Result {
    let clock = Clock::start(move || server::time(&trace));
    let mut manager = Manager::new(client(HOST)?, clock, seed, Metrics::new(Registry::new())?);
    for world in external::controllers(systems, Pace::BRISK, seed) {
        manager.add(world);
    }
    let (_trigger, stopping) = shutdown::channel();
    Ok(manager.run(stopping).await?)
}

/// Executes user operations until fault injection ends.
pub async fn act(
    subject: &'static dyn SystemUnderTest,
    state: State,
    beyond: Beyond,
    mut random: Random,
    trace: Trace,
) -> turmoil::Result {
    let began = tokio::time::Instant::now();
    let pace = random.pick(&[2000, 6000, 15_000]);
    loop {
        tokio::time::sleep(Duration::from_millis(random.below(pace))).await;
        if began.elapsed() + LAST_ACT > TROUBLE {
            return Ok(());
        }
        let act = draw(subject.operations(), &mut random);
        trace.record("users", act.name, &[]);
        with_client(&state, &beyond, &trace, |client| (act.run)(client, &mut random));
    }
}

fn draw<'a>(acts: &'a [Operation], random: &mut Random) -> &'a Operation {
    let total = acts.iter().map(|act| u64::from(act.weight)).sum();
    let mut left = random.below(total);
    let drawn = acts.iter().find(|act| match left.checked_sub(act.weight.into()) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    drawn.unwrap_or(&acts[0])
}

/// Executes an operation of a user at the current time.
pub fn with_client(state: &State, beyond: &Beyond, trace: &Trace, deed: impl FnOnce(&mut dyn Client)) {
    let now = server::time(trace);
    state.with_server(|server| deed(&mut Direct { server, outside: beyond.lock(), now }));
}

/// A client that needs no network.
pub struct Direct<'a> {
    /// The server.
    pub server: &'a mut ApiServer,
    /// The external systems.
    pub outside: Option<MutexGuard<'a, Box<dyn ExternalSystems>>>,
    /// The current time.
    pub now: Timestamp,
}

impl Client for Direct<'_> {
    fn server(&self) -> &ApiServer {
        self.server
    }

    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)> {
        Some((&mut ***self.outside.as_mut()?, self.now))
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = Request::builder().method(method).uri(path).header("content-type", media_type);
        let request = request.header("accept", "application/json").header("user-agent", "users");
        let request = request.body(body).expect("a request");
        match self.server.handle(&request, self.now) {
            Response::Complete(answer) => {
                (answer.status().as_u16(), serde_json::from_slice(answer.body()).unwrap_or_default())
            }
            Response::Watch(head, _) => (head.status().as_u16(), Value::Null),
        }
    }
}
