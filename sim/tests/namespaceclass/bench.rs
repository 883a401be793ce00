//! A cluster with the operator, and the operations of users.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use lockstep_engine::machine::{Machine, Note};
use lockstep_engine::operator::Config;
use lockstep_namespaceclass::Operator;
use lockstep_sim::cluster::{Carried, Cluster};
use serde_json::{Value, json};

/// Maximum number of steps until one of these scenarios is idle: far more than they need, far less than an endless loop.
const STEPS_MAX: u64 = 20_000;

pub(crate) const CLASS_LABEL: &str = "namespaceclass.akuity.io/name";

pub(crate) fn config() -> Config {
    Config { concurrency: 5, resync: Duration::from_mins(10), instance: "test".to_owned(), seed: 1 }
}

pub(crate) fn operator() -> Operator {
    Operator::new(config())
}

/// Returns the machine of the processes in these tests.
pub(crate) fn program() -> Box<dyn Machine> {
    Box::new(operator())
}

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
}

impl Bench {
    /// Returns a cluster with our CRDs and the running operator.
    pub(crate) fn new() -> Self {
        let mut bench = Self { cluster: Cluster::new(1) };
        for set in lockstep_crds::all() {
            for crd in set.crds {
                let crd = serde_json::to_value(crd).expect("a CRD is JSON");
                bench.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd);
            }
        }
        bench.cluster.start(program, true);
        bench.settle();
        bench
    }

    pub(crate) fn settle(&mut self) {
        self.cluster.settle(STEPS_MAX).expect("becomes idle");
    }

    pub(crate) fn send(&mut self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.header("accept", "application/json").header("user-agent", "user/1");
        let response = self.cluster.request(&request.body(body).expect("a request"));
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.send(Method::POST, path, "application/json", body);
        assert_eq!(code, 201, "POST {path}: {answer:#}");
        answer
    }

    pub(crate) fn merge(&mut self, path: &str, patch: &Value) -> Value {
        let (code, answer) = self.send(Method::PATCH, path, "application/merge-patch+json", patch);
        assert_eq!(code, 200, "PATCH {path}: {answer:#}");
        answer
    }

    pub(crate) fn delete(&mut self, path: &str) {
        let (code, answer) = self.send(Method::DELETE, path, "application/json", &Value::Null);
        assert_eq!(code, 200, "DELETE {path}: {answer:#}");
    }

    pub(crate) fn get(&mut self, path: &str) -> Option<Value> {
        let (code, answer) = self.send(Method::GET, path, "application/json", &Value::Null);
        (code == 200).then_some(answer)
    }

    pub(crate) fn define(&mut self, class: &str, resources: &[Value]) {
        let body = json!({
            "apiVersion": "namespaceclass.akuity.io/v1alpha1",
            "kind": "NamespaceClass",
            "metadata": { "name": class },
            "spec": { "resources": resources },
        });
        self.post("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses", &body);
    }

    pub(crate) fn update(&mut self, class: &str, resources: &[Value]) {
        let path = format!("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/{class}");
        self.merge(&path, &json!({ "spec": { "resources": resources } }));
    }

    pub(crate) fn remove(&mut self, class: &str) {
        self.delete(&format!("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses/{class}"));
    }

    pub(crate) fn namespace(&mut self, name: &str, class: Option<&str>) {
        let mut body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
        if let Some(class) = class {
            body["metadata"]["labels"] = json!({ CLASS_LABEL: class });
        }
        self.post("/api/v1/namespaces", &body);
    }

    /// Sets the class label of a namespace, or removes it.
    pub(crate) fn label(&mut self, namespace: &str, class: Option<&str>) {
        let patch = json!({ "metadata": { "labels": { CLASS_LABEL: class } } });
        self.merge(&format!("/api/v1/namespaces/{namespace}"), &patch);
    }

    pub(crate) fn config_map(&mut self, namespace: &str, name: &str) -> Option<Value> {
        self.get(&format!("/api/v1/namespaces/{namespace}/configmaps/{name}"))
    }

    pub(crate) fn binding(&mut self, namespace: &str) -> Option<Value> {
        self.get(&format!(
            "/apis/namespaceclass.akuity.io/v1alpha1/namespaces/{namespace}/namespaceclassbindings/{namespace}"
        ))
    }

    /// Returns the condition of a binding, as `status reason: message`.
    pub(crate) fn ready(&mut self, namespace: &str) -> String {
        let binding = self.binding(namespace).expect("is bound");
        let condition = &binding["status"]["conditions"][0];
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    }

    /// Returns the relevant state of the cluster, without the differences between runs: uids are replaced by the names of their
    /// objects; versions, times and the server's bookkeeping are left out.
    pub(crate) fn world(&mut self) -> BTreeMap<String, Value> {
        let mut objects = Vec::new();
        for path in [
            "/api/v1/namespaces",
            "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses",
            "/apis/namespaceclass.akuity.io/v1alpha1/namespaceclassbindings",
            "/api/v1/configmaps",
            "/api/v1/secrets",
            "/api/v1/serviceaccounts",
        ] {
            let list = self.get(path).expect("can be listed");
            let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
            for object in list["items"].as_array().into_iter().flatten() {
                let part = |field: &str| object["metadata"][field].as_str().unwrap_or("-").to_owned();
                objects.push((format!("{kind} {}/{}", part("namespace"), part("name")), object.clone()));
            }
        }
        let names: BTreeMap<String, String> = objects
            .iter()
            .map(|(name, object)| {
                (object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), name.clone())
            })
            .collect();
        objects.into_iter().map(|(name, object)| (name, still(object, &names))).collect()
    }

    /// Returns the requests since the journal was last cleared.
    pub(crate) fn carried(&self) -> impl Iterator<Item = &Carried> {
        self.cluster.carried().map(|(_, carried)| carried)
    }

    /// Returns the condition changes so far, one a line.
    pub(crate) fn transitions(&self) -> String {
        let lines = self.cluster.notes().filter_map(|note| match note {
            Note::ConditionChanged { object, condition, status, reason, message, .. } => {
                Some(format!("{object}: {condition}={status} {reason}: {message}"))
            }
            Note::Reconciled { .. }
            | Note::EventAnnounced { .. }
            | Note::LeadershipChanged { .. }
            | Note::Error { .. }
            | Note::Warning { .. }
            | Note::Log { .. }
            | Note::Published { .. }
            | Note::Measured(_)
            | Note::Traced(_) => None,
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn still(value: Value, names: &BTreeMap<String, String>) -> Value {
    const VOLATILE: [&str; 5] =
        ["resourceVersion", "creationTimestamp", "managedFields", "lastTransitionTime", "generation"];
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(field, _)| !VOLATILE.contains(&field.as_str()))
            .map(|(field, value)| (field, still(value, names)))
            .collect(),
        Value::Array(items) => items.into_iter().map(|item| still(item, names)).collect(),
        Value::String(text) => json!(names.get(&text).cloned().unwrap_or(text)),
        other => other,
    }
}

pub(crate) fn settings(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "value": value } })
}

pub(crate) fn secret(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": { "pin": "4711" } })
}

pub(crate) fn account(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } })
}
