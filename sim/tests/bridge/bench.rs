//! A cluster with the Bridge and the external systems, and the operations of users.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use lockstep_bridge::Operator;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::machine::{Event, Machine, Note, ReconcileResult, Step, Wrapper};
use lockstep_engine::operator::Config;
use lockstep_engine::time::Now;
use lockstep_external as external;
use lockstep_external::hypershift::{self, HyperShift};
use lockstep_external::registry::{Image, Registry};
use lockstep_external::{Level, Pace, System};
use lockstep_sim::cluster::{Cluster, What};
use serde_json::{Value, json};

use super::changes::{difference, edge};
use super::objects::{
    DPF, NAMESPACE, PASSWORD, RELEASE, UPGRADE, dpu_cluster, pool, pull_secret, ssh_secret, storage_class,
};

/// Maximum number of steps until one of these scenarios is idle.
const STEPS_MAX: u64 = 50_000;

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    /// The process of the Bridge.
    pub(crate) operator: usize,
    /// All notes that it has emitted.
    pub(crate) notes: Vec<Note>,
    /// Start and end of each of its passes, and the delay before the retry if it failed.
    pub(crate) passes: Vec<(Duration, Duration, Option<Duration>)>,
    /// All of its input.
    pub(crate) taken: Vec<(Now, Event)>,
    /// The phase changes of bridges.
    pub(crate) edges: BTreeSet<(String, String)>,
}

/// The resync period of bridges.
pub(crate) const RESYNC: Duration = Duration::from_hours(24);

