//! A simulated cluster with one controller, whose run is recorded.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use lockstep_cli::controllers;
use lockstep_engine::action::{Action, ErrorKind};
use lockstep_engine::machine::{Event, Machine, Step};
use lockstep_engine::operator::Config;
use lockstep_engine::recording::{FORMAT, Header, Line, RecordedStep};
use lockstep_engine::time::Now;
use lockstep_external as external;
use lockstep_external::dpu_clusters::Access;
use lockstep_external::hypershift;
use lockstep_external::registry::{Image, Registry};
use lockstep_external::{Pace, System};
use lockstep_runtime::record::{self, Options};
use lockstep_sim::cluster::{Cluster, FaultModel, FaultVerdict, Transit, What};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "dpf-hcp-bridge-system";
pub(crate) const RELEASE: &str = "registry.example.com/ocp-release:4.19.0-multi";
const CREDENTIALS: &str = "puller:hush";

/// Messages take a few milliseconds, so that steps have different times. Requests that match are refused.
struct Network {
    class: ErrorKind,
    is_refused: fn(&Action) -> bool,
}

impl FaultModel for Network {
    fn fate(&mut self, _: u64, _: Duration, _: usize, action: &Action) -> FaultVerdict {
        if (self.is_refused)(action) { FaultVerdict::failed(self.class) } else { FaultVerdict::Served }
    }

    fn delay(&mut self, _: Duration, _: usize, _: Transit<'_>) -> Duration {
        Duration::from_millis(3)
    }
}

pub(crate) struct Simulated {
    cluster: Cluster,
    controller: &'static str,
    config: Config,
    process: usize,
}

impl Simulated {
    /// Returns a cluster with the CRDs and the external systems of a controller, which runs.
    pub(crate) fn new(controller: &'static str) -> Self {
        let network = Network { class: ErrorKind::Forbidden, is_refused: |_| false };
        let config = Config { concurrency: 4, instance: "test".to_owned(), seed: 1, ..Config::default() };
        let cluster = Cluster::with_weather(1, Box::new(network) as Box<dyn FaultModel>);
        let mut simulated = Self { cluster, controller, config: config.clone(), process: 0 };
        for crd in lockstep_crds::of(controller) {
            simulated.crd(&serde_json::to_value(crd).unwrap());
        }
        match controller {
            "bridge" => simulated.systems(),
            "dpuservice" => simulated.dpu_systems(),
            _ => {}
        }
        let machine = move || controllers::machine(controller, &config).unwrap() as Box<dyn Machine>;
        simulated.process = simulated.cluster.start(machine, true);
        simulated.pass(Duration::from_secs(10));
        simulated
    }

    /// Adds the systems around the Bridge, and the prerequisites of a bridge.
    fn systems(&mut self) {
        for crd in external::definitions(&external::BRIDGE) {
            self.crd(&crd);
        }
        // The kinds are served a moment later.
        self.pass(Duration::from_secs(5));
        for namespace in [NAMESPACE, "dpf", "metallb-system"] {
            self.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
        }
        for object in hypershift::installation() {
            let path = match object["kind"].as_str().unwrap() {
                "Namespace" => "/api/v1/namespaces",
                "Deployment" => "/apis/apps/v1/namespaces/hypershift/deployments",
                "ConfigMap" => "/api/v1/namespaces/hypershift/configmaps",
                other => panic!("{other}"),
            };
            self.post(path, &object);
        }
        let image = Image {
            digest: "sha256:1".to_owned(),
            release: Some("4.19.0".to_owned()),
            credentials: Some(CREDENTIALS.to_owned()),
        };
        let images = [(RELEASE.to_owned(), image)];
        self.cluster.outside = Some(Box::new(Registry { images: images.into(), ..Registry::default() }));
        for system in external::BRIDGE {
            self.cluster.start_foreign(System::controller(system, Pace::BRISK, 1));
        }
        self.storage_class();
        let dpus = json!({
            "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
            "kind": "DPUCluster",
            "metadata": {"name": "dpus"},
            "spec": {"type": "static"},
        });
        self.post("/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/dpf/dpuclusters", &dpus);
        let pool = json!({
            "apiVersion": "metallb.io/v1beta1",
            "kind": "IPAddressPool",
            "metadata": {"name": "vips"},
            "spec": {"addresses": ["192.0.2.0/24"], "autoAssign": false},
        });
        self.post("/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools", &pool);
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1vbnRhZ25lIGVzdCBoYXV0ZSBldCBsb2ludGFpbmUu a";
        self.secret("ssh", "ssh-publickey", key);
        self.pull_secret();
    }

