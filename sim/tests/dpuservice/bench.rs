//! A cluster with DPF, DPU clusters, Argo CD and the controller.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use lockstep_dpuservice::Operator;
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_engine::action::ErrorKind;
use lockstep_engine::machine::{Event, Machine, Note};
use lockstep_engine::object::{is_deleting, metadata};
use lockstep_engine::operator::Config;
use lockstep_engine::time::Now;
use lockstep_external as external;
use lockstep_external::Pace;
use lockstep_external::dpu_clusters::{Access, release};
use lockstep_sim::cluster::{Author, Change, Cluster, FaultVerdict, What};
use serde_json::{Value, json};

use super::user::User as _;

/// Maximum number of steps until one of these scenarios is idle.
const STEPS_MAX: u64 = 100_000;
/// The namespace of DPUClusters.
pub(crate) const DPF: &str = "dpf-operator-system";
/// A token that must never be in any output.
pub(crate) const TOKEN: &str = "a-token-that-nobody-may-see";

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    /// All notes that the controller has emitted.
    pub(crate) notes: Vec<Note>,
    /// All of its input.
    pub(crate) taken: Vec<(Now, Event)>,
}

/// Returns the controller with the configuration of these tests.
pub(crate) fn operator() -> Box<dyn Machine> {
    Box::new(Operator::new(config()))
}

pub(crate) fn config() -> Config {
    // So rare that a resync does not hide a missing watch event.
    let resync = Duration::from_hours(24);
    Config { concurrency: 5, resync, instance: "dpuservice-0".to_owned(), seed: 1 }
}

/// Returns the server URL of a cluster.
pub(crate) fn server(cluster: &str) -> String {
    format!("https://{cluster}.example.com:6443")
}

/// Returns a service, to which tests may add fields.
pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "svc.dpu.nvidia.com/v1alpha1",
        "kind": "DPUService",
        "metadata": { "namespace": "default", "name": name },
        "spec": {
            "source": { "repoURL": "https://helm.ngc.nvidia.com/nvidia", "version": "v1.1.1", "chart": name },
            "values": { "a": "value", "kept": null },
        },
    })
}

pub(crate) fn dpu_cluster(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
        "kind": "DPUCluster",
        "metadata": { "namespace": namespace, "name": name },
        "spec": { "type": "kamaji", "kubeconfig": format!("{name}-admin-kubeconfig") },
    })
}

pub(crate) fn kubeconfig(namespace: &str, cluster: &str, access: &Access) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "namespace": namespace, "name": format!("{cluster}-admin-kubeconfig") },
        "data": access.secret_data(),
    })
}

impl Bench {
    /// Returns an idle cluster with the external systems and the controller.
    pub(crate) fn new() -> Self {
        let mut bench = Self::without_controller();
        bench.cluster.start(operator, true);
        bench.settle();
        bench.story();
        bench
    }

    /// Returns the same cluster without the controller.
    pub(crate) fn without_controller() -> Self {
        let mut bench = Self::bare();
        for world in external::controllers(&external::DPUSERVICE, Pace::BRISK, 1) {
            bench.cluster.start_foreign(world);
        }
        bench.settle();
        bench
    }

    /// Returns a cluster with all CRDs, in which nothing runs.
    pub(crate) fn bare() -> Self {
        let mut bench = Self { cluster: Cluster::new(1), notes: Vec::new(), taken: Vec::new() };
        let sets = lockstep_crds::all();
        for crd in sets.iter().filter(|set| set.controller == "dpuservice").flat_map(|set| &set.crds) {
            bench.cluster.create(&serde_json::to_value(crd).expect("a definition is JSON"));
        }
        for definition in external::definitions(&external::DPUSERVICE) {
            bench.cluster.create(&definition);
        }
        for namespace in [DPF, ARGO_NAMESPACE] {
            bench.cluster.create(
                &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
            );
        }
        bench
    }

    /// Returns a cluster with these DPUClusters, and a service on them.
    pub(crate) fn serving(clusters: &[&str]) -> Self {
        let mut bench = Self::new();
        for cluster in clusters {
            bench.join(cluster);
        }
        bench.cluster.create(&service("hbn"));
        bench.settle();
        assert_eq!(bench.ready("hbn"), "True/Success", "{:#}", bench.service("hbn")["status"]);
        bench.story();
        bench
    }

    pub(crate) fn settle(&mut self) {
        self.cluster.settle(STEPS_MAX).expect("becomes idle");
    }

    /// Lets every write of an object with this name fail.
    pub(crate) fn fail_writes(&mut self, name: &'static str, class: ErrorKind) {
        self.cluster.interfere(move |_, action| {
            let is_it = action.target().is_some_and(|target| target.name == name);
            if is_it && action.is_write() { FaultVerdict::failed(class) } else { FaultVerdict::Served }
        });
    }

    /// Adds a DPUCluster with a working kubeconfig.
    pub(crate) fn join(&mut self, cluster: &str) {
        self.cluster.create(&kubeconfig(DPF, cluster, &Access::by_token(&server(cluster), TOKEN)));
        self.cluster.create(&dpu_cluster(DPF, cluster));
        // No two clusters are created in the same second.
        self.cluster.advance(Duration::from_secs(1));
    }

    /// Replaces the kubeconfig of a cluster.
    pub(crate) fn rotate(&mut self, cluster: &str, access: &Access) {
        let data = access.secret_data();
        self.cluster.merge("Secret", DPF, &format!("{cluster}-admin-kubeconfig"), &json!({ "data": data }));
    }

    pub(crate) fn service(&mut self, name: &str) -> Value {
        self.cluster.get("DPUService", "default", name)
    }

