//! An operator with an API server in memory, for the tests of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind, Failure, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::{Event, Machine as _};
use lockstep_engine::object::{Kind, generation, metadata};
use lockstep_engine::operator::Config;
use lockstep_engine::recording::Recordable as _;
use lockstep_engine::time::{Monotonic, Now, Wall};
use serde_json::{Value, json};

use crate::Operator;
use crate::controller::Controller;
use crate::names;
use crate::store::Store;

/// An operator, and the objects as the API server has them. The operator sees a change when the watch shows it, or in an answer.
pub(crate) struct TestCluster {
    operator: Operator,
    /// By kind and name. The binding of a namespace has its name.
    objects: BTreeMap<(Arc<Kind>, String), Value>,
    version: u64,
    pub(crate) minutes: u64,
    /// The kinds that discovery finds.
    pub(crate) served: Vec<Arc<Kind>>,
    /// Selects the requests that are not answered yet.
    pub(crate) withheld: fn(&Action) -> bool,
    unanswered: Vec<Request>,
    /// All requests so far.
    pub(crate) asked: Vec<Action>,
}

impl TestCluster {
    pub(crate) fn new() -> Self {
        let config = Config { instance: "test".to_owned(), seed: 1, ..Config::default() };
        let operator = Operator::new(config);
        let mut cluster = Self {
            operator,
            objects: BTreeMap::new(),
            version: 0,
            minutes: 0,
            served: Vec::new(),
            withheld: |_| false,
            unanswered: Vec::new(),
            asked: Vec::new(),
        };
        cluster.deliver(vec![Event::Started, Event::LeadershipChanged { leading: true }]);
        for kind in [names::namespace(), names::class(), names::binding()] {
            cluster.list(&kind);
        }
        cluster
    }

    /// Stores an object in its next version.
    pub(crate) fn put(&mut self, kind: &Arc<Kind>, name: &str, mut object: Value) -> Value {
        self.version += 1;
        let namespace = if *kind == names::binding() { name } else { "" };
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        if metadata(&object, "uid").is_empty() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.version));
        }
        self.objects.insert((Arc::clone(kind), name.to_owned()), object.clone());
        object
    }

    pub(crate) fn get(&self, kind: &Arc<Kind>, name: &str) -> Option<Value> {
        self.objects.get(&(Arc::clone(kind), name.to_owned())).cloned()
    }

    pub(crate) fn remove(&mut self, kind: &Arc<Kind>, name: &str) -> Option<Event> {
        let mut object = self.objects.remove(&(Arc::clone(kind), name.to_owned()))?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Some(Event::Deleted { kind: Arc::clone(kind), object: Arc::new(object) })
    }

    pub(crate) fn label(&mut self, name: &str, class: Option<&str>) -> Event {
        let kind = names::namespace();
        let mut namespace = self.get(&kind, name).unwrap_or_else(|| json!({}));
        namespace["metadata"]["labels"] = json!({ names::CLASS_LABEL: class });
        let object = Arc::new(self.put(&kind, name, namespace));
        Event::Applied { kind, object }
    }

    pub(crate) fn class(&mut self, name: &str, spec: Value) -> Event {
        let kind = names::class();
        let mut class = self.get(&kind, name).unwrap_or_else(|| json!({}));
        class["metadata"]["generation"] = json!(generation(&class) + 1);
        class["spec"] = spec;
        let object = Arc::new(self.put(&kind, name, class));
        Event::Applied { kind, object }
    }

    pub(crate) fn list(&mut self, kind: &Arc<Kind>) {
        let of_kind = self.objects.iter().filter(|((of, _), _)| of == kind);
        let objects: Vec<Event> = of_kind
            .map(|(_, object)| Event::Applied { kind: Arc::clone(kind), object: Arc::new(object.clone()) })
            .collect();
        self.deliver(vec![Event::ListStarted { kind: Arc::clone(kind) }]);
        self.deliver(objects);
        self.deliver(vec![Event::ListCompleted { kind: Arc::clone(kind) }]);
    }

    /// Delivers events and answers what follows from them.
    pub(crate) fn deliver(&mut self, mut events: Vec<Event>) {
        let now = at(Duration::from_mins(self.minutes));
        while !events.is_empty() {
            let step = |event| self.operator.step(event, now).requests;
            let requests: Vec<Request> = events.drain(..).flat_map(step).collect();
            for request in requests {
                self.asked.push(request.action.clone());
                if (self.withheld)(&request.action) {
                    self.unanswered.push(request);
                } else {
                    events.push(self.finish(&request));
                }
            }
        }
    }

    fn finish(&mut self, request: &Request) -> Event {
        Event::Finished { id: request.id, outcome: self.answer(&request.action) }
    }

    /// Answers the requests that were withheld.
    pub(crate) fn answer_withheld(&mut self) {
        self.withheld = |_| false;
        let requests = std::mem::take(&mut self.unanswered);
        let events = requests.iter().map(|request| self.finish(request)).collect();
        self.deliver(events);
    }

    fn answer(&mut self, action: &Action) -> Outcome {
        let found = |object: Option<Value>| match object {
            Some(object) => Ok(Success::Object(Arc::new(object))),
            None => Err(Failure::new(ErrorKind::NotFound, "there is none")),
        };
        match action {
            Action::Kube(KubeRequest::Discover { api_version }) => {
                let found = self.served.iter().filter(|kind| kind.api_version() == *api_version);
                Ok(Success::Kinds(found.cloned().collect()))
            }
            Action::Kube(KubeRequest::Get { target, .. }) => found(self.get(&target.kind, &target.name)),
            Action::Kube(KubeRequest::Apply { target, manifest }) => {
                found(Some(self.put(&target.kind, &target.name, Value::clone(manifest))))
            }
            Action::Kube(KubeRequest::Patch { target, patch, .. }) => {
                let Some(mut object) = self.get(&target.kind, &target.name) else { return found(None) };
                if patch.get("status").is_some() {
                    object["status"] = patch["status"].clone();
                }
                found(Some(self.put(&target.kind, &target.name, object)))
            }
            Action::Kube(KubeRequest::Delete { target, .. }) => {
                self.remove(&target.kind, &target.name);
                Ok(Success::Done)
            }
            Action::Kube(KubeRequest::Create { manifest, .. }) => Ok(Success::Object(Arc::clone(manifest))),
            _ => Ok(Success::Done),
        }
    }

    pub(crate) fn controller(&self) -> Controller {
        let state = self.operator.checkpoint()().expect("JSON");
        serde_json::from_value(state["controller"].clone()).expect("a controller")
    }

    pub(crate) fn store(&self) -> Store {
        self.controller().store
    }
}

/// Returns the time this long after the start.
pub(crate) fn at(elapsed: Duration) -> Now {
    Now {
        wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH),
        monotonic: Monotonic::from_elapsed(elapsed),
    }
}
