//! A cluster with the external systems, and the operations of users.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use lockstep_engine::machine::Machine;
use lockstep_engine::object::{annotation, is_deleting, metadata};
use lockstep_external as external;
use lockstep_external::hypershift::{self, HyperShift};
use lockstep_external::{Level, Pace, System, argocd, dpf, metallb};
use lockstep_sim::cluster::{Author, Change, Cluster, What};
use serde_json::{Value, json};

use super::manifests::{
    NAMESPACE, access, application, cluster_secret, dpu_cluster, hosted_cluster, kubeconfig, node_pool,
    of_kind, pool, project, secret,
};

/// Maximum number of steps until one of these scenarios is idle: far more than they need, far less than an endless loop.
const STEPS_MAX: u64 = 20_000;

/// The kinds of these tests: their API path, and their default namespace.
const COLLECTIONS: [(&str, &str, &str, &str); 13] = [
    ("HostedCluster", "/apis/hypershift.openshift.io/v1beta1", NAMESPACE, "hostedclusters"),
    ("NodePool", "/apis/hypershift.openshift.io/v1beta1", NAMESPACE, "nodepools"),
    ("DPUCluster", "/apis/provisioning.dpu.nvidia.com/v1alpha1", NAMESPACE, "dpuclusters"),
    ("IPAddressPool", "/apis/metallb.io/v1beta1", metallb::NAMESPACE, "ipaddresspools"),
    ("L2Advertisement", "/apis/metallb.io/v1beta1", metallb::NAMESPACE, "l2advertisements"),
    ("Application", "/apis/argoproj.io/v1alpha1", argocd::NAMESPACE, "applications"),
    ("AppProject", "/apis/argoproj.io/v1alpha1", argocd::NAMESPACE, "appprojects"),
    ("Secret", "/api/v1", NAMESPACE, "secrets"),
    ("Service", "/api/v1", NAMESPACE, "services"),
    ("Namespace", "/api/v1", "", "namespaces"),
    ("Deployment", "/apis/apps/v1", hypershift::NAMESPACE, "deployments"),
    ("ConfigMap", "/api/v1", NAMESPACE, "configmaps"),
    ("CustomResourceDefinition", "/apis/apiextensions.k8s.io/v1", "", "customresourcedefinitions"),
];

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
}

impl Bench {
    /// Returns a cluster with these CRDs, in which nothing runs.
    pub(crate) fn with_definitions(definitions: &[Value]) -> Self {
        let mut bench = Self { cluster: Cluster::new(1) };
        for definition in definitions {
            bench.create(definition);
        }
        for name in [NAMESPACE, metallb::NAMESPACE] {
            bench.create(&of_kind("v1", "Namespace", json!({ "metadata": { "name": name } })));
        }
        bench.settle();
        bench
    }

    /// Returns a cluster with running external systems and the Secrets of a hosted cluster.
    pub(crate) fn new() -> Self {
        Self::running(&external::definitions(&external::BRIDGE), HyperShift::default())
    }

    /// Like [`Bench::new`], with these CRDs and a HyperShift that is configured in this way.
    pub(crate) fn running(definitions: &[Value], hypershift: HyperShift) -> Self {
        let mut bench = Self::with_definitions(definitions);
        for object in hypershift::installation() {
            bench.create(&object);
        }
        bench.create(&secret("pull-secret", ".dockerconfigjson"));
        bench.create(&secret("ssh-key", "id_rsa.pub"));
        bench.cluster.start_foreign(Box::new(Level::new(hypershift, Pace::BRISK, 1)));
        bench.cluster.start_foreign(Box::new(Level::new(dpf::Dpf::default(), Pace::BRISK, 2)));
        bench.cluster.start_foreign(Box::new(Level::new(metallb::MetalLb::default(), Pace::BRISK, 3)));
        bench.settle();
        bench.cluster.journal.clear();
        bench
    }

    /// Like [`Bench::new`], with a hosted cluster.
    pub(crate) fn hosting(definitions: &[Value]) -> Self {
        let mut bench = Self::running(definitions, HyperShift::default());
        bench.create(&pool("vips", "192.0.2.10-192.0.2.11", true));
        bench.create(&hosted_cluster("prod"));
        bench.create(&node_pool("prod"));
        bench.settle();
        bench
    }

    /// Returns a cluster with DPF, Argo CD and their prerequisites, but no objects to manage.
    pub(crate) fn with_argo(definitions: &[Value]) -> Self {
        Self::around(definitions, System::ArgoCd.controller(Pace::BRISK, 1))
    }

    /// Like [`Bench::with_argo`], with an Argo CD that has only these charts in its repositories.
    pub(crate) fn offering(definitions: &[Value], charts: argocd::Charts) -> Self {
        Self::around(definitions, Box::new(Level::new(argocd::ArgoCd::offering(charts), Pace::BRISK, 1)))
    }

