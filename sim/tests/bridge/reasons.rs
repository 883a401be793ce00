//! Every reason of every condition, with what brings it about: the table is a snapshot, and each line of it is run.

use std::fmt::Write as _;
use std::time::Duration;

use lockstep_core::engine::action::{Action, Class};
use lockstep_sim::cluster::Fate;
use lockstep_sim::worlds::dpu_clusters::Access;
use lockstep_sim::worlds::registry::Health;
use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{
    DPF, NAMESPACE, UPGRADE, VIP, bridge, docker_config, dpu_cluster, pool, secret, storage_class,
};

/// A condition, its status and reason, what brings it about, and the phase that goes with it.
struct Line {
    condition: &'static str,
    reason: &'static str,
    scenario: &'static str,
    phase: &'static str,
    run: fn() -> Bench,
}

const fn line(
    condition: &'static str,
    reason: &'static str,
    phase: &'static str,
    scenario: &'static str,
    run: fn() -> Bench,
) -> Line {
    Line { condition, reason, scenario, phase, run }
}

const TABLE: &[Line] = &[
    line("DPUClusterValid", "True/DPUClusterFound", "Ready", "the DPUCluster exists", Bench::ready),
    line(
        "DPUClusterValid",
        "False/DPUClusterNotFound",
        "Pending",
        "there is no DPUCluster",
        without_dpu_cluster,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterNotFound",
        "Failed",
        "the DPUCluster of a ready bridge is deleted",
        dpu_cluster_lost,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterAccessError",
        "Pending",
        "DPUClusters may not be read",
        dpu_clusters_forbidden,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterAccessError",
        "Pending",
        "the CRD of DPUClusters is missing",
        dpu_clusters_unserved,
    ),
    line("PrerequisitesMet", "True/AllMet", "Ready", "everything is there", Bench::ready),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "the pull secret is missing",
        pull_secret_missing,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "the StorageClass is missing",
        storage_class_missing,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "HyperShift's operator is not available",
        hypershift_down,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "HyperShift's kinds are missing",
        hypershift_unserved,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "there is no IPAddressPool",
        pool_missing,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "MetalLB's kinds are missing",
        pools_unserved,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "an older bridge has the DPUCluster",
        in_use,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "the DPUCluster has a kubeconfig of its own and is not Ready",
        own_kubeconfig,
    ),
    line("PrerequisitesMet", "False/InvalidInput", "Failed", "the SSH key is none", malformed_ssh_key),
    line(
        "PrerequisitesMet",
        "False/InvalidInput",
        "Failed",
        "the pull secret is no docker config",
        malformed_pull_secret,
    ),
    line(
        "PrerequisitesMet",
        "False/InvalidInput",
        "Failed",
        "the StorageClass makes no volumes",
        static_storage_class,
    ),
    line("PrerequisitesMet", "False/InvalidInput", "Failed", "the address is in no pool", outside_the_pool),
    line("PrerequisitesMet", "False/InvalidInput", "Failed", "the registry has no such image", no_such_image),
    line(
        "PrerequisitesMet",
        "False/InvalidInput",
        "Failed",
        "the registry refuses the pull secret",
        registry_refuses,
    ),
    line(
        "PrerequisitesMet",
        "False/InvalidInput",
        "Failed",
        "HyperShift does not support the version",
        unsupported_version,
    ),
    line("PrerequisitesMet", "False/InvalidInput", "Failed", "the name has a dot", name_with_a_dot),
    line(
        "PrerequisitesMet",
        "False/InvalidInput",
        "Failed",
        "a Secret of somebody else has the copy's name",
        copy_of_others,
    ),
    line("PrerequisitesMet", "True/AllMet", "Ready", "the registry does not answer", registry_down),
    line("SpecApplied", "True/Applied", "Ready", "the HostedCluster is as the spec says", Bench::ready),
    line(
        "SpecApplied",
        "False/ImmutableFieldChanged",
        "Ready",
        "a field changes that HyperShift can't change",
        immutable_changed,
    ),
    line("SpecApplied", "False/UpdateRefused", "Ready", "the server refuses the change", update_refused),
    line("HostedClusterCreated", "True/Created", "Ready", "the HostedCluster exists", Bench::ready),
    line(
        "HostedClusterCreated",
        "Unknown/NotCreated",
        "Pending",
        "it was not attempted yet",
        without_dpu_cluster,
    ),
    line(
        "HostedClusterCreated",
        "False/CreationFailed",
        "Failed",
        "a HostedCluster of somebody else has the name",
        foreign_hosted_cluster,
    ),
    line(
        "HostedClusterCreated",
        "False/CreationFailed",
        "Failed",
        "HostedClusters may not be created",
        creation_forbidden,
    ),
    line(
        "HostedClusterCreated",
        "False/Deleted",
        "Failed",
        "somebody deletes the HostedCluster, which takes its time",
        hosted_cluster_deleted,
    ),
    line(
        "NodePoolReady",
        "True/NodesReady",
        "Ready",
        "no replicas are asked for, and none are invalid",
        Bench::ready,
    ),
    line(
        "NodePoolReady",
        "Unknown/WaitingForNodes",
        "Pending",
        "there is no NodePool yet",
        without_dpu_cluster,
    ),
    line(
        "NodePoolReady",
        "False/NodePoolCreationFailed",
        "Failed",
        "a NodePool of somebody else has the name",
        foreign_node_pool,
    ),
    line(
        "NodePoolReady",
        "False/NodesUnhealthy",
        "Failed",
        "the NodePool reports that something is invalid",
        node_pool_invalid,
    ),
    line(
        "ServiceExposureReady",
        "True/LoadBalancerReady",
        "Ready",
        "the load balancer has the address",
        Bench::ready,
    ),
    line("ServiceExposureReady", "True/NodePortReady", "Ready", "the node port is known", node_ports),
    line(
        "ServiceExposureReady",
        "False/LoadBalancerPending",
        "Provisioning",
        "MetalLB does not give the address",
        load_balancer_pending,
    ),
    line(
        "ServiceExposureReady",
        "False/VIPConflict",
        "Failed",
        "another Service has the address",
        address_taken,
    ),
    line(
        "ServiceExposureReady",
        "False/VIPConflict",
        "Failed",
        "an older bridge has the address",
        address_of_a_rival,
    ),
    line(
        "ServiceExposureReady",
        "False/ServiceCreationFailed",
        "Provisioning",
        "the Service may not be annotated",
        annotation_forbidden,
    ),
    line(
        "ServiceExposureReady",
        "Unknown/WaitingForHostedCluster",
        "Pending",
        "there is no HostedCluster",
        without_dpu_cluster,
    ),
    line("KubeconfigInjected", "True/Injected", "Ready", "the DPUCluster uses the kubeconfig", Bench::ready),
    line(
        "KubeconfigInjected",
        "False/KubeconfigPending",
        "Pending",
        "HyperShift has made none",
        without_dpu_cluster,
    ),
    line(
        "KubeconfigInjected",
        "False/InjectionFailed",
        "Provisioning",
        "the DPUCluster may not be changed",
        injection_forbidden,
    ),
    line(
        "KubeconfigInjected",
        "False/DPUClusterHasItsOwn",
        "Ready",
        "the DPUCluster is Ready with a kubeconfig of its own",
        own_kubeconfig_ready,
    ),
    line("Provisioned", "True/Completed", "Ready", "the cluster has been ready", Bench::ready),
    line("Provisioned", "False/InProgress", "Pending", "the cluster is not there yet", without_dpu_cluster),
    line("Provisioned", "False/TimedOut", "Failed", "the cluster is not ready after an hour", timed_out),
    line("Ready", "True/ClusterReady", "Ready", "everything works", Bench::ready),
    line("Ready", "False/ValidationFailed", "Pending", "there is no DPUCluster", without_dpu_cluster),
    line("Ready", "False/ValidationFailed", "Failed", "HyperShift can't go on with the image", blocked),
    line(
        "Ready",
        "False/WaitingForControlPlane",
        "Failed",
        "the control plane of a ready cluster goes down",
        control_plane_down,
    ),
    line(
        "Ready",
        "False/WaitingForInfrastructure",
        "Failed",
        "MetalLB does not give a ready cluster its new address",
        new_address_pending,
    ),
    line("Ready", "False/APIServerUnreachable", "Failed", "the load balancer can't be reached", unreachable),
];

