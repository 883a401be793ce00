//! Worlds that are small enough to explore every run in them: two namespaces, and a class with two states.

use lockstep_engine::object::ObjectRef;
use lockstep_engine::operator::Config;
use lockstep_namespaceclass::Operator;
use lockstep_namespaceclass::names::{self, CLASS_LABEL};
use lockstep_sim::explorable::Explorable;
use lockstep_sim::subject::{Client, Operation, SmallWorld, SystemUnderTest as _, User};
use serde_json::{Value, json};

use super::{NamespaceClass, config};

const CLASS: &str = "web";
const RED: &str = "red";
const GREEN: &str = "green";

/// Two namespaces are labelled, one of them loses its label, and the class replaces its resource by another.
pub const TWO_NAMESPACES: SmallWorld = SmallWorld {
    name: "two namespaces are labelled, one loses its label, and the class changes",
    machine,
    prepare,
    external: Vec::new,
    outside: || None,
    users: &[
        User { part: Some(RED), operations: &[LABEL_RED, UNLABEL_RED] },
        User { part: Some(GREEN), operations: &[LABEL_GREEN] },
        User { part: None, operations: &[UPDATE] },
    ],
    part,
};

/// One namespace is labelled, and the class replaces its resource by another.
pub const ONE_NAMESPACE: SmallWorld = SmallWorld {
    name: "a namespace is labelled, and the class changes",
    users: &[User { part: Some(RED), operations: &[LABEL_RED] }, User { part: None, operations: &[UPDATE] }],
    ..TWO_NAMESPACES
};

/// One namespace is labelled.
pub const LABELLED: SmallWorld = SmallWorld {
    name: "a namespace is labelled",
    users: &[User { part: Some(RED), operations: &[LABEL_RED] }],
    ..TWO_NAMESPACES
};

/// All of them, the smallest first.
pub const ALL: [SmallWorld; 3] = [LABELLED, ONE_NAMESPACE, TWO_NAMESPACES];

const LABEL_RED: Operation =
    Operation::new("label namespace red", "tenant", 1, |client, _| label(client, RED, &json!(CLASS)));
const UNLABEL_RED: Operation =
    Operation::new("take the label off namespace red", "tenant", 1, |client, _| {
        label(client, RED, &Value::Null);
    });
const LABEL_GREEN: Operation =
    Operation::new("label namespace green", "tenant", 1, |client, _| label(client, GREEN, &json!(CLASS)));
const UPDATE: Operation = Operation::new("replace the resource of the class", "admin", 1, |client, _| {
    let class = ObjectRef::cluster(&names::class(), CLASS);
    client.merge(&class, &json!({ "spec": { "resources": [resource("b")] } }));
});

/// Returns a machine that can reconcile all keys at the same time.
fn machine(seed: u64) -> Box<dyn Explorable> {
    Box::new(Operator::new(Config { concurrency: 16, ..config(seed) }))
}

fn prepare(client: &mut dyn Client) {
    for crd in lockstep_crds::of(NamespaceClass.name()) {
        client.create_kind(&json!(crd), &[RED, GREEN]);
    }
    let class = json!({ "metadata": { "name": CLASS }, "spec": { "resources": [resource("a")] } });
    client.create(&names::class(), &class);
}

fn resource(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": name } })
}

fn label(client: &mut dyn Client, namespace: &str, class: &Value) {
    let namespace = ObjectRef::cluster(&names::namespace(), namespace);
    client.merge(&namespace, &json!({ "metadata": { "labels": { CLASS_LABEL: class } } }));
}

/// Classes concern all namespaces. Any other object belongs to one namespace, and so does the namespace itself.
fn part(object: &ObjectRef) -> Option<&'static str> {
    let name = match &object.namespace {
        Some(namespace) => namespace,
        None if object.kind == names::namespace() => &object.name,
        None => return None,
    };
    [RED, GREEN].into_iter().find(|namespace| name == namespace)
}
