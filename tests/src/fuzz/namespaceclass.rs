//! Any object as a `NamespaceClass`: it is judged without loss, and the operator lives through it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lockstep_core::engine::action::{Action, Class, Failure, Outcome, Success};
use lockstep_core::engine::machine::{Event, Machine as _, Step};
use lockstep_core::engine::operator::Config;
use lockstep_core::namespaceclass::world::{Binding, Kinds};
use lockstep_core::namespaceclass::{Operator, content, names};
use lockstep_core::object::{Kind, ObjectRef, label, metadata};
use lockstep_core::time::{Monotonic, Now, Wall};
use serde_json::{Value, json};

const CLASS: &str = "fuzzed";
const NAMESPACE: &str = "team";
/// The world stands still after one namespace has its resources: the operator must come to rest long before this.
const STEPS_MAX: usize = 2000;

/// Takes the bytes as the JSON of a class; anything that isn't JSON is passed over.
pub fn namespaceclass(data: &[u8]) {
    let Ok(mut class) = serde_json::from_slice::<Value>(data) else { return };
    judge(class["spec"]["resources"].as_array().map_or(&[], Vec::as_slice));
    if !class.is_object() {
        return;
    }
    // Whatever the API server lets in has a name.
    if !class["metadata"].is_object() {
        class["metadata"] = json!({});
    }
    class["metadata"]["name"] = json!(CLASS);
    let class = Arc::new(class);
    let run = operate(&class);
    assert_eq!(run, operate(&class), "the same events gave different steps");
}

/// Every resource is an entry or a problem, and every entry stays within the namespace that it is meant for.
fn judge(resources: &[Value]) {
    let content = content::resolve(CLASS, resources, &kinds());
    let entries = content.entries.iter().map(|entry| entry.index);
    let mut judged: Vec<usize> =
        entries.chain(content.problems.iter().map(|problem| problem.index)).collect();
    judged.sort_unstable();
    assert!(judged.iter().copied().eq(0..resources.len()), "{judged:?} of {}", resources.len());
    let binding = Binding::read(&json!({ "metadata": { "name": NAMESPACE, "uid": "b" } }));
    for entry in &content.entries {
        assert!(entry.kind.namespaced, "{}", entry.kind);
        check_manifest(&entry.manifest(NAMESPACE, &binding));
    }
}