    fn around(definitions: &[Value], argo: Box<dyn Machine + Send>) -> Self {
        let mut bench = Self::with_definitions(definitions);
        let namespace = json!({ "metadata": { "name": argocd::NAMESPACE } });
        bench.create(&of_kind("v1", "Namespace", namespace));
        let others = [System::Dpf, System::DpuClusters].map(|system| system.controller(Pace::BRISK, 1));
        for system in others.into_iter().chain([argo]) {
            bench.cluster.start_foreign(system);
        }
        bench.settle();
        bench.cluster.journal.clear();
        bench
    }

    /// Registers a new cluster with Argo CD, and deploys the Application `agent-<cluster>` to it.
    pub(crate) fn deploy(&mut self, cluster: &str) {
        let mut dpus = dpu_cluster(cluster, "static");
        dpus["spec"]["kubeconfig"] = format!("{cluster}-kubeconfig").into();
        self.create(&dpus);
        let access = access(cluster, "t1");
        self.create(&kubeconfig(cluster, &access));
        self.create(&cluster_secret(cluster, &access));
        self.try_create(&project("platform", &["https://*".to_owned()]));
        self.create(&application(&format!("agent-{cluster}"), cluster));
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        self.cluster.settle(STEPS_MAX).expect("becomes idle");
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
        let collection = collection(object["kind"].as_str().expect("a kind"), metadata(object, "namespace"));
        self.send(Method::POST, &collection, "application/json", object)
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

    /// Returns an object; null if it does not exist.
    pub(crate) fn get(&mut self, kind: &str, name: &str) -> Value {
        self.at(&path(kind, name))
    }

    /// Returns the object at a path; null if there is none.
    pub(crate) fn at(&mut self, path: &str) -> Value {
        let (code, answer) = self.send(Method::GET, path, "application/json", &Value::Null);
        if code == 200 { answer } else { Value::Null }
    }

    /// Returns the changes since the last call, one line for each.
    pub(crate) fn transitions(&mut self) -> String {
        let mut text = String::new();
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
            writeln!(text, "{seconds:>3}.{millis:03}  {author:<10}  {kind} {name}: {what}")
                .expect("a string takes it");
        }
        text
    }
}

/// Returns the path of the objects of a kind, in this namespace unless it is empty.
fn collection(kind: &str, namespace: &str) -> String {
    let found = COLLECTIONS.iter().find(|(known, ..)| *known == kind);
    let (_, api, default, plural) = found.unwrap_or_else(|| panic!("{kind}"));
    match (namespace, *default) {
        ("", "") => format!("{api}/{plural}"),
        ("", namespace) | (namespace, _) => format!("{api}/namespaces/{namespace}/{plural}"),
    }
}

/// Returns the path of an object. Its name may have the namespace as a prefix.
fn path(kind: &str, name: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    format!("{}/{name}", collection(kind, namespace))
}

/// Describes the relevant differences of a change.
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
    let mut add = |fact: &str, value: &Value| {
        let shown = match value {
            Value::Null => return,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        facts.insert(fact.to_owned(), shown);
    };
    let (spec, status) = (&object["spec"], &object["status"]);
    for condition in status["conditions"].as_array().into_iter().flatten() {
        // The conditions of an Application have neither.
        let shown = match (condition["status"].as_str(), condition["reason"].as_str()) {
            (Some(status), Some(reason)) => format!("{status}/{reason}"),
            _ => condition["message"].as_str().unwrap_or("?").to_owned(),
        };
        add(condition["type"].as_str().unwrap_or("?"), &json!(shown));
    }
    for version in ["controlPlaneVersion", "version"] {
        let history = status[version]["history"].as_array().into_iter().flatten();
        let history = history.map(|entry| {
            format!("{} {}", entry["version"].as_str().unwrap_or("?"), entry["state"].as_str().unwrap_or("?"))
        });
        let history: Vec<String> = history.collect();
        if !history.is_empty() {
            add(version, &json!(history.join(" < ")));
        }
    }
    let endpoint = &status["controlPlaneEndpoint"];
    if endpoint.is_object() {
        add("endpoint", &json!(format!("{}:{}", endpoint["host"].as_str().unwrap_or("?"), endpoint["port"])));
    }
    add("sync", &status["sync"]["status"]);
    add("health", &status["health"]["status"]);
    add("operation", &status["operationState"]["phase"]);
    add("chart", &object["data"]["version"]);
    add("fares", &object["data"]["health"]);
    add("kubeconfig", &status["kubeconfig"]["name"]);
    add("phase", &status["phase"]);
    add("ingress", &status["loadBalancer"]["ingress"][0]["ip"]);
    add("spec.kubeconfig", &spec["kubeconfig"]);
    add("infraID", &spec["infraID"]);
    add("type", &spec["type"]);
    add("finalizers", &object["metadata"]["finalizers"]);
    add("pool", &json!(annotation(object, metallb::POOL_ANNOTATION)));
    for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        add("owner", &owner["kind"]);
    }
    if is_deleting(object) {
        add("deleting", &json!(""));
    }
    facts
}