    /// Returns the status and reason of a condition.
    pub(crate) fn condition(&mut self, service: &str, name: &str) -> (String, String) {
        let service = self.service(service);
        let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|condition| condition["type"] == name);
        let Some(found) = found.next() else { return ("absent".to_owned(), String::new()) };
        let text = |field: &str| found[field].as_str().unwrap_or("?").to_owned();
        (format!("{}/{}", text("status"), text("reason")), text("message"))
    }

    pub(crate) fn ready(&mut self, service: &str) -> String {
        self.condition(service, "Ready").0
    }

    /// Returns all conditions of a service, with their messages.
    pub(crate) fn conditions(&mut self, service: &str) -> String {
        let service = self.service(service);
        let conditions = service["status"]["conditions"].as_array().into_iter().flatten();
        let line = |it: &Value| {
            let text = |field: &str| it[field].as_str().unwrap_or("?").to_owned();
            format!("{} {}/{}: {}", text("type"), text("status"), text("reason"), text("message"))
        };
        conditions.map(line).collect::<Vec<_>>().join("\n")
    }

    /// Returns the names of all objects of a kind in Argo CD's namespace.
    pub(crate) fn in_argo(&mut self, kind: &str) -> Vec<String> {
        let objects = self.cluster.list(kind, ARGO_NAMESPACE);
        objects.iter().map(|object| metadata(object, "name").to_owned()).collect()
    }

    /// Returns the names of the releases that run on a cluster.
    pub(crate) fn runs_on(&mut self, cluster: &str) -> Vec<String> {
        let maps = self.cluster.list("ConfigMap", DPF);
        let of_cluster = maps.iter().filter(|map| map["metadata"]["labels"][release::CLUSTER] == cluster);
        of_cluster.map(|map| map["data"]["release"].as_str().unwrap_or("?").to_owned()).collect()
    }

    /// Returns the writes of the controller since the last call of [`Bench::story`], without Events.
    pub(crate) fn writes(&mut self) -> Vec<String> {
        let carried = self.cluster.carried().filter(|(_, carried)| carried.action.is_write());
        let lines = carried.filter_map(|(_, carried)| {
            let target = carried.action.target().filter(|target| target.kind.kind != "Event")?;
            Some(format!("{} {target}", carried.action.name()))
        });
        lines.collect()
    }

    /// Returns the requests of the controller and the changes of services since the last call.
    pub(crate) fn story(&mut self) -> String {
        let mut text = String::new();
        for entry in std::mem::take(&mut self.cluster.journal) {
            let line = match entry.what {
                What::Carried(carried) => {
                    let action = &carried.action;
                    let is_event = action.target().is_some_and(|target| target.kind.kind == "Event");
                    if is_event || action.name() == "patch_status" {
                        continue;
                    }
                    let target = action.target().map(|target| format!(" {target}")).unwrap_or_default();
                    let failed = carried.failed.map(|class| format!(": {class}")).unwrap_or_default();
                    format!("asks for {}{target}{failed}", action.name())
                }
                What::Changed(change) => match difference(&change) {
                    Some(what) => what,
                    None => continue,
                },
                What::Stepped { now, event, step, .. } => {
                    self.taken.push((now, event));
                    self.notes.extend(step.notes);
                    continue;
                }
                What::Died { .. } => "the controller dies".to_owned(),
                What::Started { .. } => "the controller starts".to_owned(),
            };
            let at = entry.at.as_millis();
            writeln!(text, "{:>3}.{:03}  {line}", at / 1000, at % 1000).expect("a string takes it");
        }
        text
    }

    /// Returns the Application of this name; null if it does not exist.
    pub(crate) fn application(&mut self, name: &str) -> Value {
        self.cluster.get("Application", ARGO_NAMESPACE, name)
    }

    /// Returns the Events about services, as `type reason: note`.
    pub(crate) fn events(&mut self) -> String {
        let mut events = self.cluster.list("Event", "default");
        events.sort_by_key(|event| event["eventTime"].to_string());
        let line = |event: &Value| {
            let text = |field: &str| event[field].as_str().unwrap_or("?").to_owned();
            format!("{} {}: {}", text("type"), text("reason"), text("note"))
        };
        events.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Describes a change of a service or of an object of Argo CD.
fn difference(change: &Change) -> Option<String> {
    let kind = change.object.kind.kind.as_str();
    let name = &change.object.name;
    if kind != "DPUService" {
        let is_argo = change.object.namespace.as_deref() == Some(ARGO_NAMESPACE);
        let is_process = matches!(change.by, Author::Process(_));
        let marked = |object: Option<&Value>| object.is_some_and(is_deleting);
        let line = match &change.new {
            None => format!("{} is gone", change.object),
            Some(new) if is_deleting(new) && !marked(change.old.as_deref()) => {
                format!("{} is being deleted", change.object)
            }
            Some(_) => return None,
        };
        return (is_argo && is_process).then_some(line);
    }
    let Some(new) = &change.new else { return Some(format!("{name} is gone")) };
    let (old, new) = (change.old.as_deref().map(facts).unwrap_or_default(), facts(new));
    let changed = new.iter().filter(|(fact, value)| old.get(*fact) != Some(value));
    let lines: Vec<String> = changed.map(|(fact, value)| format!("{fact}={value}")).collect();
    (!lines.is_empty()).then(|| format!("{name}: {}", lines.join(", ")))
}

fn facts(object: &Value) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let status = &object["status"];
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| condition[field].as_str().unwrap_or("?").to_owned();
        facts.insert(text("type"), format!("{}/{}", text("status"), text("reason")));
    }
    for field in ["sync", "health", "clusters"] {
        if let Some(value) = status["rollout"][field].as_str() {
            facts.insert(field.to_owned(), value.to_owned());
        }
    }
    facts
}