#[test]
fn every_reason_has_a_scenario() {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for Line { condition, reason, scenario, phase, run } in TABLE {
        let mut bench = run();
        let name = if bench.bridge("prod").is_null() { "a.b" } else { "prod" };
        let (found, message) = bench.condition(name, condition);
        let found = (found, bench.phase(name));
        if (found.0.as_str(), found.1.as_str()) != (*reason, *phase) {
            wrong.push(format!("{condition}: {scenario}: {found:?}, not {reason}, {phase}: {message}"));
        }
        writeln!(table, "{condition:<21} {reason:<33} {phase:<12}  {scenario}\n    {message}")
            .expect("a string takes it");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!("reasons", table);
}

/// A bridge in a world that was changed before it came.
fn with(change: impl FnOnce(&mut Bench)) -> Bench {
    with_spec(&json!({}), change)
}

fn with_spec(spec: &Value, change: impl FnOnce(&mut Bench)) -> Bench {
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

/// A bridge that is ready in a world that changes then.
fn after(change: impl FnOnce(&mut Bench)) -> Bench {
    let mut bench = Bench::ready();
    change(&mut bench);
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// A bridge in a world that lacks the definitions of some kinds.
fn unserved(kind: &str) -> Bench {
    let mut bench = Bench::without(&[kind]);
    bench.provide(kind);
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// Whatever the Bridge asks for that fits is refused.
fn refuse(bench: &mut Bench, class: Class, fits: impl Fn(&Action) -> bool + 'static) {
    let refused = move |_, action: &Action| if fits(action) { Fate::failed(class) } else { Fate::Served };
    bench.cluster.interfere(refused);
}

fn is(action: &Action, name: &str, kind: &str) -> bool {
    action.name() == name && action.target().is_some_and(|target| target.kind.kind == kind)
}

fn without_dpu_cluster() -> Bench {
    with(|bench| bench.delete("DPUCluster", DPF, "dpus"))
}

fn dpu_cluster_lost() -> Bench {
    after(|bench| bench.delete("DPUCluster", DPF, "dpus"))
}

fn dpu_clusters_forbidden() -> Bench {
    let mut bench = Bench::new();
    bench.forbid_watch("DPUCluster");
    refuse(&mut bench, Class::Forbidden, |action| is(action, "get", "DPUCluster"));
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

fn dpu_clusters_unserved() -> Bench {
    unserved("DPUCluster")
}

fn pull_secret_missing() -> Bench {
    with(|bench| bench.delete("Secret", NAMESPACE, "pull"))
}

fn storage_class_missing() -> Bench {
    with(|bench| bench.delete("StorageClass", "", "ceph-rbd"))
}

fn hypershift_down() -> Bench {
    with(|bench| {
        bench.merge("Deployment", "hypershift", "operator", &json!({ "spec": { "replicas": 0 } }));
    })
}

fn hypershift_unserved() -> Bench {
    unserved("HostedCluster")
}

fn pool_missing() -> Bench {
    with(|bench| bench.delete("IPAddressPool", "metallb-system", "vips"))
}

fn pools_unserved() -> Bench {
    unserved("IPAddressPool")
}

fn in_use() -> Bench {
    with_spec(&json!({ "metalLBVirtualIP": "192.0.2.11" }), |bench| {
        bench.create(&bridge("older"));
        bench.cluster.advance(Duration::from_mins(3));
    })
}

fn own_kubeconfig() -> Bench {
    with(|bench| bench.merge("DPUCluster", DPF, "dpus", &json!({ "spec": { "kubeconfig": "theirs" } })))
}

fn own_kubeconfig_ready() -> Bench {
    with(|bench| {
        let kubeconfig = Access::by_token("https://theirs.example.com:6443", "token").kubeconfig();
        let mut theirs = secret("theirs", "admin.conf", &kubeconfig);
        theirs["metadata"]["namespace"] = json!(DPF);
        bench.create(&theirs);
        bench.merge("DPUCluster", DPF, "dpus", &json!({ "spec": { "kubeconfig": "theirs" } }));
        bench.cluster.advance(Duration::from_mins(3));
    })
}

fn malformed_ssh_key() -> Bench {
    with(|bench| bench.merge("Secret", NAMESPACE, "ssh", &json!({ "data": { "ssh-publickey": "bm8ga2V5" } })))
}

fn malformed_pull_secret() -> Bench {
    with(|bench| {
        bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": { ".dockerconfigjson": "e30=" } }));
    })
}

fn static_storage_class() -> Bench {
    with_spec(&json!({ "etcdStorageClass": "by-hand" }), |bench| {
        bench.create(&storage_class("by-hand", "kubernetes.io/no-provisioner"));
    })
}

fn outside_the_pool() -> Bench {
    with_spec(&json!({ "metalLBVirtualIP": "198.51.100.1" }), |_| {})
}

fn no_such_image() -> Bench {
    with_spec(&json!({ "ocpReleaseImage": "registry.example.com/ocp-release:4.19.9-multi" }), |_| {})
}

fn registry_refuses() -> Bench {
    with(|bench| {
        let other = secret("pull", ".dockerconfigjson", &docker_config("not-this-one"));
        bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": other["data"] }));
    })
}

fn registry_down() -> Bench {
    with(|bench| bench.registry().health = Health::Down)
}

fn unsupported_version() -> Bench {
    let old = "registry.example.com/ocp-release:4.3.0-multi";
    with_spec(&json!({ "ocpReleaseImage": old }), |bench| {
        let images = &mut bench.registry().images;
        let image = images[super::objects::RELEASE].clone();
        images.insert(old.to_owned(), image);
    })
}

fn name_with_a_dot() -> Bench {
    let mut bench = Bench::new();
    bench.create(&bridge("a.b"));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

fn copy_of_others() -> Bench {
    with(|bench| bench.create(&secret("prod-pull-secret", ".dockerconfigjson", "{}")))
}

fn immutable_changed() -> Bench {
    after(|bench| bench.change("prod", &json!({ "controlPlaneAvailabilityPolicy": "SingleReplica" })))
}

fn update_refused() -> Bench {
    after(|bench| {
        refuse(bench, Class::Invalid, |action| is(action, "apply", "HostedCluster"));
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    })
}

fn foreign_hosted_cluster() -> Bench {
    with(|bench| {
        let mut older = Bench::ready();
        let mut theirs = older.get("HostedCluster", NAMESPACE, "prod");
        theirs["metadata"] = json!({ "namespace": NAMESPACE, "name": "prod" });
        bench.create(&theirs);
    })
}

fn creation_forbidden() -> Bench {
    with(|bench| refuse(bench, Class::Forbidden, |action| is(action, "create", "HostedCluster")))
}

fn hosted_cluster_deleted() -> Bench {
    after(|bench| {
        // Somebody else holds it back.
        let finalizers = bench.get("HostedCluster", NAMESPACE, "prod")["metadata"]["finalizers"].clone();
        let mut finalizers = finalizers.as_array().cloned().unwrap_or_default();
        finalizers.push(json!("example.com/hold"));
        bench.merge("HostedCluster", NAMESPACE, "prod", &json!({ "metadata": { "finalizers": finalizers } }));
        bench.delete("HostedCluster", NAMESPACE, "prod");
    })
}

fn foreign_node_pool() -> Bench {
    with(|bench| {
        let mut older = Bench::ready();
        let mut theirs = older.get("NodePool", NAMESPACE, "prod");
        theirs["metadata"] = json!({ "namespace": NAMESPACE, "name": "prod" });
        bench.create(&theirs);
    })
}

fn node_pool_invalid() -> Bench {
    after(|bench| {
        bench.silence("HostedCluster");
        bench.set_condition("NodePool", "ValidMachineConfig", "False", "InvalidConfig");
    })
}

fn node_ports() -> Bench {
    let spec = json!({ "exposeThroughLoadBalancer": false, "metalLBVirtualIP": "" });
    with_spec(&spec, |bench| {
        bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } }));
        let addresses = json!([{ "type": "InternalIP", "address": "198.51.100.7" }]);
        bench.merge("Node", "", "worker-1/status", &json!({ "status": { "addresses": addresses } }));
    })
}

fn load_balancer_pending() -> Bench {
    with(|bench| bench.silence("IPAddressPool"))
}

fn new_address_pending() -> Bench {
    after(|bench| {
        bench.silence("IPAddressPool");
        bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    })
}

fn address_taken() -> Bench {
    with(|bench| {
        bench.create(&json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "namespace": NAMESPACE, "name": "web", "annotations": { "metallb.io/loadBalancerIPs": VIP } },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        }));
    })
}

