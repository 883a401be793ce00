//! A cluster with a controller and the systems around it, for the comparison of forecasts with what happens.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use jiff::Timestamp;
use lockstep_apiserver::server::{ApiServer, Options, Response};
use lockstep_engine::action::{Action, KubeRequest, Outcome};
use lockstep_engine::object::{ObjectRef, Uid, is_deleting};
use lockstep_engine::random::Random;
use lockstep_engine::wire;
use lockstep_sim::cluster::{Cluster, ExternalSystems, NoFaults};
use lockstep_sim::dry_run::{
    Forecast, Incomplete, Make, Snapshot, USER, Write, dry_run, run_until_quiet, writes,
};
use lockstep_sim::{Client, Operation, SystemUnderTest};
use serde_json::Value;

/// The field manager of the planned changes.
const MANAGER: &str = "user";
/// The number of operations before the cluster comes to rest.
const OPERATIONS: u64 = 12;

/// The operations that delete CRDs together with all objects of their kinds at once. No client requests these deletions. Besides, an operator that
/// has run for a while may still watch a kind that nothing needs any more, and that of a forecast does not.
const DELETIONS: [&str; 2] = ["delete the CRD of widgets", "delete the CRDs of MetalLB"];

pub(crate) struct Scene {
    subject: &'static dyn SystemUnderTest,
    seed: u64,
    pub(crate) cluster: Cluster<NoFaults>,
    random: Random,
}

impl Scene {
    /// Returns a cluster after random operations of users, and after everything that follows from them.
    pub(crate) fn at_rest(subject: &'static dyn SystemUnderTest, seed: u64) -> Self {
        let start = Timestamp::from_second(1_700_000_000).expect("a time");
        let server = ApiServer::new(&Options { seed, start, ..Options::default() });
        let mut cluster = Cluster::around(server, start, NoFaults);
        cluster.outside = subject.outside();
        subject.prepare(&mut Direct { cluster: &mut cluster });
        cluster.advance(Duration::from_secs(1));
        cluster.start(move || subject.machine(seed), true);
        for machine in subject.external(seed) {
            cluster.start_foreign(machine);
        }
        let mut random = Random::from_seed(seed);
        for _ in 0..OPERATIONS {
            let operation = random.pick(subject.operations());
            (operation.run)(&mut Direct { cluster: &mut cluster }, &mut random);
            cluster.advance(Duration::from_mins(random.below(3)));
        }
        subject.calm(&mut Direct { cluster: &mut cluster });
        cluster.advance(subject.bound());
        run_until_quiet(&mut cluster);
        cluster.journal.clear();
        Self { subject, seed, cluster, random }
    }

    /// Returns an operation of a user and the writes of which it consists; none if all that were drawn change nothing.
    pub(crate) fn some_change(&mut self) -> Option<(&'static str, Vec<KubeRequest>)> {
        let is_foreseeable =
            |it: &&Operation| it.actor != "other controller" && !DELETIONS.contains(&it.name);
        let operations: Vec<_> = self.subject.operations().iter().filter(is_foreseeable).collect();
        (0..20).find_map(|_| {
            let operation = self.random.pick(&operations);
            let mut copy = Copy { server: self.cluster.server.clone(), now: self.cluster.timestamp() };
            let before = copy.server.revision();
            (operation.run)(&mut copy, &mut self.random);
            let changes = changes(&copy.server, before);
            (!changes.is_empty()).then_some((operation.name, changes))
        })
    }

    /// Forecasts changes. The cluster must not change meanwhile.
    pub(crate) fn forecast(&mut self, changes: &[KubeRequest]) -> (Snapshot, Forecast) {
        let before = self.cluster.server.revision();
        let subject = self.subject;
        let make: Make = Rc::new(move || subject.machine(77));
        let mut snapshot = Snapshot::new(self.cluster.timestamp());
        let forecast = loop {
            match dry_run(&snapshot, std::slice::from_ref(&make), changes, MANAGER) {
                Ok(forecast) => break forecast,
                Err(Incomplete::Missing(reads)) => {
                    for read in reads {
                        assert!(!read.is_write(), "{read:?}");
                        let outcome = self.answer(&read);
                        snapshot.add(read, outcome);
                    }
                }
                Err(error) => panic!("seed {}: {error}\n{changes:#?}", self.seed),
            }
        };
        assert_eq!(self.cluster.server.revision(), before, "a forecast writes nothing");
        (snapshot, forecast)
    }

