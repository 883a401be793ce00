//! A cluster with the worlds in it, and what users do to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use lockstep_core::object::{annotation, is_deleting};
use lockstep_sim::cluster::{Author, Change, Cluster, What};
use lockstep_sim::worlds::hypershift::{self, HyperShift};
use lockstep_sim::worlds::{self, Level, Pace, dpf, metallb};
use serde_json::{Value, json};

use super::manifests::{NAMESPACE, hosted_cluster, node_pool, pool, secret};

/// The most steps that any of these scenarios may take to come to rest: far more than they need, far less than a spin.
const STEPS_MAX: u64 = 20_000;

/// The paths of the kinds that are named in these tests.
const COLLECTIONS: [(&str, &str); 10] = [
    ("HostedCluster", "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/hostedclusters"),
    ("NodePool", "/apis/hypershift.openshift.io/v1beta1/namespaces/clusters/nodepools"),
    ("DPUCluster", "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/clusters/dpuclusters"),
    ("IPAddressPool", "/apis/metallb.io/v1beta1/namespaces/clusters/ipaddresspools"),
    ("Secret", "/api/v1/namespaces/clusters/secrets"),
    ("Service", "/api/v1/namespaces/clusters/services"),
    ("Namespace", "/api/v1/namespaces"),
    ("Deployment", "/apis/apps/v1/namespaces/hypershift/deployments"),
    ("ConfigMap", "/api/v1/namespaces/hypershift/configmaps"),
    ("CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
];

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
}

impl Bench {
    /// A cluster with these definitions and nothing that runs.
    pub(crate) fn with_definitions(definitions: &[Value]) -> Self {
        let mut bench = Self { cluster: Cluster::new(1) };
        for definition in definitions {
            bench.create(definition);
        }
        bench.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }));
        bench.settle();
        bench
    }

    /// A cluster in which the worlds run, with the Secrets that a hosted cluster needs.
    pub(crate) fn new() -> Self {
        Self::running(&worlds::definitions(), HyperShift::default())
    }

    /// The same with these definitions, and a HyperShift that is set up so.
    pub(crate) fn running(definitions: &[Value], hypershift: HyperShift) -> Self {
        let mut bench = Self::with_definitions(definitions);
        for object in hypershift::installation() {
            bench.create(&object);
        }
        bench.create(&secret("pull-secret", ".dockerconfigjson"));
        bench.create(&secret("ssh-key", "id_rsa.pub"));
        bench.cluster.start_foreign(Box::new(Level::new(hypershift, Pace::BRISK, 1)));
        bench.cluster.start_foreign(Box::new(Level::new(dpf::Dpf, Pace::BRISK, 2)));
        bench.cluster.start_foreign(Box::new(Level::new(metallb::MetalLb, Pace::BRISK, 3)));
        bench.settle();
        bench.cluster.journal.clear();
        bench
    }

    /// The same with a hosted cluster.
    pub(crate) fn hosting(definitions: &[Value]) -> Self {
        let mut bench = Self::running(definitions, HyperShift::default());
        bench.create(&pool("vips", "192.0.2.10-192.0.2.11", true));
        bench.create(&hosted_cluster("prod"));
        bench.create(&node_pool("prod"));
        bench.settle();
        bench
    }

    pub(crate) fn settle(&mut self) {
        self.cluster.settle(STEPS_MAX).expect("comes to rest");
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.cluster.advance(by);
    }

    pub(crate) fn send(&mut self, method: Method, path: &str, kind: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.header("accept", "application/json").header("user-agent", "user/1");
        let response = self.cluster.request(&request.body(body).expect("a request"));
        (response.status().as_u16(), serde_json::from_slice(response.body()).unwrap_or_default())
    }

    pub(crate) fn try_create(&mut self, object: &Value) -> (u16, Value) {
        self.send(
            Method::POST,
            collection(object["kind"].as_str().expect("a kind")),
            "application/json",
            object,
        )
    }

    pub(crate) fn create(&mut self, object: &Value) {
        let (code, answer) = self.try_create(object);
        assert_eq!(code, 201, "{answer:#}");
    }

    pub(crate) fn try_merge(&mut self, kind: &str, name: &str, patch: &Value) -> (u16, Value) {
        self.send(Method::PATCH, &path(kind, name), "application/merge-patch+json", patch)
    }

    pub(crate) fn merge(&mut self, kind: &str, name: &str, patch: &Value) {
        let (code, answer) = self.try_merge(kind, name, patch);
        assert_eq!(code, 200, "{answer:#}");
    }

    pub(crate) fn delete(&mut self, kind: &str, name: &str) {
        let (code, answer) = self.send(Method::DELETE, &path(kind, name), "application/json", &Value::Null);
        assert_eq!(code, 200, "{answer:#}");
    }

    /// An object; null if there is none.
    pub(crate) fn get(&mut self, kind: &str, name: &str) -> Value {
        self.at(&path(kind, name))
    }

    /// What is at a path; null if nothing is.
    pub(crate) fn at(&mut self, path: &str) -> Value {
        let (code, answer) = self.send(Method::GET, path, "application/json", &Value::Null);
        if code == 200 { answer } else { Value::Null }
    }

    /// What was changed since the last call, a line for each change.
    pub(crate) fn transitions(&mut self) -> String {
        let mut told = String::new();
        for entry in std::mem::take(&mut self.cluster.journal) {
            let What::Changed(change) = entry.what else { continue };
            let author = match change.by {
                Author::Client(author) => author,
                Author::ControlPlane => "cluster",
                Author::Process(_) => unreachable!("there is none"),
            };
            let Some(what) = difference(&change) else { continue };
            let kind = &change.object.kind.kind;
            let at = entry.at.as_millis();
            let (seconds, millis) = (at / 1000, at % 1000);
            let name = &change.object.name;
            writeln!(told, "{seconds:>3}.{millis:03}  {author:<10}  {kind} {name}: {what}")
                .expect("a string takes it");
        }
        told
    }
}

