//! The interface of a controller to the simulator.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use lockstep_apiserver::server::ApiServer;
use lockstep_engine::backoff::Backoff;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{Kind, ObjectRef, metadata};
use lockstep_engine::random::Random;
use lockstep_engine::wire::path;
use serde_json::{Value, json};

use super::crds;
use super::history::History;
use super::invariant::Invariant;
use crate::cluster::{Author, Change, Cluster, Entry, ExternalSystems, FaultModel};
use crate::explorable::{Explorable, ExplorableSystems};

/// A controller that can be simulated, with its environment, its operations and its invariants.
///
/// The simulator provides everything else: faults, crashes, stale watches and the invariants of every controller.
pub trait SystemUnderTest: Sync {
    /// Returns the controller's name.
    fn name(&self) -> &'static str;

    /// Returns the controllers that run in the cluster, if these are several. Each has its own processes and its own leader.
    fn members(&self) -> &'static [&'static dyn SystemUnderTest] {
        &[]
    }

    /// Returns the machine of a process that starts.
    fn machine(&self, seed: u64) -> Box<dyn Machine>;

    /// Returns the configuration of that machine, as a recording holds it; null if no machine can be built from one.
    fn config(&self, seed: u64) -> Value {
        let _ = seed;
        Value::Null
    }

    /// Returns the names of the actions that the machine requests. Faults target them.
    fn actions(&self) -> &'static [&'static str];

    /// Prepares the cluster before the start: CRDs, and other objects that must exist.
    fn prepare(&self, client: &mut dyn Client);

    /// Returns the operations of users and foreign controllers.
    fn operations(&self) -> &'static [Operation];

    /// Returns the invariants of this controller, in addition to those of every controller.
    fn invariants(&self) -> &'static [Invariant] {
        &[]
    }

    /// Checks whether the controller may make a change. The error is the reason why it may not.
    fn may_change(&self, change: &Change, server: &ApiServer, history: &History) -> Result<(), String>;

    /// Returns the backoffs that its failed keys may use.
    fn backoffs(&self) -> &'static [Backoff];

    /// Returns the time within which the desired state is reached after fault injection has ended. A watch may be two minutes
    /// late by then, and the next reconcile may wait for the longest backoff and for other systems.
    fn bound(&self) -> Duration {
        let backoff = self.backoffs().iter().map(|backoff| backoff.max).max().unwrap_or_default();
        Duration::from_mins(4) + backoff
    }

    /// Executes the operations of users after fault injection has ended, such as removing their finalizers.
    fn calm(&self, client: &mut dyn Client) {
        let _ = client;
    }

    /// Returns the differences between the actual and the desired state, one sentence for each.
    fn differences(&self, world: &World<'_>) -> Vec<String>;

    /// Returns the systems outside Kubernetes, if the controller uses any.
    fn outside(&self) -> Option<Box<dyn ExternalSystems>> {
        None
    }

    /// Returns the foreign controllers around it; their jitter follows from the seed. No faults are injected into them.
    fn external(&self, seed: u64) -> Vec<Box<dyn Machine + Send>> {
        let _ = seed;
        Vec::new()
    }

    /// Returns a checker with its own state, for the whole run. It sees what the processes of the controller do, and each change that no
    /// process makes.
    fn witness(&self) -> Option<Box<dyn Checker>> {
        None
    }

    /// Returns the default duration of fault injection.
    fn stormy(&self) -> Duration {
        Duration::from_hours(1)
    }

    /// Returns whether the controller logs each change of a condition when it knows that the change was written.
    fn logs_written_conditions(&self) -> bool {
        false
    }

    /// Returns whether the desired state must be reached without a resync. The systems around the controller may need one.
    fn needs_no_resync(&self) -> bool {
        true
    }

    /// Returns the objects whose status the controller must be able to write again from everything else. It must be the same, unless
    /// the controller never becomes idle.
    fn reports(&self, server: &ApiServer) -> Vec<ObjectRef> {
        let _ = server;
        Vec::new()
    }

    /// Returns whether the controller writes nothing in the desired state, not even after it has started.
    fn becomes_idle(&self) -> bool {
        true
    }
}

/// The actual state.
pub struct World<'a> {
    /// The API server.
    pub server: &'a ApiServer,
    /// The systems outside Kubernetes.
    pub outside: Option<&'a dyn ExternalSystems>,
    /// The time.
    pub now: Timestamp,
}

/// Checks a run from its beginning.
pub trait Checker {
    /// Returns a checker that has seen the same entries.
    fn fork(&self) -> Box<dyn Checker>;

    /// Processes a journal entry. The error has the invariant's name, what it requires, and what was observed instead.
    fn see(&mut self, entry: &Entry) -> Result<(), Testimony>;
}

impl Clone for Box<dyn Checker> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

/// A violation that a checker found.
#[derive(Debug)]
pub struct Testimony {
    /// The invariant's name.
    pub invariant: &'static str,
    /// What the invariant requires.
    pub sentence: &'static str,
    /// What was observed.
    pub seen: String,
}