    /// Adds the systems around the DPUService controller.
    fn dpu_systems(&mut self) {
        for crd in external::definitions(&external::DPUSERVICE) {
            self.crd(&crd);
        }
        self.pass(Duration::from_secs(5));
        for namespace in ["dpf", "services", "dpf-argo-cd-system"] {
            self.post("/api/v1/namespaces", &json!({"metadata": {"name": namespace}}));
        }
        for system in external::DPUSERVICE {
            self.cluster.start_foreign(System::controller(system, Pace::BRISK, 1));
        }
    }

    /// Adds a DPUCluster in the namespace dpf, with its kubeconfig.
    pub(crate) fn dpu_cluster(&mut self, name: &str) {
        let access = Access::by_token(&format!("https://{name}.example.com:6443"), "hush");
        let kubeconfig = format!("{name}-kubeconfig");
        let secret = json!({"metadata": {"name": kubeconfig}, "data": access.secret_data()});
        self.post("/api/v1/namespaces/dpf/secrets", &secret);
        let cluster = json!({
            "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
            "kind": "DPUCluster",
            "metadata": {"name": name},
            "spec": {"type": "static", "kubeconfig": kubeconfig},
        });
        self.post("/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/dpf/dpuclusters", &cluster);
        self.pass(Duration::from_secs(2));
    }

    /// Creates the service hbn in the namespace services, which may change one cluster at a time.
    pub(crate) fn service(&mut self) {
        let source = json!({"repoURL": "https://charts.example.com", "version": "1.0.0", "chart": "hbn"});
        let service = json!({
            "apiVersion": "svc.dpu.nvidia.com/v1alpha1",
            "kind": "DPUService",
            "metadata": {"name": "hbn"},
            "spec": {"source": source, "rollout": {"maxUnavailable": 1}},
        });
        self.post("/apis/svc.dpu.nvidia.com/v1alpha1/namespaces/services/dpuservices", &service);
        self.pass(Duration::from_mins(2));
    }

    pub(crate) fn storage_class(&mut self) {
        let class = json!({"metadata": {"name": "ceph-rbd"}, "provisioner": "rbd.csi.ceph.com"});
        self.post("/apis/storage.k8s.io/v1/storageclasses", &class);
    }

    pub(crate) fn pull_secret(&mut self) {
        let auths = json!({"auths": {"registry.example.com": {"username": "puller", "password": "hush"}}});
        self.secret("pull", ".dockerconfigjson", &auths.to_string());
    }

    /// Creates a Secret in the namespace of the bridge.
    fn secret(&mut self, name: &str, key: &str, value: &str) {
        let secret = json!({"metadata": {"name": name}, "data": {key: STANDARD.encode(value)}});
        self.post(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret);
    }