fn collection(kind: &str) -> &'static str {
    let found = COLLECTIONS.iter().find(|(known, _)| *known == kind);
    found.unwrap_or_else(|| panic!("{kind}")).1
}

fn path(kind: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind))
}

/// What a change did to what these tests care about.
fn difference(change: &Change) -> Option<String> {
    let (old, new) = match (&change.old, &change.new) {
        (old, Some(new)) => (old.as_deref().map(facts), facts(new)),
        (_, None) => return Some("gone".to_owned()),
    };
    let before = old.clone().unwrap_or_default();
    let mut lines: Vec<String> = old.is_none().then(|| "created".to_owned()).into_iter().collect();
    for (fact, value) in &new {
        if before.get(fact) != Some(value) {
            lines.push(format!("{fact} {value}"));
        }
    }
    lines.extend(before.keys().filter(|fact| !new.contains_key(*fact)).map(|fact| format!("no {fact}")));
    (!lines.is_empty()).then(|| lines.join(", "))
}

fn facts(object: &Value) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut tell = |fact: &str, value: &Value| {
        let shown = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        facts.insert(fact.to_owned(), shown);
    };
    let (spec, status) = (&object["spec"], &object["status"]);
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let (status, reason) = (&condition["status"], &condition["reason"]);
        let shown = format!("{}/{}", status.as_str().unwrap_or("?"), reason.as_str().unwrap_or("?"));
        tell(condition["type"].as_str().unwrap_or("?"), &json!(shown));
    }
    for version in ["controlPlaneVersion", "version"] {
        let history = status[version]["history"].as_array().into_iter().flatten();
        let history = history.map(|entry| {
            format!("{} {}", entry["version"].as_str().unwrap_or("?"), entry["state"].as_str().unwrap_or("?"))
        });
        let history: Vec<String> = history.collect();
        if !history.is_empty() {
            tell(version, &json!(history.join(" < ")));
        }
    }
    let endpoint = &status["controlPlaneEndpoint"];
    if endpoint.is_object() {
        tell(
            "endpoint",
            &json!(format!("{}:{}", endpoint["host"].as_str().unwrap_or("?"), endpoint["port"])),
        );
    }
    tell("kubeconfig", &status["kubeconfig"]["name"]);
    tell("phase", &status["phase"]);
    tell("ingress", &status["loadBalancer"]["ingress"][0]["ip"]);
    tell("spec.kubeconfig", &spec["kubeconfig"]);
    tell("infraID", &spec["infraID"]);
    tell("type", &spec["type"]);
    tell("finalizers", &object["metadata"]["finalizers"]);
    tell("pool", &json!(annotation(object, metallb::POOL_ANNOTATION)));
    for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        tell("owner", &owner["kind"]);
    }
    if is_deleting(object) {
        tell("deleting", &json!(""));
    }
    facts
}
