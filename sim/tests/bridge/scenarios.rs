//! Scenarios that cause conditions: clusters with a missing prerequisite or a failure.

use std::time::Duration;

use lockstep_engine::action::{Action, ErrorKind};
use lockstep_external::dpu_clusters::Access;
use lockstep_external::hypershift::{self, HyperShift};
use lockstep_external::registry::Health;
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{self, DPF, NAMESPACE, UPGRADE, VIP, bridge, dpu_cluster, secret};

/// Returns a cluster that was changed before its bridge was created.
pub(super) fn with(change: impl FnOnce(&mut Bench)) -> Bench {
    with_spec(&json!({}), change)
}

pub(super) fn with_spec(spec: &Value, change: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = Bench::new();
    change(&mut bench);
    bench.cluster.advance(Duration::from_secs(30));
    let mut wanted = bridge("prod");
    for (field, value) in spec.as_object().into_iter().flatten() {
        wanted["spec"][field] = value.clone();
    }
    bench.create(&wanted);
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// Returns a cluster that was changed after its bridge was ready.
fn after(change: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = Bench::ready();
    change(&mut bench);
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// Returns a cluster with a bridge, but without the CRDs of a kind.
pub(super) fn unserved(kind: &str) -> Bench {
    let mut bench = Bench::without(&[kind]);
    bench.provide(kind);
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// Refuses every request of the Bridge that matches.
pub(super) fn refuse(bench: &mut Bench, class: ErrorKind, fits: impl Fn(&Action) -> bool + 'static) {
    let refused = move |_, action: &Action| {
        if fits(action) { FaultVerdict::failed(class) } else { FaultVerdict::Served }
    };
    bench.cluster.interfere(refused);
}

pub(super) fn is(action: &Action, name: &str, kind: &str) -> bool {
    action.name() == name && action.target().is_some_and(|target| target.kind.kind == kind)
}

pub(super) fn without_dpu_cluster() -> Bench {
    with(|bench| bench.delete("DPUCluster", DPF, "dpus"))
}

pub(super) fn dpu_cluster_lost() -> Bench {
    after(|bench| bench.delete("DPUCluster", DPF, "dpus"))
}

/// An object from before its CRD required a spec.
pub(super) fn dpu_cluster_not_specified() -> Bench {
    let mut bench = Bench::new();
    bench.admit_anything();
    let mut nameless = bridge("prod");
    nameless["spec"].as_object_mut().expect("an object").remove("dpuClusterRef");
    bench.create(&nameless);
    bench.cluster.advance(Duration::from_mins(1));
    bench
}

/// The API server refuses an upgrade for now.
pub(super) fn update_delayed() -> Bench {
    after(|bench| {
        bench.cluster.interfere(|_, action| {
            let is_cluster = action.target().is_some_and(|target| target.kind.kind == "HostedCluster");
            if is_cluster && action.is_write() {
                FaultVerdict::failed(ErrorKind::Unavailable)
            } else {
                FaultVerdict::Served
            }
        });
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    })
}

pub(super) fn dpu_clusters_forbidden() -> Bench {
    let mut bench = Bench::new();
    bench.forbid_watch("DPUCluster");
    refuse(&mut bench, ErrorKind::Forbidden, |action| is(action, "get", "DPUCluster"));
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

pub(super) fn dpu_clusters_unserved() -> Bench {
    unserved("DPUCluster")
}

pub(super) fn registry_down() -> Bench {
    with(|bench| bench.registry().health = Health::Down)
}

pub(super) fn own_kubeconfig_ready() -> Bench {
    with(|bench| {
        let kubeconfig = Access::by_token("https://theirs.example.com:6443", "token").kubeconfig();
        let mut theirs = secret("theirs", "admin.conf", &kubeconfig);
        theirs["metadata"]["namespace"] = json!(DPF);
        bench.create(&theirs);
        bench.merge("DPUCluster", DPF, "dpus", &json!({ "spec": { "kubeconfig": "theirs" } }));
        bench.cluster.advance(Duration::from_mins(3));
    })
}

pub(super) fn immutable_changed() -> Bench {
    after(|bench| bench.change("prod", &json!({ "controlPlaneAvailabilityPolicy": "SingleReplica" })))
}

pub(super) fn update_refused() -> Bench {
    after(|bench| {
        refuse(bench, ErrorKind::Invalid, |action| is(action, "apply", "HostedCluster"));
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    })
}

pub(super) fn foreign_hosted_cluster() -> Bench {
    with(|bench| {
        let mut older = Bench::ready();
        let mut theirs = older.get("HostedCluster", NAMESPACE, "prod");
        theirs["metadata"] = json!({ "namespace": NAMESPACE, "name": "prod" });
        bench.create(&theirs);
    })
}

pub(super) fn creation_forbidden() -> Bench {
    with(|bench| refuse(bench, ErrorKind::Forbidden, |action| is(action, "create", "HostedCluster")))
}

/// The API server can't create HostedClusters for now: for example, HyperShift's webhook does not answer.
pub(super) fn creation_unavailable() -> Bench {
    with(|bench| refuse(bench, ErrorKind::Unavailable, |action| is(action, "create", "HostedCluster")))
}

/// Another client's finalizer blocks the deletion of the HostedCluster.
pub(super) fn hosted_cluster_held() -> Bench {
    after(|bench| {
        let finalizers = bench.get("HostedCluster", NAMESPACE, "prod")["metadata"]["finalizers"].clone();
        let mut finalizers = finalizers.as_array().cloned().unwrap_or_default();
        finalizers.push(json!("example.com/hold"));
        bench.merge("HostedCluster", NAMESPACE, "prod", &json!({ "metadata": { "finalizers": finalizers } }));
    })
}

pub(super) fn hosted_cluster_deleted() -> Bench {
    let mut bench = hosted_cluster_held();
    bench.delete("HostedCluster", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

pub(super) fn foreign_node_pool() -> Bench {
    with(|bench| {
        let mut older = Bench::ready();
        let mut theirs = older.get("NodePool", NAMESPACE, "prod");
        theirs["metadata"] = json!({ "namespace": NAMESPACE, "name": "prod" });
        bench.create(&theirs);
    })
}

pub(super) fn node_pool_invalid() -> Bench {
    after(|bench| {
        bench.silence("HostedCluster");
        bench.set_condition("NodePool", "ValidMachineConfig", "False", "InvalidConfig");
    })
}

pub(super) fn node_ports() -> Bench {
    let spec = json!({ "exposeThroughLoadBalancer": false, "metalLBVirtualIP": "" });
    with_spec(&spec, |bench| {
        bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } }));
        let addresses = json!([{ "type": "InternalIP", "address": "198.51.100.7" }]);
        bench.merge("Node", "", "worker-1/status", &json!({ "status": { "addresses": addresses } }));
    })
}

pub(super) fn node_lost() -> Bench {
    let mut bench = node_ports();
    bench.delete("Node", "", "worker-1");
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

pub(super) fn without_routes() -> Bench {
    let mut bench = Bench::around(&[], HyperShift { routes: false });
    bench.provide("");
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

pub(super) fn load_balancer_pending() -> Bench {
    with(|bench| bench.silence("IPAddressPool"))
}

pub(super) fn new_address_pending() -> Bench {
    after(|bench| {
        bench.silence("IPAddressPool");
        bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    })
}

pub(super) fn address_taken() -> Bench {
    with(|bench| {
        bench.create(&json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "namespace": NAMESPACE, "name": "web", "annotations": { "metallb.io/loadBalancerIPs": VIP } },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        }));
    })
}

pub(super) fn address_of_a_rival() -> Bench {
    with_spec(&json!({ "dpuClusterRef": { "name": "more-dpus", "namespace": DPF } }), |bench| {
        bench.create(&dpu_cluster("more-dpus"));
        // It requests the address, and waits for its own DPUCluster.
        let mut older = bridge("older");
        older["spec"]["dpuClusterRef"]["name"] = json!("not-yet");
        bench.create(&older);
        bench.cluster.advance(Duration::from_mins(3));
    })
}

pub(super) fn annotation_forbidden() -> Bench {
    with(|bench| refuse(bench, ErrorKind::Forbidden, |action| is(action, "patch", "Service")))
}

pub(super) fn injection_forbidden() -> Bench {
    with(|bench| refuse(bench, ErrorKind::Forbidden, |action| is(action, "patch", "DPUCluster")))
}

pub(super) fn timed_out() -> Bench {
    let mut bench = load_balancer_pending();
    bench.cluster.advance(Duration::from_hours(1));
    bench
}

pub(super) fn blocked() -> Bench {
    let bad = "registry.example.com/ocp-release:4.19.7-bad";
    with_spec(&json!({ "ocpReleaseImage": bad }), |bench| {
        let images = &mut bench.registry().images;
        let image = images[objects::RELEASE].clone();
        images.insert(bad.to_owned(), image);
    })
}

/// Makes the control plane of a ready bridge fail.
pub(super) fn ailing(how: &str) -> Bench {
    after(|bench| ail(bench, &json!(how)))
}

pub(super) fn ail(bench: &mut Bench, how: &Value) {
    annotate(bench, hypershift::AILS, how);
}

/// Sets an annotation on the HostedCluster, which controls the model's behaviour.
pub(super) fn annotate(bench: &mut Bench, what: &str, how: &Value) {
    let annotations = json!({ "metadata": { "annotations": { what: how } } });
    bench.merge("HostedCluster", NAMESPACE, "prod", &annotations);
}

/// Another client keeps changing the HostedCluster.
pub(super) fn contested() -> Bench {
    contested_object("HostedCluster")
}

/// Another client keeps changing a label of the HostedCluster or the NodePool.
pub(super) fn contested_object(kind: &str) -> Bench {
    let mut bench = Bench::ready();
    bench.transitions();
    let labels = json!({ "dpf.hcp.bridge.com/cluster-type": "theirs" });
    for _ in 0..100 {
        bench.merge(kind, NAMESPACE, "prod", &json!({ "metadata": { "labels": labels } }));
        bench.cluster.advance(Duration::from_millis(100));
    }
    bench
}

/// An upgrade that waits for the nodes.
pub(super) fn upgrade_under_way() -> Bench {
    after(|bench| {
        annotate(bench, hypershift::NODES, &json!(hypershift::NO_NODES));
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    })
}

pub(super) fn hosted_clusters_unwatchable() -> Bench {
    after(|bench| bench.forbid_watch("HostedCluster"))
}

/// HyperShift must not reconcile the cluster.
pub(super) fn paused() -> Bench {
    after(|bench| pause(bench, &json!("true")))
}

pub(super) fn pause(bench: &mut Bench, until: &Value) {
    bench.merge("HostedCluster", NAMESPACE, "prod", &json!({ "spec": { "pausedUntil": until } }));
}

/// HyperShift can no longer reach the registry of its releases.
pub(super) fn releases_unreachable() -> Bench {
    after(|bench| annotate(bench, hypershift::RELEASES, &json!(hypershift::UNREACHABLE)))
}

/// The registry has an image with which HyperShift can't continue.
pub(super) fn upgrade_blocked() -> Bench {
    after(|bench| {
        let bad = "registry.example.com/ocp-release:4.20.7-bad";
        let images = &mut bench.registry().images;
        let image = images[UPGRADE].clone();
        images.insert(bad.to_owned(), image);
        bench.change("prod", &json!({ "ocpReleaseImage": bad }));
    })
}

/// The same, and a field changes that HyperShift can't change.
pub(super) fn upgrade_blocked_and_immutable_changed() -> Bench {
    let mut bench = upgrade_blocked();
    bench.change("prod", &json!({ "controlPlaneAvailabilityPolicy": "SingleReplica" }));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// An upgrade is requested while HyperShift is paused.
pub(super) fn upgrade_paused() -> Bench {
    after(|bench| {
        pause(bench, &json!("true"));
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    })
}

/// The NodePool has the new release before the HostedCluster has completed it.
pub(super) fn node_pool_ahead() -> Bench {
    let mut bench = upgrade_under_way();
    let ahead = json!({ "spec": { "release": { "image": UPGRADE } } });
    bench.merge("NodePool", NAMESPACE, "prod", &ahead);
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

pub(super) fn degraded() -> Bench {
    ailing(hypershift::DEGRADED)
}

pub(super) fn control_plane_down() -> Bench {
    after(|bench| {
        bench.silence("HostedCluster");
        bench.set_condition("HostedCluster", "Available", "False", "EtcdWaitingForQuorum");
    })
}

pub(super) fn unreachable() -> Bench {
    after(|bench| {
        bench.silence("HostedCluster");
        bench.set_condition("HostedCluster", "Available", "False", "KASLoadBalancerNotReachable");
    })
}
