//! A model of an API server in which every request succeeds, and a driver that expects nothing else.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_engine::action::{
    Action, ErrorKind, Failure, KubeRequest, Outcome, Scope, Success, WatchCommand,
};
use lockstep_engine::image::FoundImage;
use lockstep_engine::machine::{Event, Machine, Step};
use lockstep_engine::object::{Kind, ObjectRef, is_deleting};
use lockstep_engine::time::{Monotonic, Now, Wall};
use lockstep_engine::wire;
use lockstep_namespaceclass::names::FIELD_MANAGER;
use serde_json::{Value, json};

/// The maximum number of steps. No other client changes the model, so the machine must become idle long before this.
const STEPS_MAX: usize = 2000;
/// How often the machine is woken at its deadline when no other event is pending.
const WAKES_MAX: usize = 8;

/// Runs a machine on a model, and returns its steps.
pub(super) fn run(machine: &mut impl Machine, mut world: World) -> Vec<Step> {
    let mut events = VecDeque::from([Event::Started, Event::LeadershipChanged { leading: true }]);
    let (mut steps, mut wakes, mut elapsed) = (Vec::new(), 0, Duration::ZERO);
    loop {
        let event = match (events.pop_front(), machine.deadline()) {
            (Some(event), _) => event,
            (None, Some(deadline)) if wakes < WAKES_MAX => {
                wakes += 1;
                elapsed = elapsed.max(deadline.at.elapsed());
                Event::TimerFired
            }
            (None, _) => return steps,
        };
        assert!(steps.len() < STEPS_MAX, "the machine does not come to rest");
        elapsed += Duration::from_millis(1);
        let wall = Timestamp::UNIX_EPOCH + SignedDuration::try_from(elapsed).expect("not that long");
        let now = Now { wall: Wall::from_timestamp(wall), monotonic: Monotonic::from_elapsed(elapsed) };
        let step = machine.step(event, now);
        for request in &step.requests {
            let outcome = world.answer(&request.action, &mut events);
            events.push_back(Event::Finished { id: request.id, outcome });
        }
        steps.push(step);
    }
}

/// Objects by name. Writes always succeed, and watches see them at once.
#[derive(Clone)]
pub(super) struct World {
    kinds: Vec<Arc<Kind>>,
    objects: BTreeMap<ObjectRef, Arc<Value>>,
    watched: BTreeMap<Arc<Kind>, Scope>,
    version: u64,
}

impl World {
    /// Creates a model without objects, which serves these kinds.
    pub(super) fn new(kinds: Vec<Arc<Kind>>) -> Self {
        Self { kinds, objects: BTreeMap::new(), watched: BTreeMap::new(), version: 0 }
    }

    /// Stores an object of any shape under its name. The object gets the fields that every object in an API server has. Its uid
    /// is its name, so that other objects can refer to it as their owner.
    pub(super) fn put(&mut self, target: &ObjectRef, mut object: Value) {
        for part in ["", "/metadata"] {
            if let Some(part) = object.pointer_mut(part).filter(|part| !part.is_object()) {
                *part = json!({});
            }
        }
        object["metadata"]["uid"] = json!(target.to_string());
        self.keep(target, object);
    }

    fn keep(&mut self, target: &ObjectRef, mut object: Value) -> Arc<Value> {
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(target.name);
        if let Some(namespace) = &target.namespace {
            metadata["namespace"] = json!(namespace);
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("u{}", self.version));
        }
        metadata["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        self.objects.insert(target.clone(), Arc::clone(&object));
        object
    }