/// Returns the path of an object's collection.
fn collection(kind: &str, namespace: &str) -> String {
    let (api, plural) = match kind {
        "DPFHCPBridge" => ("apis/dpf.hcp.bridge.com/v1alpha1", "dpfhcpbridges"),
        "HostedCluster" => ("apis/hypershift.openshift.io/v1beta1", "hostedclusters"),
        "NodePool" => ("apis/hypershift.openshift.io/v1beta1", "nodepools"),
        "DPUCluster" => ("apis/provisioning.dpu.nvidia.com/v1alpha1", "dpuclusters"),
        "IPAddressPool" => ("apis/metallb.io/v1beta1", "ipaddresspools"),
        "L2Advertisement" => ("apis/metallb.io/v1beta1", "l2advertisements"),
        "Secret" => ("api/v1", "secrets"),
        "Service" => ("api/v1", "services"),
        "ConfigMap" => ("api/v1", "configmaps"),
        "Event" => ("apis/events.k8s.io/v1", "events"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "Namespace" => return "/api/v1/namespaces".to_owned(),
        "Node" => return "/api/v1/nodes".to_owned(),
        "StorageClass" => return "/apis/storage.k8s.io/v1/storageclasses".to_owned(),
        "CustomResourceDefinition" => {
            return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
        }
        other => panic!("{other}"),
    };
    format!("/{api}/namespaces/{namespace}/{plural}")
}

/// Returns the number of the process that manages a kind.
fn world_of(kind: &str) -> usize {
    match kind {
        "HostedCluster" | "NodePool" => 0,
        "DPUCluster" => 1,
        _ => 2,
    }
}

/// The Bridge without the permission to watch a kind.
struct Blinded {
    operator: Box<dyn Machine>,
    kind: &'static str,
}

impl Wrapper for Blinded {
    fn inner(&self) -> &dyn Machine {
        &*self.operator
    }

    fn step(&mut self, event: Event, now: Now) -> Step {
        let event = match event {
            Event::ListStarted { kind } if kind.kind == self.kind => {
                let failure = Failure::new(ErrorKind::Forbidden, "cannot list resource");
                Event::WatchFailed { kind, failure }
            }
            Event::ListCompleted { kind } | Event::Applied { kind, .. } | Event::Deleted { kind, .. }
                if kind.kind == self.kind =>
            {
                Event::TimerFired
            }
            other => other,
        };
        self.operator.step(event, now)
    }
}

/// Returns the Bridge with the configuration of these tests.
fn operator() -> Box<dyn Machine> {
    Box::new(Operator::new(config()))
}

pub(crate) fn config() -> Config {
    // So rare that a resync does not hide a missing watch event.
    let resync = RESYNC;
    Config { concurrency: 5, resync, instance: "bridge-0".to_owned(), seed: 1 }
}

impl Bench {
    /// Returns a cluster with the prerequisites of a bridge, the external systems and the Bridge.
    pub(crate) fn new() -> Self {
        let mut bench = Self::without(&[]);
        bench.provide("");
        bench.settle();
        bench.transitions();
        bench
    }

    /// Creates the prerequisites of a bridge, except the objects of one kind.
    pub(crate) fn provide(&mut self, but: &str) {
        for object in [
            dpu_cluster("dpus"),
            storage_class("ceph-rbd", "rbd.csi.ceph.com"),
            pool("vips", "192.0.2.0/24"),
            pull_secret(),
            ssh_secret(),
        ] {
            if object["kind"] != but {
                self.create(&object);
            }
        }
    }

    /// Revokes the permission of the Bridge to watch a kind.
    pub(crate) fn forbid_watch(&mut self, kind: &'static str) {
        self.cluster.crash(self.operator, None);
        let blinded = move || Box::new(Blinded { operator: operator(), kind }) as Box<dyn Machine>;
        self.operator = self.cluster.start(blinded, true);
    }

    /// Restores the permission to watch everything.
    pub(crate) fn permit_watch(&mut self) {
        self.restart();
    }

    /// Lets a new process take over.
    pub(crate) fn restart(&mut self) {
        self.cluster.crash(self.operator, None);
        self.operator = self.cluster.start(operator, true);
    }

    /// Starts a second process that leads as well.
    pub(crate) fn second(&mut self) {
        self.cluster.start(operator, true);
        self.settle();
    }

    /// Stops the external system that manages a kind.
    pub(crate) fn silence(&mut self, kind: &str) {
        self.silence_for(kind, Duration::from_hours(1000));
    }

    /// Stops it for a while.
    pub(crate) fn silence_for(&mut self, kind: &str, time: Duration) {
        self.cluster.pause(world_of(kind), time);
    }

    /// Disables the validation of bridges, so that they can be written as if they were older than their CRD.
    pub(crate) fn admit_anything(&mut self) {
        let crd = "dpfhcpbridges.dpf.hcp.bridge.com";
        let mut definition = self.get("CustomResourceDefinition", "", crd);
        let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        let versions = json!({ "spec": { "versions": definition["spec"]["versions"] } });
        self.merge("CustomResourceDefinition", "", crd, &versions);
    }

    /// Sets a condition of the HostedCluster or NodePool prod.
    pub(crate) fn set_condition(&mut self, kind: &str, name: &str, status: &str, reason: &str) {
        let mut object = self.get(kind, NAMESPACE, "prod");
        let conditions = object["status"]["conditions"].as_array_mut().expect("conditions");
        conditions.retain(|condition| condition["type"] != name);
        conditions.push(json!({
            "type": name,
            "status": status,
            "reason": reason,
            "message": "as a test wants it",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
            "observedGeneration": 1,
        }));
        let patch = json!({ "status": { "conditions": object["status"]["conditions"] } });
        self.merge(kind, NAMESPACE, "prod/status", &patch);
    }

    /// Returns a cluster without the CRDs of these kinds, and without the objects that users create.
    pub(crate) fn without(kinds: &[&str]) -> Self {
        Self::around(kinds, HyperShift::default())
    }

    /// Like [`Bench::without`], with a HyperShift that is configured in this way.
    pub(crate) fn around(kinds: &[&str], hypershift: HyperShift) -> Self {
        let mut bench = Self {
            cluster: Cluster::new(1),
            operator: 0,
            notes: Vec::new(),
            passes: Vec::new(),
            taken: Vec::new(),
            edges: BTreeSet::new(),
        };
        let crds = lockstep_crds::all();
        for crd in crds.iter().filter(|set| set.controller == "bridge").flat_map(|set| &set.crds) {
            bench.create(&serde_json::to_value(crd).expect("a definition is JSON"));
        }
        for definition in external::definitions(&external::BRIDGE) {
            if !kinds.iter().any(|kind| definition["spec"]["names"]["kind"] == *kind) {
                bench.create(&definition);
            }
        }
        for namespace in [NAMESPACE, DPF, "metallb-system"] {
            bench.create(
                &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
            );
        }
        for object in hypershift::installation() {
            bench.create(&object);
        }
        let image = |release: &str| Image {
            digest: format!("sha256:{release}"),
            release: Some(release.to_owned()),
            credentials: Some(format!("puller:{PASSWORD}")),
        };
        let images = [(RELEASE, "4.19.0"), (UPGRADE, "4.20.1")];
        let images = images.map(|(reference, release)| (reference.to_owned(), image(release)));
        bench.cluster.outside = Some(Box::new(Registry { images: images.into(), ..Registry::default() }));
        for system in external::BRIDGE {
            bench.cluster.start_foreign(match system {
                System::HyperShift => Box::new(Level::new(hypershift, Pace::BRISK, 1)),
                other => other.controller(Pace::BRISK, 1),
            });
        }
        bench.operator = bench.cluster.start(operator, true);
        if kinds.is_empty() {
            bench.settle();
        } else {
            // Watches of kinds that are not served are retried forever.
            bench.cluster.advance(Duration::from_secs(10));
        }
        bench.transitions();
        bench
    }

    /// Returns a cluster with a ready bridge.
    pub(crate) fn ready() -> Self {
        let mut bench = Self::new();
        bench.create(&super::objects::bridge("prod"));
        bench.settle();
        assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
        bench.transitions();
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

    pub(crate) fn create(&mut self, object: &Value) {
        let kind = object["kind"].as_str().expect("a kind");
        let path = collection(kind, object["metadata"]["namespace"].as_str().unwrap_or_default());
        let (code, answer) = self.send(Method::POST, &path, "application/json", object);
        assert_eq!(code, 201, "{answer:#}");
    }

    pub(crate) fn merge(&mut self, kind: &str, namespace: &str, name: &str, patch: &Value) {
        let path = format!("{}/{name}", collection(kind, namespace));
        let (code, answer) = self.send(Method::PATCH, &path, "application/merge-patch+json", patch);
        assert_eq!(code, 200, "{answer:#}");
    }

    /// Changes the spec of a bridge.
    pub(crate) fn change(&mut self, bridge: &str, spec: &Value) {
        self.merge("DPFHCPBridge", NAMESPACE, bridge, &json!({ "spec": spec }));
    }

    pub(crate) fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let path = format!("{}/{name}", collection(kind, namespace));
        let (code, answer) = self.send(Method::DELETE, &path, "application/json", &Value::Null);
        assert_eq!(code, 200, "{answer:#}");
    }

    /// Returns an object; null if it does not exist.
    pub(crate) fn get(&mut self, kind: &str, namespace: &str, name: &str) -> Value {
        let path = format!("{}/{name}", collection(kind, namespace));
        let (code, answer) = self.send(Method::GET, &path, "application/json", &Value::Null);
        if code == 200 { answer } else { Value::Null }
    }

    pub(crate) fn bridge(&mut self, name: &str) -> Value {
        self.get("DPFHCPBridge", NAMESPACE, name)
    }

    pub(crate) fn phase(&mut self, name: &str) -> String {
        self.bridge(name)["status"]["phase"].as_str().unwrap_or("none").to_owned()
    }

    /// Returns the name of the bridge of a scenario: prod, or the only one.
    pub(crate) fn subject(&mut self) -> String {
        let path = collection("DPFHCPBridge", NAMESPACE);
        let (_, list) = self.send(Method::GET, &path, "application/json", &Value::Null);
        let mut names = list["items"].as_array().into_iter().flatten();
        let names: Vec<&str> = names.by_ref().filter_map(|it| it["metadata"]["name"].as_str()).collect();
        if names.contains(&"prod") { "prod".to_owned() } else { names.concat() }
    }

    /// Returns the status, reason and message of a condition.
    pub(crate) fn condition(&mut self, bridge: &str, name: &str) -> (String, String) {
        let bridge = self.bridge(bridge);
        let conditions = bridge["status"]["conditions"].as_array().into_iter().flatten();
        let mut found = conditions.filter(|condition| condition["type"] == name);
        let Some(found) = found.next() else { return ("absent".to_owned(), String::new()) };
        let text = |field: &str| found[field].as_str().unwrap_or("?").to_owned();
        (format!("{}/{}", text("status"), text("reason")), text("message"))
    }

    /// Returns the registry.
    pub(crate) fn registry(&mut self) -> &mut Registry {
        let outside: &mut dyn std::any::Any = self.cluster.outside.as_deref_mut().expect("there is one");
        outside.downcast_mut().expect("it is the registry")
    }

    /// Returns the requests of the Bridge and the changes of bridges since the last call.
    pub(crate) fn transitions(&mut self) -> String {
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
                What::Changed(change) => {
                    self.edges.extend(edge(&change));
                    match difference(&change) {
                        Some(what) => what,
                        None => continue,
                    }
                }
                What::Stepped { now, event, step, .. } => {
                    self.taken.push((now, event));
                    let at = entry.at;
                    self.passes.extend(step.notes.iter().filter_map(|note| match note {
                        Note::Reconciled { result, took, .. } => {
                            let retry_after = match result {
                                ReconcileResult::Failed { retry_after, .. } => Some(*retry_after),
                                _ => None,
                            };
                            Some((at.saturating_sub(*took), at, retry_after))
                        }
                        _ => None,
                    }));
                    self.notes.extend(step.notes);
                    continue;
                }
                What::Died { .. } => "the Bridge dies".to_owned(),
                What::Started { .. } => "the Bridge starts".to_owned(),
            };
            let at = entry.at.as_millis();
            writeln!(text, "{:>3}.{:03}  {line}", at / 1000, at % 1000).expect("a string takes it");
        }
        text
    }

    /// Returns the Events about a bridge, as `type reason: note`.
    pub(crate) fn events(&mut self) -> String {
        let (_, list) =
            self.send(Method::GET, &collection("Event", NAMESPACE), "application/json", &Value::Null);
        let mut lines: Vec<String> = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|event| {
                let text = |field: &str| event[field].as_str().unwrap_or("?").to_owned();
                format!("{} {} {}: {}", text("eventTime"), text("type"), text("reason"), text("note"))
            })
            .collect();
        lines.sort();
        lines
            .iter()
            .map(|line| line.split_once(' ').map_or("", |(_, rest)| rest))
            .collect::<Vec<_>>()
            .join("\n")
    }
}
