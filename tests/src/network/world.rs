//! The desired state of the cluster after the end of fault injection.

use std::collections::BTreeMap;

use lockstep_apiserver::host::State;
use serde_json::Value;

use super::server::{self, FOREIGN, FOREIGN_VALUE, OCCUPIED};

/// The label that names the class.
pub const CLASS_LABEL: &str = "namespaceclass.akuity.io/name";
/// The path of the classes.
pub const CLASSES: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses";
const BINDINGS: &str = "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclassbindings";

/// The kinds of the objects in classes, and their paths.
const KINDS: [(&str, &str); 3] = [
    ("ConfigMap", "/api/v1/configmaps"),
    ("Secret", "/api/v1/secrets"),
    ("ServiceAccount", "/api/v1/serviceaccounts"),
];

/// The relevant objects on the server.
struct World {
    namespaces: Vec<Value>,
    classes: BTreeMap<String, Value>,
    bindings: BTreeMap<String, Value>,
    /// By kind, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
}

/// Returns the first difference from the desired state. Every namespace with the label of an existing class must have a binding
/// and all resources of the class. No other object of any class may be left, and the objects of others must be unchanged.
pub fn undesired(state: &State) -> Option<String> {
    let world = World::read(state);
    let mut bound = Vec::new();
    for namespace in &world.namespaces {
        let name = text(namespace, "name");
        if !namespace["metadata"]["deletionTimestamp"].is_null() {
            return Some(format!("namespace {name} is still being removed"));
        }
        let class = namespace["metadata"]["labels"][CLASS_LABEL].as_str();
        if let Some(class) = class.and_then(|class| world.classes.get(class)) {
            bound.push(name);
            if let Some(wrong) = world.unfulfilled(name, class) {
                return Some(wrong);
            }
        }
    }
    if let Some(name) = world.bindings.keys().find(|name| !bound.contains(&name.as_str())) {
        return Some(format!("binding {name} should not be there"));
    }
    world.orphan().or_else(|| world.touched())
}

/// Returns whether an entry of a class can't be applied.
fn has_mistakes(class: &Value) -> bool {
    let mut entries = class["spec"]["resources"].as_array().into_iter().flatten();
    entries.any(|entry| entry["kind"] == "Nonsense")
}

impl World {
    fn read(state: &State) -> Self {
        let list = |path: &str| match server::ask(state, path)["items"].take() {
            Value::Array(items) => items,
            other => panic!("{path} can't be listed: {other}"),
        };
        let by_name = |items: Vec<Value>, part: &str| {
            items.into_iter().map(|item| (text(&item, part).to_owned(), item)).collect()
        };
        let mut objects = BTreeMap::new();
        for (kind, path) in KINDS {
            for object in list(path) {
                let key = (
                    kind.to_owned(),
                    text(&object, "namespace").to_owned(),
                    text(&object, "name").to_owned(),
                );
                objects.insert(key, object);
            }
        }
        Self {
            namespaces: list("/api/v1/namespaces"),
            classes: by_name(list(CLASSES), "name"),
            bindings: by_name(list(BINDINGS), "namespace"),
            objects,
        }
    }

    /// Returns what is missing or wrong in a namespace of this class.
    fn unfulfilled(&self, namespace: &str, class: &Value) -> Option<String> {
        let name = text(class, "name");
        let Some(binding) = self.bindings.get(namespace) else {
            return Some(format!("{namespace} has no binding to class {name}"));
        };
        let condition = &binding["status"]["conditions"][0];
        let ready = condition["status"] == "True" || self.hindered(namespace, class);
        if binding["spec"]["className"] != name
            || binding["status"]["observedClassUid"] != class["metadata"]["uid"]
            || binding["status"]["observedClassGeneration"] != class["metadata"]["generation"]
            || !ready
        {
            return Some(format!(
                "the binding of {namespace} is not that of class {name}: {} {} {}",
                condition["reason"], condition["message"], binding["status"]["observedClassGeneration"]
            ));
        }
        resources(class).find_map(|wanted| {
            let (kind, object) = (wanted["kind"].as_str().unwrap_or_default(), text(wanted, "name"));
            if self.is_foreign(namespace, kind, object) {
                return None;
            }
            let key = (kind.to_owned(), namespace.to_owned(), object.to_owned());
            let Some(found) = self.objects.get(&key) else {
                return Some(format!("{namespace} lacks {kind} {object} of class {name}"));
            };
            let right = found["data"]["value"] == wanted["data"]["value"]
                && found["metadata"]["labels"][CLASS_LABEL] == name
                && found["metadata"]["ownerReferences"][0]["uid"] == binding["metadata"]["uid"];
            (!right).then(|| format!("{kind} {object} in {namespace} is not what class {name} says: {found}"))
        })
    }

    /// Returns whether something other than the operator prevents the binding from being ready.
    fn hindered(&self, namespace: &str, class: &Value) -> bool {
        has_mistakes(class)
            || resources(class).any(|wanted| {
                self.is_foreign(namespace, wanted["kind"].as_str().unwrap_or_default(), text(wanted, "name"))
            })
    }

    /// Returns whether an object belongs to another controller.
    fn is_foreign(&self, namespace: &str, kind: &str, name: &str) -> bool {
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects
            .get(&key)
            .is_some_and(|object| object["metadata"]["ownerReferences"][0]["kind"] == "ConfigMap")
    }

    /// Returns an object of a class that its namespace does not have.
    fn orphan(&self) -> Option<String> {
        self.objects.iter().find_map(|((kind, namespace, name), object)| {
            let owned = object["metadata"]["ownerReferences"][0]["kind"] == "NamespaceClassBinding";
            let label = &object["metadata"]["labels"][CLASS_LABEL];
            if !owned && label.is_null() {
                return None;
            }
            let of = self.namespaces.iter().find(|found| text(found, "name") == namespace);
            let class = of.and_then(|of| of["metadata"]["labels"][CLASS_LABEL].as_str());
            let class = class.and_then(|class| self.classes.get(class));
            let mut listed = class.into_iter().flat_map(resources);
            let wanted = listed.any(|wanted| wanted["kind"] == kind.as_str() && text(wanted, "name") == name);
            // While a class has a mistake, the operator prunes nothing.
            let kept = class.is_some_and(|class| *label == text(class, "name") && has_mistakes(class));
            (!wanted && !kept).then(|| format!("{kind} {name} of class {label} was left in {namespace}"))
        })
    }

    /// Returns an object of others that has changed.
    fn touched(&self) -> Option<String> {
        self.objects.iter().find_map(|((_, namespace, name), object)| {
            let others = name.starts_with("own-") || self.is_foreign(namespace, "ConfigMap", name);
            let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
            let mut ours =
                managers.filter(|entry| entry["manager"].as_str().is_some_and(|m| m.starts_with("lockstep")));
            let kept = namespace != OCCUPIED
                || name != FOREIGN[0]
                || !self.is_foreign(namespace, "ConfigMap", name)
                || object["data"]["value"] == FOREIGN_VALUE
                || object["data"]["value"] == "manually";
            (others && (ours.next().is_some() || !kept))
                .then(|| format!("{name} in {namespace} was touched: {object}"))
        })
    }
}

/// Returns the resources of a class that can be applied.
fn resources(class: &Value) -> impl Iterator<Item = &Value> {
    let resources = class["spec"]["resources"].as_array().into_iter().flatten();
    resources.filter(|wanted| wanted["kind"] != "Nonsense")
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