fn check_manifest(manifest: &Value) {
    assert_eq!(metadata(manifest, "namespace"), NAMESPACE);
    assert_eq!(label(manifest, names::CLASS_LABEL), Some(CLASS));
    assert_eq!(manifest["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
    assert!(manifest.get("status").is_none());
}

fn served() -> Vec<Arc<Kind>> {
    vec![
        Kind::known("", "v1", "ConfigMap", "configmaps", true),
        Kind::known("", "v1", "Secret", "secrets", true),
        Kind::known("", "v1", "Service", "services", true),
        names::namespace(),
        Kind::known("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true),
        names::class(),
        names::binding(),
    ]
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::default();
    for kind in served() {
        let version = kind.api_version();
        let same = served().into_iter().filter(|other| other.api_version() == version);
        kinds.learn(&version, same.collect());
    }
    kinds
}

/// Lets the operator bind one namespace to the class, in a world where every request works.
fn operate(class: &Arc<Value>) -> Vec<Step> {
    let config =
        Config { concurrency: 2, resync: Duration::from_hours(1), instance: "fuzz".to_owned(), seed: 1 };
    let mut operator = Operator::new(config);
    let mut world = World::new(class);
    let mut events = VecDeque::from([Event::Started, Event::LeadershipChanged { leading: true }]);
    let mut steps = Vec::new();
    while let Some(event) = events.pop_front() {
        assert!(steps.len() < STEPS_MAX, "the operator does not come to rest");
        let millis = u64::try_from(steps.len()).unwrap_or(u64::MAX);
        let now = Now {
            wall: Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH),
            monotonic: Monotonic::from_elapsed(Duration::from_millis(millis)),
        };
        let step = operator.step(event, now);
        for request in &step.requests {
            world.answer(&request.action, &mut events);
            let outcome = world.outcome(&request.action);
            events.push_back(Event::Finished { id: request.id, outcome });
        }
        steps.push(step);
    }
    steps
}

/// Objects by name, changed by writes that always work and seen by watches at once.
struct World {
    objects: BTreeMap<ObjectRef, Arc<Value>>,
    version: u64,
}

impl World {
    fn new(class: &Arc<Value>) -> Self {
        let namespace = json!({
            "metadata": {
                "name": NAMESPACE, "uid": "n", "resourceVersion": "1", "labels": { names::CLASS_LABEL: CLASS },
            },
        });
        let objects = BTreeMap::from([
            (ObjectRef::cluster(&names::class(), CLASS), Arc::clone(class)),
            (ObjectRef::cluster(&names::namespace(), NAMESPACE), Arc::new(namespace)),
        ]);
        Self { objects, version: 1 }
    }

    /// What watches see before the answer comes.
    fn answer(&mut self, action: &Action, events: &mut VecDeque<Event>) {
        match action {
            Action::Watch { kind, .. } => {
                events.push_back(Event::ListStarted { kind: Arc::clone(kind) });
                let listed = self.objects.iter().filter(|(name, _)| name.kind == *kind);
                events.extend(listed.map(|(name, object)| Event::Observed {
                    kind: Arc::clone(&name.kind),
                    object: Arc::clone(object),
                }));
                events.push_back(Event::ListCompleted { kind: Arc::clone(kind) });
            }
            Action::Apply { target, manifest: change }
            | Action::Update { target, manifest: change }
            | Action::Patch { target, patch: change, .. } => {
                let applied = matches!(action, Action::Apply { .. });
                if target.kind.namespaced && target.kind.group != names::binding().group {
                    assert!(
                        target.kind.group == "events.k8s.io"
                            || target.namespace.as_deref() == Some(NAMESPACE)
                    );
                    if applied {
                        check_manifest(change);
                    }
                }
                if let Some(object) = self.write(target, change, applied) {
                    events.push_back(Event::Observed { kind: Arc::clone(&target.kind), object });
                }
            }
            Action::Delete { target, .. } => {
                if let Some(object) = self.objects.remove(target) {
                    events.push_back(Event::Vanished { kind: Arc::clone(&target.kind), object });
                }
            }
            Action::Unwatch { .. }
            | Action::Discover { .. }
            | Action::Get { .. }
            | Action::List { .. }
            | Action::Create { .. }
            | Action::Fetch { .. }
            | Action::FindImage { .. }
            | Action::Connect { .. }
            | Action::Publish { .. } => {}
        }
    }

    /// As a server does it: the managed fields name who applied, and a write that changes nothing is none.
    fn write(&mut self, target: &ObjectRef, change: &Value, applied: bool) -> Option<Arc<Value>> {
        let before = self.objects.get(target).cloned();
        let mut object = before.as_deref().cloned().unwrap_or_else(|| json!({}));
        let version = object["metadata"]["resourceVersion"].take();
        merge(&mut object, change);
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        object["metadata"]["resourceVersion"] = version;
        if applied {
            let entry = json!({ "manager": names::FIELD_MANAGER, "operation": "Apply", "fieldsV1": {} });
            object["metadata"]["managedFields"] = json!([entry]);
        }
        if before.is_some_and(|before| *before == object) {
            return None;
        }
        self.version += 1;
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("u{}", self.version));
        }
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        self.objects.insert(target.clone(), Arc::clone(&object));
        Some(object)
    }

    fn outcome(&self, action: &Action) -> Outcome {
        match action {
            Action::Discover { api_version } => {
                let kinds = served().into_iter().filter(|kind| kind.api_version() == *api_version);
                Ok(Success::Kinds(kinds.collect()))
            }
            Action::Watch { .. }
            | Action::Unwatch { .. }
            | Action::List { .. }
            | Action::Delete { .. }
            | Action::Fetch { .. }
            | Action::FindImage { .. }
            | Action::Connect { .. }
            | Action::Publish { .. } => Ok(Success::Done),
            Action::Create { manifest, .. } => Ok(Success::Object(Arc::clone(manifest))),
            Action::Get { target, .. }
            | Action::Apply { target, .. }
            | Action::Update { target, .. }
            | Action::Patch { target, .. } => match self.objects.get(target) {
                Some(object) => Ok(Success::Object(Arc::clone(object))),
                None => Err(Failure::new(Class::NotFound, "no such object")),
            },
        }
    }
}

/// A merge patch (RFC 7386).
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