    /// Executes an action. Its watch events are queued before its answer is returned.
    fn answer(&mut self, action: &Action, events: &mut VecDeque<Event>) -> Outcome {
        match action {
            Action::Watch(WatchCommand::Start { kind, scope }) => {
                self.watched.insert(Arc::clone(kind), scope.clone());
                events.push_back(Event::ListStarted { kind: Arc::clone(kind) });
                let listed = self.list(kind, scope);
                events.extend(listed.map(|object| Event::Applied { kind: Arc::clone(kind), object }));
                events.push_back(Event::ListCompleted { kind: Arc::clone(kind) });
                Ok(Success::Done)
            }
            Action::Watch(WatchCommand::Stop { kind }) => {
                self.watched.remove(kind);
                Ok(Success::Done)
            }
            Action::Kube(KubeRequest::Discover { api_version }) => {
                let kinds = self.kinds.iter().filter(|kind| kind.api_version() == *api_version);
                Ok(Success::Kinds(kinds.cloned().collect()))
            }
            Action::Kube(KubeRequest::List { kind, scope }) => {
                let all = Scope { name: None, ..scope.clone() };
                Ok(Success::Objects(self.list(kind, &all).collect()))
            }
            Action::Kube(KubeRequest::Get { target, metadata_only }) => {
                let scope = Scope { metadata_only: *metadata_only, ..Scope::default() };
                match self.objects.get(target) {
                    Some(object) => Ok(Success::Object(shown(object, &scope))),
                    None => Err(Failure::new(ErrorKind::NotFound, "no such object")),
                }
            }
            Action::Kube(KubeRequest::Create { target, .. }) if self.objects.contains_key(target) => {
                Err(Failure::new(ErrorKind::AlreadyExists, "there is such an object"))
            }
            Action::Kube(KubeRequest::GetLengths { target }) => match self.objects.get(target) {
                Some(object) => Ok(Success::Object(Arc::new(wire::lengths(object)))),
                None => Err(Failure::new(ErrorKind::NotFound, "no such object")),
            },
            Action::Kube(KubeRequest::CreateSecret { target, .. }) if self.objects.contains_key(target) => {
                Err(Failure::new(ErrorKind::AlreadyExists, "there is such an object"))
            }
            Action::Kube(request @ KubeRequest::CreateSecret { .. }) => {
                match &*wire::generated(request, |_| Ok(()))? {
                    KubeRequest::CreateSecret { target, manifest, .. } => {
                        let object = self.write(target, manifest, false, events);
                        Ok(Success::Object(Arc::new(wire::lengths(&object))))
                    }
                    _ => Ok(Success::Done),
                }
            }
            Action::Kube(
                KubeRequest::Create { target, manifest: change }
                | KubeRequest::Update { target, manifest: change },
            ) => Ok(Success::Object(self.write(target, change, false, events))),
            Action::Kube(KubeRequest::Apply { target, manifest }) => {
                Ok(Success::Object(self.write(target, manifest, true, events)))
            }
            Action::Kube(KubeRequest::Patch { target, .. }) if !self.objects.contains_key(target) => {
                Err(Failure::new(ErrorKind::NotFound, "no such object"))
            }
            Action::Kube(KubeRequest::Patch { target, patch, .. }) => {
                Ok(Success::Object(self.write(target, patch, false, events)))
            }
            Action::Kube(KubeRequest::Delete { target, .. }) => match self.objects.remove(target) {
                Some(object) => {
                    self.vanish(target, &object, events);
                    Ok(Success::Done)
                }
                None => Err(Failure::new(ErrorKind::NotFound, "no such object")),
            },
            Action::Registry(_) => {
                let release = Some("4.19.0".to_owned());
                Ok(Success::Image(FoundImage { digest: format!("sha256:{:064}", 1), release }))
            }
            Action::Http(_) | Action::Broker(_) => Ok(Success::Done),
        }
    }

    fn list(&self, kind: &Arc<Kind>, scope: &Scope) -> impl Iterator<Item = Arc<Value>> {
        let seen =
            self.objects.iter().filter(|(name, object)| name.kind == *kind && sees(scope, name, object));
        seen.map(|(_, object)| shown(object, scope))
    }

    /// Writes as a server does. The managed fields name the client that applied. A write that changes nothing has no effect. An
    /// object that is being deleted is removed with its last finalizer.
    fn write(
        &mut self,
        target: &ObjectRef,
        change: &Value,
        applied: bool,
        events: &mut VecDeque<Event>,
    ) -> Arc<Value> {
        let before = self.objects.get(target).cloned();
        let mut object = before.as_deref().cloned().unwrap_or_else(|| json!({}));
        let held = object["metadata"]["resourceVersion"].clone();
        merge(&mut object, change);
        if applied {
            let entry = json!({ "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": {} });
            object["metadata"]["managedFields"] = json!([entry]);
        }
        if let Some(before) = before {
            object["metadata"]["uid"] = before["metadata"]["uid"].clone();
            object["metadata"]["resourceVersion"] = held;
            if *before == object {
                return before;
            }
        }
        let object = self.keep(target, object);
        let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        if is_deleting(&object) && !is_held {
            self.objects.remove(target);
            self.vanish(target, &object, events);
        } else if let Some(scope) =
            self.watched.get(&target.kind).filter(|scope| sees(scope, target, &object))
        {
            let object = shown(&object, scope);
            events.push_back(Event::Applied { kind: Arc::clone(&target.kind), object });
        }
        object
    }

    fn vanish(&self, target: &ObjectRef, object: &Arc<Value>, events: &mut VecDeque<Event>) {
        if let Some(scope) = self.watched.get(&target.kind).filter(|scope| sees(scope, target, object)) {
            let object = shown(object, scope);
            events.push_back(Event::Deleted { kind: Arc::clone(&target.kind), object });
        }
    }
}

/// Returns whether an object is within a scope. Only the selectors `a` and `a=b` are used.
fn sees(scope: &Scope, target: &ObjectRef, object: &Value) -> bool {
    let labels = &object["metadata"]["labels"];
    let mut terms = scope.selector.split(',').filter(|term| !term.is_empty());
    scope.namespace.as_ref().is_none_or(|namespace| target.namespace.as_ref() == Some(namespace))
        && scope.name.as_ref().is_none_or(|name| target.name == *name)
        && terms.all(|term| match term.split_once('=') {
            Some((label, value)) => labels.get(label).is_some_and(|held| held == value),
            None => labels.get(term).is_some(),
        })
}

fn shown(object: &Arc<Value>, scope: &Scope) -> Arc<Value> {
    if scope.metadata_only { Arc::new(json!({ "metadata": object["metadata"] })) } else { Arc::clone(object) }
}

/// Applies a merge patch (RFC 7386).
fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (field, value) in fields {
        if value.is_null() {
            object.as_object_mut().map(|object| object.remove(field));
        } else {
            merge(&mut object[field.as_str()], value);
        }
    }
}
