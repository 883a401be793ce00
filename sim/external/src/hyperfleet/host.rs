//! Serves the HyperFleet model over HTTP: on loopback, or on any other listener.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use lockstep_apiserver::host::Listener;
use lockstep_apiserver::host::connections::Body;
use lockstep_apiserver::host::serving::Serving;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::damage::Damage;
use super::fleet::HyperFleet;
use super::respond::Problem;

/// The faults of the answer to one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mishap {
    /// The delay of the answer.
    pub delay: Duration,
    /// The corruption of the answer.
    pub damage: Option<Damage>,
}

/// Decides the faults of each answer.
pub type Weather = Box<dyn Fn(&http::Request<Bytes>) -> Mishap + Send + Sync>;

/// The state that hosts serve, and how. It outlives them, as a database does. Clones share it.
#[derive(Clone)]
pub struct State(Arc<Shared>);

struct Shared {
    fleet: Mutex<HyperFleet>,
    clock: Box<dyn Fn() -> Timestamp + Send + Sync>,
    service: Mutex<Service>,
    /// How many requests may be answered.
    allowed: watch::Sender<u64>,
}

#[derive(Default)]
struct Service {
    asked: u64,
    token: Option<String>,
    tenant: Option<String>,
    weather: Option<Weather>,
    answered: BTreeMap<u16, u64>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("answered", &self.answered()).finish_non_exhaustive()
    }
}

impl State {
    /// Returns a state with a model and its clock.
    pub fn new(fleet: HyperFleet, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let (fleet, service) = (Mutex::new(fleet), Mutex::default());
        let allowed = watch::Sender::new(u64::MAX);
        Self(Arc::new(Shared { fleet, clock: Box::new(clock), service, allowed }))
    }

    /// Calls `run` with the model, to read or change it outside of requests.
    pub fn with_fleet<T>(&self, run: impl FnOnce(&mut HyperFleet) -> T) -> T {
        run(&mut lock(&self.0.fleet))
    }

    /// Requires this bearer token from now on; with none, requests need no token.
    pub fn require_token(&self, token: Option<&str>) {
        lock(&self.0.service).token = token.map(str::to_owned);
    }

    /// Requires the header `X-Tenant` with this value from now on, as an API newer than 0.3.1 can; with none, requests need no
    /// header.
    pub fn require_tenant(&self, tenant: Option<&str>) {
        lock(&self.0.service).tenant = tenant.map(str::to_owned);
    }

    /// Sets the faults of answers from now on; with none, there are no faults.
    pub fn set_weather(&self, weather: Option<Weather>) {
        lock(&self.0.service).weather = weather;
    }

    /// Answers only this many requests, counted from the first ever. Later requests wait until more are allowed.
    pub fn answer_only(&self, requests: u64) {
        self.0.allowed.send_replace(requests);
    }

    /// Returns how many requests were answered with each status code.
    pub fn answered(&self) -> BTreeMap<u16, u64> {
        lock(&self.0.service).answered.clone()
    }

    async fn answer(self, request: http::Request<Bytes>) -> http::Response<Body> {
        let number = lock(&self.0.service).asked();
        let _is_allowed = self.0.allowed.subscribe().wait_for(|allowed| number <= *allowed).await.is_ok();
        let (answer, delay) = self.handle(&request);
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        answer.map(|body| Full::new(body).boxed())
    }

    fn handle(&self, request: &http::Request<Bytes>) -> (http::Response<Bytes>, Duration) {
        let mut service = lock(&self.0.service);
        let mut answer = match service.lets_in(request) {
            Ok(()) => self.with_fleet(|fleet| fleet.handle(request, (self.0.clock)())),
            Err(problem) => problem.into_response(),
        };
        let mishap = service.weather.as_ref().map(|weather| weather(request)).unwrap_or_default();
        if let Some(damage) = mishap.damage {
            answer = damage.inflict(answer);
        }
        *service.answered.entry(answer.status().as_u16()).or_default() += 1;
        (answer, mishap.delay)
    }
}

impl Service {
    /// Counts one more request.
    fn asked(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    fn lets_in(&self, request: &http::Request<Bytes>) -> Result<(), Problem> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let given = header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
        if self.token.is_some() && given != self.token.as_deref() {
            return Err(Problem::unauthorized());
        }
        if self.tenant.is_some() && header("X-Tenant") != self.tenant.as_deref() {
            return Err(Problem::forbidden("tenancy headers are missing"));
        }
        Ok(())
    }
}

/// Locks the mutex, even after a panic: a request that panics leaves only complete resources.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running host; stopped by [`Host::shutdown`] or, abruptly, on drop.
#[derive(Debug)]
pub struct Host {
    state: State,
    serving: Serving,
}

impl Host {
    /// Listens and serves the model on the current tokio runtime; port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// If the address can't be bound.
    pub async fn bind(addr: SocketAddr, fleet: HyperFleet) -> io::Result<Self> {
        Self::start(TcpListener::bind(addr).await?, State::new(fleet, Timestamp::now))
    }

    /// Serves the state on the connections of the listener, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// If the listener does not know its address.
    pub fn start(listener: impl Listener, state: State) -> io::Result<Self> {
        let shared = state.clone();
        let answer = move |request| shared.clone().answer(request);
        let serving = Serving::start(listener, Arc::default(), answer)?;
        Ok(Self { state, serving })
    }

    /// Returns the base URL, to which the API's path is appended.
    pub fn url(&self) -> String {
        format!("http://{}", self.serving.addr())
    }

    /// Returns the served state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Stops: requests are finished, then the connections close.
    pub async fn shutdown(self) {
        self.serving.shutdown().await;
    }
}