/// An operation of a user or a foreign controller.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// Its name in plans.
    pub name: &'static str,
    /// The actor, such as `user` or `other controller`.
    pub actor: &'static str,
    /// Its relative frequency.
    pub weight: u32,
    /// Executes it. The details follow from the state of the cluster and the random numbers.
    pub run: fn(&mut dyn Client, &mut Random),
}

impl Operation {
    /// Returns an operation from its name, actor, weight and function.
    pub const fn new(
        name: &'static str,
        actor: &'static str,
        weight: u32,
        run: fn(&mut dyn Client, &mut Random),
    ) -> Self {
        Self { name, actor, weight, run }
    }
}

/// A world that is small enough to explore every run in it: a few objects, and users with a few operations.
#[derive(Clone, Copy)]
pub struct SmallWorld {
    /// What happens in it, such as `a namespace is labelled`.
    pub name: &'static str,
    /// Returns the machine of a process. It must be able to reconcile all keys of the world at the same time: keys that wait for
    /// each other are not independent.
    pub machine: fn(u64) -> Box<dyn Explorable>,
    /// Prepares the cluster before the start, in place of [`SystemUnderTest::prepare`].
    pub prepare: fn(&mut dyn Client),
    /// Returns the systems around the controller, in place of [`SystemUnderTest::external`]. They are started again whenever they
    /// act, so all of their state must be in their objects, and none may wait.
    pub external: fn() -> Vec<Box<dyn Machine + Send>>,
    /// Returns the systems outside Kubernetes, in place of [`SystemUnderTest::outside`].
    pub outside: fn() -> Option<Box<dyn ExplorableSystems>>,
    /// The users. Each executes its operations in order, at any time.
    pub users: &'static [User],
    /// Returns the part of the world that an object belongs to; none if it concerns several parts. The controller must treat
    /// parts independently: no key, and no object, has anything to do with two parts.
    pub part: fn(&ObjectRef) -> Option<&'static str>,
}

/// A user of a small world.
#[derive(Debug, Clone, Copy)]
pub struct User {
    /// The part of the world that its operations concern; none if they concern several parts.
    pub part: Option<&'static str>,
    /// Its operations. They make no use of their random numbers.
    pub operations: &'static [Operation],
}

/// The client of a user or a foreign controller.
pub trait Client {
    /// Returns the cluster's server, for reading.
    fn server(&self) -> &ApiServer;

    /// Returns the systems outside Kubernetes and their time.
    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)>;

    /// Revokes or restores the controller's permission to list and watch a kind. A client of a real server cannot do this.
    fn permit_watches(&mut self, kind: &Kind, permitted: bool) {
        let _ = (kind, permitted);
    }

    /// Sends a request and returns the code and the body of the answer.
    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value);
}

impl dyn Client + '_ {
    /// Creates the kind of a CRD, if it does not exist, and namespaces.
    pub fn create_kind(&mut self, crd: &Value, namespaces: &[&str]) {
        let (code, answer) = self.create(&crds::kind(), crd);
        // Several controllers may use the kinds of one system.
        assert!(matches!(code, 201 | 409), "{answer}");
        let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
        for name in namespaces {
            self.create(&kind, &json!({ "metadata": { "name": name } }));
        }
    }

    /// Creates an object; an existing one is not changed.
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

    /// Restores the controller's permission to list and watch all of these kinds.
    pub fn permit_all_watches(&mut self, kinds: &[Arc<Kind>]) {
        for kind in kinds {
            self.permit_watches(kind, true);
        }
    }

    /// Revokes the controller's permission to list and watch one of these kinds.
    pub fn forbid_a_watch(&mut self, kinds: &[Arc<Kind>], random: &mut Random) {
        if let Some(kind) = one_of(kinds, random) {
            self.permit_watches(kind, false);
        }
    }

    /// Revokes the controller's permission to list and watch one of these kinds, or restores it for all of them.
    pub fn forbid_or_permit_watches(&mut self, kinds: &[Arc<Kind>], random: &mut Random) {
        let kind = one_of(kinds, random);
        if random.below(3) == 0 {
            self.permit_all_watches(kinds);
        } else if let Some(kind) = kind {
            self.permit_watches(kind, false);
        }
    }

    /// Returns a random object of a kind.
    pub fn any(&self, kind: &Kind, random: &mut Random) -> Option<Value> {
        let objects = self.server().objects(kind);
        one_of(&objects, random).map(|object| Value::clone(object))
    }
}

/// Returns a random one of these, if there are any.
fn one_of<'a, T>(from: &'a [T], random: &mut Random) -> Option<&'a T> {
    from.get(usize::try_from(random.below(from.len() as u64)).ok()?)
}

/// A client of a cluster that acts in the name of its author.
pub(super) struct ClusterClient<'a, W: FaultModel> {
    pub(super) cluster: &'a mut Cluster<W>,
    pub(super) actor: &'static str,
}

impl<W: FaultModel> Client for ClusterClient<'_, W> {
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