fn address_of_a_rival() -> Bench {
    with_spec(&json!({ "dpuClusterRef": { "name": "more-dpus", "namespace": DPF } }), |bench| {
        bench.create(&dpu_cluster("more-dpus"));
        // It asks for the address, and waits for its own DPUCluster.
        let mut older = bridge("older");
        older["spec"]["dpuClusterRef"]["name"] = json!("not-yet");
        bench.create(&older);
        bench.cluster.advance(Duration::from_mins(3));
    })
}

fn annotation_forbidden() -> Bench {
    with(|bench| refuse(bench, Class::Forbidden, |action| is(action, "patch", "Service")))
}

fn injection_forbidden() -> Bench {
    with(|bench| refuse(bench, Class::Forbidden, |action| is(action, "patch", "DPUCluster")))
}

fn timed_out() -> Bench {
    let mut bench = load_balancer_pending();
    bench.cluster.advance(Duration::from_hours(1));
    bench
}

fn blocked() -> Bench {
    let bad = "registry.example.com/ocp-release:4.19.7-bad";
    with_spec(&json!({ "ocpReleaseImage": bad }), |bench| {
        let images = &mut bench.registry().images;
        let image = images[super::objects::RELEASE].clone();
        images.insert(bad.to_owned(), image);
    })
}

fn control_plane_down() -> Bench {
    after(|bench| {
        bench.silence("HostedCluster");
        bench.set_condition("HostedCluster", "Available", "False", "EtcdWaitingForQuorum");
    })
}

fn unreachable() -> Bench {
    after(|bench| {
        bench.silence("HostedCluster");
        bench.set_condition("HostedCluster", "Available", "False", "KASLoadBalancerNotReachable");
    })
}

#[test]
fn pools_in_more_than_one_form_hold_the_address() {
    for range in ["192.0.2.0/24", "192.0.2.1 - 192.0.2.20", "192.0.2.10/32"] {
        let mut bench = with(|bench| {
            bench.delete("IPAddressPool", "metallb-system", "vips");
            bench.create(&pool("other", range));
        });
        assert_eq!(bench.phase("prod"), "Ready", "{range}");
    }
}