    fn crd(&mut self, crd: &Value) {
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd);
    }

    /// Creates the bridge prod, with this release image.
    pub(crate) fn bridge(&mut self, image: &str) {
        let bridge = json!({
            "apiVersion": "dpf.hcp.bridge.com/v1alpha1",
            "kind": "DPFHCPBridge",
            "metadata": {"name": "prod"},
            "spec": {
                "dpuClusterRef": {"name": "dpus", "namespace": "dpf"},
                "baseDomain": "clusters.example.com",
                "ocpReleaseImage": image,
                "sshKeySecretRef": {"name": "ssh"},
                "pullSecretRef": {"name": "pull"},
                "etcdStorageClass": "ceph-rbd",
                "controlPlaneAvailabilityPolicy": "HighlyAvailable",
                "infrastructureAvailabilityPolicy": "HighlyAvailable",
                "exposeThroughLoadBalancer": true,
                "metalLBVirtualIP": "192.0.2.10",
                "clusterType": "test",
            },
        });
        self.post(
            &format!("/apis/dpf.hcp.bridge.com/v1alpha1/namespaces/{NAMESPACE}/dpfhcpbridges"),
            &bridge,
        );
    }

    /// Creates the class web with these resources.
    pub(crate) fn class(&mut self, resources: &Value) {
        let class = json!({
            "apiVersion": "namespaceclass.akuity.io/v1alpha1",
            "kind": "NamespaceClass",
            "metadata": {"name": "web"},
            "spec": {"resources": resources},
        });
        self.post("/apis/namespaceclass.akuity.io/v1alpha1/namespaceclasses", &class);
    }

    /// Creates the namespace shop, in the class web.
    pub(crate) fn namespace(&mut self) {
        let labels = json!({"namespaceclass.akuity.io/name": "web"});
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop", "labels": labels}}));
        self.pass(Duration::from_secs(30));
    }

    /// Refuses the matching requests of the controller from now on.
    pub(crate) fn refuse(&mut self, class: ErrorKind, is_refused: fn(&Action) -> bool) {
        self.cluster.weather = Box::new(Network { class, is_refused });
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.cluster.advance(time);
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) {
        self.send(Method::POST, path, "application/json", body);
    }

    pub(crate) fn merge(&mut self, path: &str, patch: &Value) {
        self.send(Method::PATCH, path, "application/merge-patch+json", patch);
    }

    pub(crate) fn delete(&mut self, path: &str) {
        self.send(Method::DELETE, path, "application/json", &Value::Null);
    }

    fn send(&mut self, method: Method, path: &str, media_type: &str, body: &Value) {
        let request = http::Request::builder().method(method).uri(path).header("content-type", media_type);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(body.into()).unwrap();
        let answer = self.cluster.request(&request);
        assert!(answer.status().is_success(), "{path}: {}", String::from_utf8_lossy(answer.body()));
    }

    /// Returns the input and the output of the controller.
    fn steps(&self) -> impl Iterator<Item = (Now, &Event, &Step)> {
        self.cluster.journal.iter().filter_map(|entry| match &entry.what {
            What::Stepped { process, now, event, step } if *process == self.process => {
                Some((*now, event, step))
            }
            _ => None,
        })
    }

    /// Writes the recording of the controller.
    pub(crate) fn record(&self, path: &Path) {
        let header = Header {
            format: FORMAT,
            program: "0.1.0".to_owned(),
            machine: self.controller.to_owned(),
            config: json!(self.config),
            segment: 0,
        };
        let mut text = header.to_json().unwrap();
        for (number, (now, event, step)) in (1..).zip(self.steps()) {
            let step = RecordedStep { number, now, event: event.clone(), gave: step.clone() };
            text.extend(Line::Step(step).to_json().unwrap());
        }
        std::fs::write(path, text).unwrap();
    }

    /// Writes the recording as `lockstep run --record` does, with placeholders for secrets.
    pub(crate) fn record_without_secrets(&self, path: &Path) {
        let machine = controllers::machine(self.controller, &self.config).unwrap();
        let options = Options { path: path.to_owned(), max_bytes: 64 << 20 };
        let (mut machine, recording) = record::start(machine, json!(self.config), options).unwrap();
        for (now, event, _) in self.steps() {
            let _step = machine.step(event.clone(), now);
        }
        drop(machine);
        recording.finish();
    }
}
