//! What a controller brings along to be simulated.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use lockstep_core::engine::backoff::Backoff;
use lockstep_core::engine::machine::Machine;
use lockstep_core::engine::wire::path;
use lockstep_core::object::{Kind, ObjectRef, metadata};
use lockstep_core::random::Random;
use serde_json::{Value, json};

use super::history::History;
use super::invariant::Invariant;
use crate::apiserver::ApiServer;
use crate::cluster::{Author, Change, Cluster, Entry, ExternalSystems, FaultModel};

/// A controller that can be simulated: its world, who acts in it, and what must hold.
///
/// Everything else (faults, crashes, stale watches, the invariants that hold for every controller) comes for free.
pub trait SystemUnderTest: Sync {
    /// The controller's name.
    fn name(&self) -> &'static str;

    /// The machine of a process that begins.
    fn machine(&self, seed: u64) -> Box<dyn Machine>;

    /// The configuration of that machine, as a recording holds it; null if it can't be made from one.
    fn config(&self, seed: u64) -> Value {
        let _ = seed;
        Value::Null
    }

    /// The names of the actions that the machine asks for; faults are aimed at them.
    fn actions(&self) -> &'static [&'static str];

    /// Prepares the cluster before anything runs: definitions, and what else must be there.
    fn prepare(&self, hand: &mut dyn Client);

    /// What users and foreign controllers do.
    fn acts(&self) -> &'static [Operation];

    /// What must hold of this controller at every step, besides what holds for all.
    fn invariants(&self) -> &'static [Invariant];

    /// Whether the controller may make a change. An error says why not.
    fn may_change(&self, change: &Change, server: &ApiServer, history: &History) -> Result<(), String>;

    /// How its failing keys back off, in one of these ways.
    fn backoffs(&self) -> &'static [Backoff];

    /// Once nothing goes wrong any more, the desired state is reached within this time.
    fn bound(&self) -> Duration;

    /// What users do once nothing goes wrong any more, such as letting go of what they held back.
    fn calm(&self, hand: &mut dyn Client) {
        let _ = hand;
    }

    /// How the world differs from the desired state, one sentence a difference.
    fn differences(&self, world: &World<'_>) -> Vec<String>;

    /// What lies beyond Kubernetes, if the controller acts on that.
    fn outside(&self) -> Option<Box<dyn ExternalSystems>> {
        None
    }

    /// The foreign controllers of its world, whose jitter follows from the seed. Nothing goes wrong for them.
    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        let _ = seed;
        Vec::new()
    }

    /// Who watches over what the controller does beyond Kubernetes, from the beginning to the end of a run.
    fn witness(&self) -> Option<Box<dyn Checker>> {
        None
    }

    /// For how long things go wrong in a run, unless it is told otherwise.
    fn stormy(&self) -> Duration {
        Duration::from_hours(1)
    }

    /// Whether a world that is as it should be stays untouched.
    fn comes_to_rest(&self) -> bool {
        true
    }
}

/// The world as it is.
pub struct World<'a> {
    /// The API server.
    pub server: &'a ApiServer,
    /// What lies beyond Kubernetes.
    pub outside: Option<&'a dyn ExternalSystems>,
    /// The time.
    pub now: Timestamp,
}

/// Watches a run from its beginning.
pub trait Checker {
    /// Takes in what happened. An error names the invariant, says what it demands, and what was seen instead.
    fn see(&mut self, entry: &Entry) -> Result<(), Testimony>;
}

/// What a witness saw that may not be.
#[derive(Debug)]
pub struct Testimony {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What it says.
    pub sentence: &'static str,
    /// What was seen.
    pub seen: String,
}

/// Something that users or foreign controllers do.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// What it is called in plans.
    pub name: &'static str,
    /// Who does it, such as `user` or `other controller`.
    pub actor: &'static str,
    /// How often it is drawn, relative to others.
    pub weight: u32,
    /// Does it; what is done follows from the state of the cluster and the random numbers.
    pub run: fn(&mut dyn Client, &mut Random),
}

impl Operation {
    /// An act by its name, its actor, its weight and what is done.
    pub const fn new(
        name: &'static str,
        actor: &'static str,
        weight: u32,
        run: fn(&mut dyn Client, &mut Random),
    ) -> Self {
        Self { name, actor, weight, run }
    }
}

/// Somebody's client.
pub trait Client {
    /// The cluster's server, to look at.
    fn server(&self) -> &ApiServer;

    /// What lies beyond Kubernetes, and the time there.
    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)>;

    /// Takes the permission to list and watch a kind from the controller, or gives it back. A client of a real server can't.
    fn permit_watches(&mut self, kind: &Kind, permitted: bool) {
        let _ = (kind, permitted);
    }

    /// Sends a request and returns the code and the body of the answer.
    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value);
}

impl dyn Client + '_ {
    /// Creates an object; one that exists is left as it is.
    pub fn create(&mut self, kind: &Kind, object: &Value) -> (u16, Value) {
        let namespace = Some(metadata(object, "namespace")).filter(|namespace| !namespace.is_empty());
        let mut object = object.clone();
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.kind);
        self.send(Method::POST, &path::collection(kind, namespace), "application/json", &object)
    }

    /// Merges a patch into an object, if it exists.
    pub fn merge(&mut self, target: &ObjectRef, patch: &Value) -> (u16, Value) {
        match path::object(target) {
            Ok(path) => self.send(Method::PATCH, &path, "application/merge-patch+json", patch),
            Err(failure) => (400, json!(failure.message)),
        }
    }

    /// Merges a patch into the status of an object, if it exists.
    pub fn merge_status(&mut self, target: &ObjectRef, status: &Value) -> (u16, Value) {
        let patch = json!({ "status": status });
        match path::object(target) {
            Ok(path) => {
                self.send(Method::PATCH, &format!("{path}/status"), "application/merge-patch+json", &patch)
            }
            Err(failure) => (400, json!(failure.message)),
        }
    }

    /// Deletes an object, if it exists.
    pub fn delete(&mut self, target: &ObjectRef) -> (u16, Value) {
        match path::object(target) {
            Ok(path) => self.send(Method::DELETE, &path, "application/json", &Value::Null),
            Err(failure) => (400, json!(failure.message)),
        }
    }

    /// One of the objects of a kind.
    pub fn any(&self, kind: &Kind, random: &mut Random) -> Option<Value> {
        let objects = self.server().objects(kind);
        let index = usize::try_from(random.below(objects.len() as u64)).ok()?;
        objects.get(index).map(|object| Value::clone(object))
    }
}

/// A client of a cluster, under the name of its author.
pub(super) struct ClusterHand<'a, W: FaultModel> {
    pub(super) cluster: &'a mut Cluster<W>,
    pub(super) actor: &'static str,
}

impl<W: FaultModel> Client for ClusterHand<'_, W> {
    fn server(&self) -> &ApiServer {
        &self.cluster.server
    }

    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)> {
        let now = self.cluster.timestamp();
        Some((&mut **self.cluster.outside.as_mut()?, now))
    }

    fn permit_watches(&mut self, kind: &Kind, permitted: bool) {
        self.cluster.permit_watches(kind, permitted);
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
        let request = request.header("accept", "application/json").header("user-agent", self.actor);
        let Ok(request) = request.body(body) else { return (400, Value::Null) };
        let response = self.cluster.request_as(Author::Client(self.actor), &request);
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }
}
