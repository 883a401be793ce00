//! Every prerequisite of a hosted cluster, missing or wrong, each on its own, with the reported condition.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::bench::Bench;
use super::objects::{self, DPF, NAMESPACE, bridge, docker_config, dpu_cluster, secret, storage_class};
use super::scenarios::{unserved, with, with_spec};

/// A description of the problem, and a cluster that has it.
type Case = (&'static str, fn() -> Bench);

/// Prerequisites that may still appear: the bridge is Pending.
const PENDING: &[Case] = &[
    ("the pull secret is missing", pull_secret_missing),
    ("the SSH keys are missing", ssh_secret_missing),
    ("the StorageClass is missing", storage_class_missing),
    ("HyperShift's operator is not available", hypershift_down),
    ("HyperShift's operator is missing", hypershift_missing),
    ("HyperShift's kinds are missing", hypershift_unserved),
    ("HyperShift's kind NodePool is missing", node_pools_unserved),
    ("there is no IPAddressPool", pool_missing),
    ("MetalLB's kinds are missing", pools_unserved),
    ("no Node has an address for node ports", node_missing),
    ("an older bridge has the DPUCluster", in_use),
    ("the DPUCluster is being deleted", dpu_cluster_going),
    ("the DPUCluster has a kubeconfig of its own and is not Ready", own_kubeconfig),
    ("the namespace of the control plane is being deleted", namespace_going),
];

/// Problems that a user has to fix: the bridge is Failed.
const INVALID: &[Case] = &[
    ("the SSH key is none", malformed_ssh_key),
    ("the pull secret is no docker config", malformed_pull_secret),
    ("the Secret of SSH keys lacks its key", ssh_key_missing),
    ("the pull secret lacks its key", pull_key_missing),
    ("the reference to the SSH keys is empty", ssh_reference_empty),
    ("the reference to the pull secret is empty", pull_reference_empty),
    ("the reference to the pull secret is no name of a Secret", pull_reference_invalid),
    ("the StorageClass makes no volumes", static_storage_class),
    ("the address is in no pool", outside_the_pool),
    ("the pool is for other namespaces", pool_of_others),
    ("the registry has no such image", no_such_image),
    ("the release image is no reference", malformed_image),
    ("the registry refuses the pull secret", registry_refuses),
    ("HyperShift does not support the version", unsupported_version),
    ("the name has a dot", name_with_a_dot),
    ("namespace and name are too long together", long_name),
    ("an older bridge has the namespace of the control plane", shared_namespace),
    ("another HostedCluster has the namespace of the control plane", of_another_cluster),
    ("another client has created the namespace of the control plane", namespace_of_others),
    ("a Secret of another client has the copy's name", copy_of_others),
    ("DPF creates the control plane of the DPUCluster", dpu_cluster_of_kamaji),
];

#[test]
fn every_unmet_prerequisite_is_reported() {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    let groups =
        [(PENDING, "Pending", "False/WaitingForPrerequisites"), (INVALID, "Failed", "False/InvalidInput")];
    for (cases, phase, reason) in groups {
        for (case, run) in cases {
            let mut bench = run();
            let name = bench.subject();
            let found = bench.condition(&name, "PrerequisitesMet");
            let ready = bench.condition(&name, "Ready");
            if (bench.phase(&name).as_str(), found.0.as_str()) != (phase, reason) {
                wrong.push(format!("{case}: {}, {found:?}", bench.phase(&name)));
            }
            if ready != ("False/ValidationFailed".to_owned(), found.1.clone()) {
                wrong.push(format!("{case}: {ready:?}"));
            }
            writeln!(table, "{phase:<8} {case}\n    {}", found.1).expect("a string takes it");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!("prerequisites", table);
}

/// A cluster that exists is kept: it is not created a second time, and no prerequisite takes it away.
#[test]
fn a_cluster_stays_ready_if_its_dpucluster_becomes_one_of_kamaji() {
    let mut bench = Bench::ready();
    bench.merge("DPUCluster", DPF, "dpus", &json!({ "spec": { "type": "kamaji" } }));
    bench.settle();
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "True/AllMet");
    assert_eq!(bench.phase("prod"), "Ready");
}

/// The API server refuses the labels of copies with the longest name.
#[test]
fn nothing_is_copied_for_a_bridge_that_can_not_have_a_cluster() {
    let excluded: [fn() -> Bench; 7] = [
        name_with_a_dot,
        long_name,
        longest_name,
        shared_namespace,
        of_another_cluster,
        namespace_of_others,
        dpu_cluster_of_kamaji,
    ];
    for (number, run) in excluded.into_iter().enumerate() {
        let mut bench = run();
        let name = bench.subject();
        for copy in ["pull-secret", "ssh-key"] {
            let copy = bench.get("Secret", NAMESPACE, &format!("{name}-{copy}"));
            assert_eq!(copy, Value::Null, "case {number}");
        }
        let (_, message) = bench.condition(&name, "PrerequisitesMet");
        assert!(!message.contains("Secret"), "{message}");
    }
}

pub(super) fn pull_secret_missing() -> Bench {
    with(|bench| bench.delete("Secret", NAMESPACE, "pull"))
}

fn storage_class_missing() -> Bench {
    with(|bench| bench.delete("StorageClass", "", "ceph-rbd"))
}

pub(super) fn hypershift_down() -> Bench {
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

fn dpu_cluster_of_kamaji() -> Bench {
    with(|bench| bench.merge("DPUCluster", DPF, "dpus", &json!({ "spec": { "type": "kamaji" } })))
}

pub(super) fn malformed_ssh_key() -> Bench {
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

fn unsupported_version() -> Bench {
    let old = "registry.example.com/ocp-release:4.3.0-multi";
    with_spec(&json!({ "ocpReleaseImage": old }), |bench| {
        let images = &mut bench.registry().images;
        let image = images[objects::RELEASE].clone();
        images.insert(old.to_owned(), image);
    })
}

fn name_with_a_dot() -> Bench {
    named("a.b")
}

fn copy_of_others() -> Bench {
    with(|bench| bench.create(&secret("prod-pull-secret", ".dockerconfigjson", "{}")))
}

fn ssh_secret_missing() -> Bench {
    with(|bench| bench.delete("Secret", NAMESPACE, "ssh"))
}

fn hypershift_missing() -> Bench {
    with(|bench| bench.delete("Deployment", "hypershift", "operator"))
}

fn node_pools_unserved() -> Bench {
    unserved("NodePool")
}

pub(super) fn node_missing() -> Bench {
    with_spec(&json!({ "exposeThroughLoadBalancer": false, "metalLBVirtualIP": "" }), |bench| {
        bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } }));
    })
}

