//! Shared helpers of the tests in this crate: a scripted machine, and a client whose server is a closure.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use lockstep_engine::action::{Action, ActionId, KubeRequest, Request as Asked};
use lockstep_engine::machine::{Deadline, DeadlineReason, Event, Machine, Step, WorkQueue, Workload};
use lockstep_engine::object::{Kind, ObjectRef};
use lockstep_engine::time::{Monotonic, Now};
use prometheus::Registry;

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::run::{Driver, Options};

/// The events of a machine, each with its time in milliseconds since the start.
pub(crate) type Seen = Arc<Mutex<Vec<(u64, Event)>>>;

/// A machine that answers events with a closure, which also sets the deadline.
pub(crate) struct Scripted<F> {
    pub(crate) answer: F,
    pub(crate) deadline: Option<Monotonic>,
    pub(crate) seen: Seen,
}

impl<F: FnMut(&Event, &mut Option<Monotonic>) -> Vec<(u64, Action)>> Scripted<F> {
    pub(crate) fn new(answer: F) -> (Self, Seen) {
        let seen = Seen::default();
        (Self { answer, deadline: None, seen: Arc::clone(&seen) }, seen)
    }
}

impl<F: FnMut(&Event, &mut Option<Monotonic>) -> Vec<(u64, Action)>> Machine for Scripted<F> {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let requests = (self.answer)(&event, &mut self.deadline);
        let at = u64::try_from(now.monotonic.elapsed().as_millis()).unwrap();
        self.seen.lock().unwrap().push((at, event));
        let requests = requests.into_iter().map(|(id, action)| Asked { id: ActionId(id), action });
        Step { requests: requests.collect(), notes: Vec::new() }
    }

    fn deadline(&self) -> Option<Deadline> {
        self.deadline.map(|at| Deadline { at, reason: DeadlineReason::Work("test") })
    }

    fn workload(&self) -> Workload {
        let queue = WorkQueue { name: "only", waiting: 3, running: Vec::new() };
        Workload { queues: vec![queue], concurrency: Some(1) }
    }

    fn is_synced(&self) -> bool {
        !self.seen.lock().unwrap().is_empty()
    }
}

/// Returns a client whose requests are answered by the closure.
pub(crate) fn client<F, A>(answer: F) -> Client
where
    F: Fn(Request<Body>) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let service = tower::service_fn(move |request| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    Client::new(service, "default")
}

pub(crate) fn json(code: u16, body: &serde_json::Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(serde_json::to_vec(body).unwrap())).unwrap()
}

pub(crate) fn driver(machine: impl Machine + Send + 'static, client: Client, options: Options) -> Driver {
    let observer = Observer::new(Metrics::new(Registry::new()).unwrap());
    Driver::new(Box::new(machine), client, Clock::start(jiff::Timestamp::now), observer, options)
}

pub(crate) fn config_map(name: &str) -> ObjectRef {
    ObjectRef::namespaced(&Kind::known("", "v1", "ConfigMap", "configmaps", true), "ns", name)
}

pub(crate) fn get(name: &str) -> Action {
    Action::Kube(KubeRequest::Get { target: config_map(name), metadata_only: false })
}

pub(crate) fn apply(name: &str) -> Action {
    Action::Kube(KubeRequest::Apply { target: config_map(name), manifest: Arc::new(serde_json::json!({})) })
}

/// Returns a write of an Event.
pub(crate) fn record(name: &str) -> Action {
    let target = ObjectRef::namespaced(&lockstep_engine::recorder::kind(), "ns", name);
    Action::Kube(KubeRequest::Patch { target, subresource: None, patch: Arc::new(serde_json::json!({})) })
}

pub(crate) fn at(elapsed: Duration) -> Monotonic {
    Monotonic::from_elapsed(elapsed)
}
