//! The kinds of objects. Apps belong to users; controllers create the others.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::object::{Kind, Name, ObjectRef, label, metadata};
use lockstep_engine::random::Random;
use lockstep_sim::Client;
use serde_json::{Value, json};

const GROUP: &str = "museum.example.com";
/// The label with the uid of the App to which an object belongs.
pub const OWNER: &str = "museum.example.com/owner";
/// The label with the name of that App.
pub const APP: &str = "museum.example.com/app";
/// The namespaces of Apps.
pub const NAMESPACES: [&str; 2] = ["team-a", "team-b"];
/// How many objects the server returns at once, for the bugs that read one page.
pub const PAGE: usize = 2;
/// The names of Apps. They differ only at the end.
const NAMES: [&str; 2] = ["checkout-service-primary", "checkout-service-secondary"];

/// Returns the kind of what users ask for.
pub fn app() -> Arc<Kind> {
    custom("App")
}

/// Returns the kind of what runs, like a Pod.
pub fn worker() -> Arc<Kind> {
    custom("Worker")
}

/// Returns the kind of what stores data, like a `PersistentVolumeClaim`.
pub fn volume() -> Arc<Kind> {
    custom("Volume")
}

/// Returns the kind of what describes workers and volumes, like a `StatefulSet`.
pub fn template() -> Arc<Kind> {
    custom("Template")
}

/// Returns the kind `Secret`.
pub fn secret() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}

/// Returns the kind `ConfigMap`.
pub fn config_map() -> Arc<Kind> {
    Kind::known("", "v1", "ConfigMap", "configmaps", true)
}

fn custom(kind: &str) -> Arc<Kind> {
    Kind::known(GROUP, "v1", kind, &format!("{}s", kind.to_lowercase()), true)
}

/// Creates a kind, and namespaces.
pub fn create(client: &mut dyn Client, kind: &Kind, namespaces: &[&str]) {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": open, "status": open } });
    let version = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": schema },
    });
    let singular = kind.kind.to_lowercase();
    let names = json!({ "kind": kind.kind, "plural": kind.plural, "singular": singular });
    let crd = json!({
        "metadata": { "name": format!("{}.{GROUP}", kind.plural) },
        "spec": { "group": GROUP, "scope": "Namespaced", "names": names, "versions": [version] },
    });
    client.create_kind(&crd, namespaces);
}

/// Returns the name of an App.
pub fn some_name(random: &mut Random) -> Name {
    Name::new(random.pick(&NAMESPACES), random.pick(&NAMES))
}

/// Returns the uid of an object.
pub fn uid(object: &Value) -> &str {
    metadata(object, "uid")
}

/// Returns the uid of the App to which an object belongs.
pub fn owner(object: &Value) -> Option<&str> {
    label(object, OWNER)
}

/// Returns the App to which an object in the same namespace belongs.
pub fn app_of(object: &Value) -> Option<Name> {
    Some(Name::new(metadata(object, "namespace"), label(object, APP)?))
}

/// Returns the key of an App or of an object of one: the App.
pub fn key_of(kind: &Kind, object: &Value) -> Option<Name> {
    if *kind == *app() { Some(Name::of(object)) } else { app_of(object) }
}

/// Returns whether an object belongs to this very App.
pub fn belongs_to(object: &Value, app: &Value) -> bool {
    owner(object) == Some(uid(app))
}

/// Returns the selector of the objects of an App.
pub fn of(app: &Name) -> String {
    format!("{APP}={}", app.name)
}

/// Returns the creation of an object that belongs to an App; `more` is merged into it. Without a name, `more`
/// has the prefix of a generated one.
pub fn creation(target: &ObjectRef, app: &Value, label: &str, more: Value) -> Action {
    let labels = json!({ OWNER: uid(app), APP: label });
    let mut manifest = more;
    manifest["apiVersion"] = json!(target.kind.api_version());
    manifest["kind"] = json!(target.kind.kind);
    for (label, value) in labels.as_object().into_iter().flatten() {
        manifest["metadata"]["labels"][label] = value.clone();
    }
    manifest["metadata"]["namespace"] = json!(target.namespace);
    if !target.name.is_empty() {
        manifest["metadata"]["name"] = json!(target.name);
    }
    Action::Kube(KubeRequest::Create { target: target.clone(), manifest: Arc::new(manifest) })
}

/// Returns the number at the end of an object's name.
pub fn index(object: &Value) -> Option<u64> {
    metadata(object, "name").rsplit_once('-')?.1.parse().ok()
}