/// Returns a cluster with a DPUCluster that is being deleted, and keeps DPF's finalizer.
fn dpu_cluster_going() -> Bench {
    with(|bench| {
        bench.silence("DPUCluster");
        bench.delete("DPUCluster", DPF, "dpus");
    })
}

/// Returns a cluster with a Secret that has its content under another key than the required one.
fn other_key(name: &str, key: &str) -> Bench {
    with(|bench| {
        let data = json!({ key: Value::Null, "other": "e30=" });
        bench.merge("Secret", NAMESPACE, name, &json!({ "data": data }));
    })
}

fn ssh_key_missing() -> Bench {
    other_key("ssh", "ssh-publickey")
}

fn pull_key_missing() -> Bench {
    other_key("pull", ".dockerconfigjson")
}

fn ssh_reference_empty() -> Bench {
    with_spec(&json!({ "sshKeySecretRef": {} }), |_| {})
}

fn pull_reference_invalid() -> Bench {
    with_spec(&json!({ "pullSecretRef": { "name": "No Secret's Name" } }), |_| {})
}

fn pull_reference_empty() -> Bench {
    with_spec(&json!({ "pullSecretRef": { "name": "" } }), |_| {})
}

pub(super) fn pool_of_others() -> Bench {
    with(|bench| {
        let allocation = json!({ "spec": { "serviceAllocation": { "namespaces": ["web"] } } });
        bench.merge("IPAddressPool", "metallb-system", "vips", &allocation);
    })
}

/// Returns a cluster with an image reference that the CRD's pattern accepts, but no container tool does.
fn malformed_image() -> Bench {
    with_spec(&json!({ "ocpReleaseImage": "registry.example.com/OCP-Release:4.19.0-multi" }), |_| {})
}

fn long_name() -> Bench {
    named(&"x".repeat(42))
}

fn longest_name() -> Bench {
    named(&"x".repeat(240))
}

fn named(name: &str) -> Bench {
    let mut bench = Bench::new();
    bench.create(&bridge(name));
    bench.cluster.advance(Duration::from_mins(3));
    bench
}

/// In this namespace, `system-prod` would have the same control plane namespace as prod in the usual one.
pub(super) const OTHER: &str = "dpf-hcp-bridge";

pub(super) fn shared_namespace() -> Bench {
    with(|bench| {
        create_namespace(bench, &json!({ "name": OTHER }));
        bench.create(&dpu_cluster("more-dpus"));
        let mut older = bridge("system-prod");
        older["metadata"]["namespace"] = json!(OTHER);
        older["spec"]["dpuClusterRef"]["name"] = json!("more-dpus");
        older["spec"]["metalLBVirtualIP"] = json!("192.0.2.11");
        bench.create(&older);
    })
}

/// Another tool has created the HostedCluster `system-prod`.
pub(super) fn of_another_cluster() -> Bench {
    with(|bench| {
        create_namespace(bench, &json!({ "name": OTHER }));
        let mut cluster = Bench::ready().get("HostedCluster", NAMESPACE, "prod");
        cluster["metadata"] = json!({ "namespace": OTHER, "name": "system-prod" });
        bench.create(&cluster);
    })
}

fn namespace_of_others() -> Bench {
    with(|bench| create_namespace(bench, &json!({ "name": "dpf-hcp-bridge-system-prod" })))
}

/// A finalizer of another client blocks the deletion.
fn namespace_going() -> Bench {
    with(|bench| {
        let name = "dpf-hcp-bridge-system-prod";
        create_namespace(bench, &json!({ "name": name, "finalizers": ["example.com/hold"] }));
        bench.delete("Namespace", "", name);
    })
}

fn create_namespace(bench: &mut Bench, metadata: &Value) {
    bench.create(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata }));
}
