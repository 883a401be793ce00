use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{
    Action, Class as FailureClass, Failure, KubeRequest, Outcome, Request, Success,
};
use lockstep_engine::machine::{Event, Machine as _};
use lockstep_engine::object::{Kind, generation, metadata};
use lockstep_engine::operator::Config;
use lockstep_engine::recording::Recordable as _;
use lockstep_engine::time::{Monotonic, Wall};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::names;
use super::*;
use crate::Operator;

/// An operator, and the objects as the API server has them. The operator sees a change when the watch shows it, or in an answer.
struct World {
    operator: Operator,
    /// By kind and name. The binding of a namespace has its name.
    objects: BTreeMap<(Arc<Kind>, String), Value>,
    version: u64,
    minutes: u64,
}

impl World {
    fn new() -> Self {
        let config = Config { instance: "test".to_owned(), seed: 1, ..Config::default() };
        let operator = Operator::new(config);
        let mut world = Self { operator, objects: BTreeMap::new(), version: 0, minutes: 0 };
        world.deliver(vec![Event::Started, Event::LeadershipChanged { leading: true }]);
        for kind in [names::namespace(), names::class(), names::binding()] {
            world.list(&kind);
        }
        world
    }

    /// Stores an object in its next version.
    fn put(&mut self, kind: &Arc<Kind>, name: &str, mut object: Value) -> Value {
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

    fn get(&self, kind: &Arc<Kind>, name: &str) -> Option<Value> {
        self.objects.get(&(Arc::clone(kind), name.to_owned())).cloned()
    }

    fn remove(&mut self, kind: &Arc<Kind>, name: &str) -> Option<Event> {
        let mut object = self.objects.remove(&(Arc::clone(kind), name.to_owned()))?;
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        Some(Event::Deleted { kind: Arc::clone(kind), object: Arc::new(object) })
    }

    fn label(&mut self, name: &str, class: Option<&str>) -> Event {
        let kind = names::namespace();
        let mut namespace = self.get(&kind, name).unwrap_or_else(|| json!({}));
        namespace["metadata"]["labels"] = json!({ names::CLASS_LABEL: class });
        let object = Arc::new(self.put(&kind, name, namespace));
        Event::Applied { kind, object }
    }

    fn class(&mut self, name: &str, excluded: &[&str]) -> Event {
        let kind = names::class();
        let mut class = self.get(&kind, name).unwrap_or_else(|| json!({}));
        class["metadata"]["generation"] = json!(generation(&class) + 1);
        class["spec"] = json!({
            "resources": [],
            "removalGuard": { "maxPercent": 50, "windowMinutes": 1 },
            "excludedNamespaces": excluded,
        });
        let object = Arc::new(self.put(&kind, name, class));
        Event::Applied { kind, object }
    }

    fn list(&mut self, kind: &Arc<Kind>) {
        let of_kind = self.objects.iter().filter(|((of, _), _)| of == kind);
        let objects: Vec<Event> = of_kind
            .map(|(_, object)| Event::Applied { kind: Arc::clone(kind), object: Arc::new(object.clone()) })
            .collect();
        self.deliver(vec![Event::ListStarted { kind: Arc::clone(kind) }]);
        self.deliver(objects);
        self.deliver(vec![Event::ListCompleted { kind: Arc::clone(kind) }]);
    }

    /// Delivers events and answers what follows from them.
    fn deliver(&mut self, mut events: Vec<Event>) {
        let monotonic = Monotonic::from_elapsed(Duration::from_mins(self.minutes));
        let now = Now { wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH), monotonic };
        while !events.is_empty() {
            let step = |event| self.operator.step(event, now).requests;
            let requests: Vec<Request> = events.drain(..).flat_map(step).collect();
            for Request { id, action } in requests {
                let outcome = self.answer(&action);
                events.push(Event::Finished { id, outcome });
            }
        }
    }

    fn answer(&mut self, action: &Action) -> Outcome {
        let found = |object: Option<Value>| match object {
            Some(object) => Ok(Success::Object(Arc::new(object))),
            None => Err(Failure::new(FailureClass::NotFound, "there is none")),
        };
        match action {
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

    fn store(&self) -> Store {
        let state = self.operator.checkpoint()().expect("JSON");
        serde_json::from_value(state["controller"]["store"].clone()).expect("a store")
    }
}

/// Returns how many namespaces a class leaves, by looking at each of them.
fn counted(store: &Store, class: &str) -> usize {
    let bound = store.bindings.keys_by(&BindingIndex::Class(class.to_owned()));
    bound.filter(|namespace| store.is_leaving(namespace, class)).count()
}

proptest! {
    /// Whatever users do, and however late the operator sees it, its count is that of the namespaces that it knows.
    #[test]
    fn the_count_of_departures_is_right_after_each_change(
        changes in proptest::collection::vec((0..8u8, 0..4usize, 0..3usize, proptest::bool::weighted(0.8)), 1..40)
    ) {
        let mut world = World::new();
        for (change, which, how, is_seen) in changes {
            let (namespace, class) = (["n0", "n1", "n2", "n3"][which], ["web", "db"][which % 2]);
            let event = match change {
                0 | 1 => Some(world.label(namespace, [None, Some("web"), Some("db")][how])),
                2 => world.remove(&names::namespace(), namespace),
                3 => world.get(&names::namespace(), namespace).map(|mut object| {
                    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                    let object = Arc::new(world.put(&names::namespace(), namespace, object));
                    Event::Applied { kind: names::namespace(), object }
                }),
                4 => Some(world.class(class, [&[][..], &["n0"], &["n*"]][how])),
                5 => world.remove(&names::class(), class),
                6 => world.remove(&names::binding(), namespace),
                _ => {
                    world.minutes += 10;
                    let kind = [names::namespace(), names::class(), names::binding()][how].clone();
                    world.list(&kind);
                    Some(Event::TimerFired)
                }
            };
            world.deliver(event.into_iter().filter(|_| is_seen).collect());
            let store = world.store();
            for class in ["web", "db"].into_iter().filter(|it| store.classes.get(&(*it).to_owned()).is_some()) {
                prop_assert_eq!(store.departures.count(class), counted(&store, class), "{}", class);
            }
        }
    }
}
