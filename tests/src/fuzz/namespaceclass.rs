//! Fuzzes a `NamespaceClass` of any content, with an existing binding of any content: the validation covers every resource, and
//! the operator handles both without a panic.

use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Action, KubeRequest, WatchCommand};
use lockstep_engine::machine::Step;
use lockstep_engine::object::{Kind, ObjectRef, label, metadata};
use lockstep_engine::operator::Config;
use lockstep_namespaceclass::expression::NamespaceMetadata;
use lockstep_namespaceclass::kinds::Kinds;
use lockstep_namespaceclass::variables::Variables;
use lockstep_namespaceclass::{Operator, names, resolved_class};
use serde_json::{Value, json};

use super::always_ok::{self, World};

const CLASS: &str = "fuzzed";
const NAMESPACE: &str = "team";

/// Reads the bytes as the JSON of a class, which may have a binding under `binding`. Skips input that isn't JSON.
pub fn namespaceclass(data: &[u8]) {
    let Ok(class) = serde_json::from_slice::<Value>(data) else { return };
    let spec = &class["spec"];
    judge(spec["resources"].as_array().map_or(&[], Vec::as_slice), &spec["variables"]);
    if !class.is_object() {
        return;
    }
    let run = operate(&class);
    assert_eq!(run, operate(&class), "the same events gave different steps");
}

/// Checks that every resource is either an entry or a problem, and that every entry stays within its namespace and keeps its name,
/// whatever values its variables have.
fn judge(resources: &[Value], variables: &Value) {
    let content = resolved_class::resolve(CLASS, resources, Variables::read(variables), &kinds());
    let entries = content.entries.iter().map(|entry| entry.index);
    let mut judged: Vec<usize> =
        entries.chain(content.problems.iter().map(|problem| problem.index)).collect();
    judged.sort_unstable();
    assert!(judged.iter().copied().eq(0..resources.len()), "{judged:?} of {}", resources.len());
    let labels = json!({ "team": "${team}", "a": "", "b": "x\n\"}" });
    let metadata = NamespaceMetadata::read(&json!({ "metadata": { "labels": labels } }));
    let (all, content) = (content.entries.len(), Arc::new(content).in_namespace(NAMESPACE, &metadata));
    assert_eq!(content.entries.len() + content.unresolved.len(), all);
    for entry in &content.entries {
        let resource = &resources[entry.index];
        let manifest = entry.manifest(NAMESPACE, &"b".into(), false);
        let identity =
            |it: &Value| [&it["apiVersion"], &it["kind"], &it["metadata"]["name"]].map(Value::clone);
        assert_eq!(identity(&manifest), identity(resource));
        assert!(entry.kind.namespaced, "{}", entry.kind);
        check_manifest(&entry.manifest(NAMESPACE, &"b".into(), false), 1);
        let adopted = entry.manifest(NAMESPACE, &"b".into(), true);
        check_manifest(&adopted, usize::from(!entry.keeps_adopted));
    }
}

fn check_manifest(manifest: &Value, owners: usize) {
    assert_eq!(metadata(manifest, "namespace"), NAMESPACE);
    assert_eq!(label(manifest, names::CLASS_LABEL), Some(CLASS));
    assert_eq!(manifest["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len), owners);
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

/// Runs the operator with one namespace of the class.
fn operate(class: &Value) -> Vec<Step> {
    let config =
        Config { concurrency: 2, resync: Duration::from_hours(1), instance: "fuzz".to_owned(), seed: 1 };
    let namespace = json!({ "metadata": { "labels": { names::CLASS_LABEL: CLASS } } });
    let mut world = World::new(served());
    world.put(&ObjectRef::cluster(&names::class(), CLASS), class.clone());
    world.put(&ObjectRef::cluster(&names::namespace(), NAMESPACE), namespace);
    if class["binding"].is_object() {
        world.put(&ObjectRef::namespaced(&names::binding(), NAMESPACE, NAMESPACE), class["binding"].clone());
    }
    let steps = always_ok::run(&mut Operator::new(config), world);
    steps.iter().flat_map(|step| &step.requests).for_each(|request| check(&request.action));
    steps
}

/// Checks that resources are written only to their namespace, and that the operator's own watches are not changed.
fn check(action: &Action) {
    let own = [names::namespace(), names::class(), names::binding()];
    match action {
        Action::Watch(WatchCommand::Start { kind, scope }) if own.contains(kind) => {
            assert!(scope.selector.is_empty(), "{kind} is watched as if it were a resource");
        }
        Action::Watch(WatchCommand::Start { kind, .. }) => assert!(kind.namespaced, "{kind} is watched"),
        Action::Watch(WatchCommand::Stop { kind }) => {
            assert!(!own.contains(kind), "{kind} is watched no more");
        }
        _ => {}
    }
    let Some(target) = action.target().filter(|target| action.is_write() && target.kind.namespaced) else {
        return;
    };
    if target.kind.group == names::binding().group || target.kind.group == "events.k8s.io" {
        return;
    }
    assert_eq!(target.namespace.as_deref(), Some(NAMESPACE), "{target}");
    if let Action::Kube(KubeRequest::Apply { manifest, .. }) = action {
        let is_kept = manifest["metadata"]["annotations"].get(names::ADOPTED_ANNOTATION).is_some();
        check_manifest(manifest, usize::from(!is_kept || manifest["metadata"]["ownerReferences"].is_array()));
    }
}
