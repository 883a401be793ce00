//! A bridge for tests, and the objects that it depends on.

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::doubts::BELIEVED_AFTER;
use lockstep_engine::object::{Name, ResourceVersion};
use lockstep_engine::time::{Monotonic, Now, Wall};
use serde_json::{Value, json};

use crate::model::Lookup;
use crate::model::bridge::Bridge;
use crate::model::source::Source;
use crate::names::api_server_service;
use crate::snapshot::BridgeSnapshot;
use crate::store::{Memory, Seen, Store};

/// The address that the bridge requests.
pub(crate) const ADDRESS: &str = "10.0.0.1";
/// The time of the decisions.
pub(crate) const NOW: &str = "2026-01-01T12:00:00Z";

/// The bridge is `team/a`, of DPUCluster `dpf/a`. It is exposed through a load balancer.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) memory: Memory,
    dpu_cluster: Lookup<Value>,
    key: Name,
    seen: u64,
}

impl Fixture {
    /// Returns a fixture with a DPUCluster. The bridge has this status.
    pub(crate) fn new(status: &Value) -> Self {
        Self::with(status, |_| ())
    }

    /// Returns the same with a change of the spec.
    pub(crate) fn with(status: &Value, change: impl FnOnce(&mut Value)) -> Self {
        let mut spec = json!({
            "dpuClusterRef": { "namespace": "dpf", "name": "a" }, "baseDomain": "example.com", "ocpReleaseImage": "image",
            "sshKeySecretRef": { "name": "ssh" }, "pullSecretRef": { "name": "pull" }, "etcdStorageClass": "fast",
            "controlPlaneAvailabilityPolicy": "HighlyAvailable", "infrastructureAvailabilityPolicy": "HighlyAvailable",
            "exposeThroughLoadBalancer": true, "metalLBVirtualIP": ADDRESS, "clusterType": "static",
        });
        change(&mut spec);
        let metadata = json!({ "namespace": "team", "name": "a", "uid": "bridge", "resourceVersion": "1" });
        let bridge = Bridge::read(&json!({ "metadata": metadata, "spec": spec, "status": status }));
        assert!(bridge.spec.is_ok(), "{bridge:?}");
        let (mut store, key) = (Store::default(), Name::new("team", "a"));
        store.bridges.observe(key.clone(), bridge);
        Self { store, memory: Memory::default(), dpu_cluster: Ok(Some(json!({}))), key, seen: 1 }
    }

    /// Another version of an object exists.
    pub(crate) fn see(&mut self, source: Source, name: &Name, mut object: Value) -> &mut Self {
        self.seen += 1;
        let metadata = &mut object["metadata"];
        metadata["namespace"] = json!(name.namespace);
        metadata["name"] = json!(name.name);
        metadata["resourceVersion"] = json!(self.seen.to_string());
        let version = ResourceVersion::of(&object);
        let trimmed = source.trim(&object).expect("a relevant object");
        let watched = self.store.watched.entry(source).or_default();
        watched.cache.observe(name.clone(), Seen::new(trimmed, version));
        self
    }

    /// The HostedCluster of the bridge exists.
    pub(crate) fn cluster(&mut self, created: &str, status: &Value) -> &mut Self {
        self.cluster_with(created, status, |_| ())
    }

    /// The same with a change of its spec.
    pub(crate) fn cluster_with(
        &mut self,
        created: &str,
        status: &Value,
        change: impl FnOnce(&mut Value),
    ) -> &mut Self {
        let strategy = json!({ "type": "LoadBalancer" });
        let mut cluster = json!({
            "metadata": {
                "uid": "cluster", "creationTimestamp": created, "ownerReferences": [{ "uid": "bridge", "controller": true }],
            },
            "spec": { "services": [{ "service": "APIServer", "servicePublishingStrategy": strategy }] },
            "status": status,
        });
        change(&mut cluster["spec"]);
        let key = self.key.clone();
        self.see(Source::HostedClusters, &key, cluster)
    }

    /// The Service of the API server has, and requests, these addresses.
    pub(crate) fn service(&mut self, has: &[&str], requests: &Value) -> &mut Self {
        self.service_at(&["172.30.0.1"], has, requests)
    }

    /// The same with these cluster IPs.
    pub(crate) fn service_at(&mut self, cluster_ips: &[&str], has: &[&str], requests: &Value) -> &mut Self {
        let ingress: Vec<Value> = has.iter().map(|address| json!({ "ip": address })).collect();
        let service = json!({
            "metadata": { "annotations": requests },
            "spec": { "type": "LoadBalancer", "clusterIPs": cluster_ips },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        let name = api_server_service(&self.key);
        self.see(Source::Services, &name, service)
    }

    /// A source can't be watched.
    pub(crate) fn refuse(&mut self, source: Source, class: ErrorKind) -> &mut Self {
        for now in [Monotonic::START, Monotonic::START + BELIEVED_AFTER] {
            self.store.refuse(source, Failure::new(class, "refused"), now);
        }
        self
    }

    /// The DPUCluster uses a kubeconfig.
    pub(crate) fn uses(&mut self, kubeconfig: &str) -> &mut Self {
        self.dpu_cluster = Ok(Some(json!({ "spec": { "kubeconfig": kubeconfig } })));
        self
    }

    /// There is no DPUCluster.
    pub(crate) fn without_dpu_cluster(&mut self) -> &mut Self {
        self.dpu_cluster = Ok(None);
        self
    }

    /// Returns the input of a decision.
    pub(crate) fn snapshot(&self) -> BridgeSnapshot<'_> {
        let bridge = self.store.bridges.get(&self.key).expect("the bridge");
        let wall = Wall::from_timestamp(NOW.parse().expect("a time"));
        BridgeSnapshot {
            key: &self.key,
            bridge,
            spec: bridge.spec.as_ref().expect("a spec"),
            store: &self.store,
            memory: &self.memory,
            dpu_cluster: &self.dpu_cluster,
            namespace: None,
            failures: &[],
            now: Now { wall, monotonic: Monotonic::START },
        }
    }
}