    /// Makes changes, and returns what follows from them while the systems around the controller do nothing.
    pub(crate) fn apply(&mut self, changes: &[KubeRequest]) -> Vec<Write> {
        for process in 1..self.cluster.processes() {
            self.cluster.pause(process, Duration::from_hours(24));
        }
        for change in changes {
            self.request(change).expect("the forecast has made this change as well");
        }
        run_until_quiet(&mut self.cluster);
        writes(&self.cluster.journal)
    }

    fn answer(&mut self, action: &Action) -> Outcome {
        if let Action::Kube(request) = action {
            return self.request(request);
        }
        let now = self.cluster.timestamp();
        self.cluster.outside.as_mut().expect("a registry").carry_out(0, action, now)
    }

    fn request(&mut self, request: &KubeRequest) -> Outcome {
        let encoded = wire::encode(request, MANAGER)?;
        let answer = self.cluster.request_as(USER, &encoded.map(Bytes::from));
        wire::decode(request, answer.status(), None, answer.body())
    }
}

/// Returns the writes that lead from a revision of a server to its current state.
fn changes(server: &ApiServer, before: u64) -> Vec<KubeRequest> {
    let mut objects: BTreeMap<ObjectRef, Option<Value>> = BTreeMap::new();
    for changed in server.changes_since(before) {
        objects.entry(changed.object).or_insert_with(|| changed.old.as_deref().cloned());
    }
    objects.into_iter().flat_map(|(target, old)| change(server, target, old)).collect()
}

fn change(server: &ApiServer, target: ObjectRef, old: Option<Value>) -> Vec<KubeRequest> {
    let delete = |old: Value| KubeRequest::Delete {
        target: target.clone(),
        uid: Uid::of(&old),
        resource_version: None,
    };
    let create = |new| KubeRequest::Create { target: target.clone(), manifest: fresh(new).into() };
    match (old, server.object(&target).map(|object| Value::clone(object))) {
        (None, None) => Vec::new(),
        (None, Some(new)) => vec![create(new)],
        (Some(old), None) => vec![delete(old)],
        // These changes remove no finalizer, so an object that has one is not replaced.
        (Some(old), Some(new))
            if Uid::of(&old) != Uid::of(&new) && old["metadata"]["finalizers"].is_array() =>
        {
            vec![delete(old)]
        }
        (Some(old), Some(new)) if Uid::of(&old) != Uid::of(&new) => vec![delete(old), create(new)],
        (Some(old), Some(new)) if is_deleting(&new) && !is_deleting(&old) => vec![delete(old)],
        (Some(old), Some(mut new)) => {
            for field in ["resourceVersion", "generation", "managedFields"] {
                new["metadata"][field] = old["metadata"][field].clone();
            }
            // A user does not write the status.
            if !old["status"].is_null() {
                new["status"] = old["status"].clone();
            }
            if new == old { Vec::new() } else { vec![KubeRequest::Update { target, manifest: new.into() }] }
        }
    }
}

/// Returns the object as a client writes it.
fn fresh(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    object
}

/// A client of the cluster.
struct Direct<'a> {
    cluster: &'a mut Cluster<NoFaults>,
}

impl Client for Direct<'_> {
    fn server(&self) -> &ApiServer {
        &self.cluster.server
    }

    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)> {
        let now = self.cluster.timestamp();
        Some((&mut **self.cluster.outside.as_mut()?, now))
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        let response = self.cluster.request_as(USER, &request(method, path, media_type, body));
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }
}

/// A client of a copy of the server.
struct Copy {
    server: ApiServer,
    now: Timestamp,
}

impl Client for Copy {
    fn server(&self) -> &ApiServer {
        &self.server
    }

    fn outside(&mut self) -> Option<(&mut dyn ExternalSystems, Timestamp)> {
        None
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) -> (u16, Value) {
        match self.server.handle(&request(method, path, media_type, body), self.now) {
            Response::Complete(response) => {
                (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
            }
            Response::Watch(..) => (400, Value::Null),
        }
    }
}

fn request(method: Method, path: &str, media_type: &str, body: &Value) -> http::Request<Bytes> {
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
    request.header("accept", "application/json").header("user-agent", MANAGER).body(body).expect("a request")
}
