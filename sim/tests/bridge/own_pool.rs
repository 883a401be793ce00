//! The IPAddressPool and the L2Advertisement that the Bridge creates for a bridge with `metalLBPool`.

use std::time::Duration;

use lockstep_engine::action::ErrorKind;
use lockstep_external as external;
use lockstep_external::hypershift;
use lockstep_sim::cluster::{FaultVerdict, What};
use serde_json::{Value, json};

use super::bench::Bench;
use super::every_failure::{Flow, leads_to_the_same_world};
use super::objects::{DPF, NAMESPACE, bridge, dpu_cluster, pool};

const METALLB: &str = "metallb-system";
/// The name of the pool and the advertisement: that of the namespace of the control plane.
const NAME: &str = "dpf-hcp-bridge-system-prod";
/// An address in no pool, and another one.
const ADDRESS: &str = "203.0.113.10";
const OTHER_ADDRESS: &str = "203.0.113.20";
const KINDS: [&str; 2] = ["IPAddressPool", "L2Advertisement"];

/// Returns a bridge with a pool of its own.
fn with_pool() -> Value {
    let mut bridge = bridge("prod");
    bridge["spec"]["metalLBPool"] = json!({ "namespace": METALLB });
    bridge["spec"]["metalLBVirtualIP"] = json!(ADDRESS);
    bridge
}

fn ready() -> Bench {
    let mut bench = Bench::new();
    bench.create(&with_pool());
    bench.settle();
    assert_ready(&mut bench);
    bench.transitions();
    bench.edges.clear();
    bench
}

fn assert_ready(bench: &mut Bench) {
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
}

/// Returns the specs of both objects.
pub(crate) fn specs(bench: &mut Bench) -> [Value; 2] {
    KINDS.map(|kind| bench.get(kind, METALLB, NAME)["spec"].clone())
}

/// Returns the specs of both objects as they should be.
fn wanted(address: &str) -> [Value; 2] {
    let pool = json!({
        "addresses": [format!("{address}/32")],
        "autoAssign": false,
        "avoidBuggyIPs": false,
        "serviceAllocation": { "namespaces": [NAME] },
    });
    [pool, json!({ "ipAddressPools": [NAME] })]
}

fn given(bench: &mut Bench) -> Value {
    bench.get("Service", NAME, "kube-apiserver")["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
}

/// Returns an object of another client with the name of the pool or the advertisement.
fn foreign(kind: &str) -> Value {
    let mut object = pool(NAME, "198.51.100.0/24");
    if kind == "L2Advertisement" {
        object["kind"] = json!(kind);
        object["spec"] = json!({ "ipAddressPools": ["vips"] });
    }
    object
}

#[test]
fn both_are_created_before_the_cluster() {
    let mut bench = Bench::new();
    bench.create(&with_pool());
    bench.settle();
    assert_ready(&mut bench);
    let requests = bench.transitions();
    let at = |request: &str| requests.find(request).unwrap_or_else(|| panic!("{request}: {requests}"));
    let creations = ["IPAddressPool", "L2Advertisement", "HostedCluster"]
        .map(|kind| at(&format!("asks for create {kind}")));
    assert!(creations.is_sorted(), "{requests}");
    // That they do not exist yet is no problem to report.
    assert!(!requests.contains("PrerequisitesMet=False/InvalidInput"), "{requests}");
    assert!(!bench.events().contains("IPAddressPool"), "{}", bench.events());
    assert_eq!(specs(&mut bench), wanted(ADDRESS));
    for kind in KINDS {
        let metadata = bench.get(kind, METALLB, NAME)["metadata"].clone();
        let labels = json!({
            "dpf.hcp.bridge.com/bridge-name": "prod",
            "dpf.hcp.bridge.com/bridge-namespace": NAMESPACE,
        });
        assert_eq!((&metadata["labels"], &metadata["ownerReferences"]), (&labels, &Value::Null), "{kind}");
    }
    assert_eq!(given(&mut bench), ADDRESS);
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "True/AllMet");
    bench.cluster.advance(Duration::from_hours(25));
    assert_eq!(bench.transitions(), "");
}

#[test]
fn objects_of_other_clients_are_not_taken_over() {
    for kind in KINDS {
        let mut bench = Bench::new();
        bench.create(&foreign(kind));
        bench.create(&with_pool());
        bench.settle();
        assert_eq!(bench.phase("prod"), "Failed", "{kind}");
        let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
        assert_eq!(prerequisites, "False/InvalidInput", "{kind}");
        insta::assert_snapshot!(format!("foreign_{kind}"), message);
        assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
        assert_eq!(bench.get(kind, METALLB, NAME)["spec"]["addresses"], foreign(kind)["spec"]["addresses"]);
        bench.delete(kind, METALLB, NAME);
        bench.settle();
        assert_ready(&mut bench);
        assert_eq!(specs(&mut bench), wanted(ADDRESS), "{kind}");
    }
}

/// While two pools overlap, MetalLB loads no configuration.
#[test]
fn a_pool_that_would_overlap_is_not_created() {
    for range in ["203.0.113.0/28", "203.0.113.10-203.0.113.10"] {
        let mut bench = Bench::new();
        let mut other = pool("others", range);
        other["spec"]["avoidBuggyIPs"] = json!(true);
        bench.create(&other);
        bench.create(&with_pool());
        bench.settle();
        assert_eq!(bench.phase("prod"), "Failed");
        let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
        assert_eq!(prerequisites, "False/InvalidInput");
        insta::assert_snapshot!("overlap", message);
        assert_eq!(specs(&mut bench), [Value::Null, Value::Null]);
        if range.contains('/') {
            bench.delete("IPAddressPool", METALLB, "others");
            bench.settle();
            assert_eq!(specs(&mut bench), wanted(ADDRESS));
        } else {
            bench.change("prod", &json!({ "metalLBVirtualIP": OTHER_ADDRESS }));
            bench.settle();
            assert_eq!(specs(&mut bench), wanted(OTHER_ADDRESS));
        }
        assert_ready(&mut bench);
    }
}

/// A pool in another namespace is not MetalLB's.
#[test]
fn pools_of_other_namespaces_do_not_overlap() {
    let mut bench = Bench::new();
    let mut other = pool("others", "203.0.113.0/24");
    other["metadata"]["namespace"] = json!(DPF);
    bench.create(&other);
    bench.create(&with_pool());
    bench.settle();
    assert_ready(&mut bench);
}

#[test]
fn a_namespace_without_metallb_is_reported() {
    let mut bench = Bench::new();
    let mut bridge = with_pool();
    bridge["spec"]["metalLBPool"]["namespace"] = json!(DPF);
    bench.create(&bridge);
    bench.settle();
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/InvalidInput");
    insta::assert_snapshot!("wrong_namespace", message);
    assert_eq!(bench.get("IPAddressPool", DPF, NAME), Value::Null);
}

/// Before MetalLB has loaded a pool, its namespace is not known.
#[test]
fn a_namespace_that_does_not_exist_is_reported() {
    let mut bench = Bench::new();
    bench.delete("IPAddressPool", METALLB, "vips");
    let mut bridge = with_pool();
    bridge["spec"]["metalLBPool"]["namespace"] = json!("nowhere");
    bench.create(&bridge);
    bench.cluster.advance(Duration::from_mins(1));
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/WaitingForPrerequisites");
    insta::assert_snapshot!("no_namespace", message);
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
}

#[test]
fn a_refused_write_is_reported() {
    let mut bench = Bench::new();
    bench.cluster.interfere(|_, action| {
        let is_pool = action.target().is_some_and(|target| target.kind.kind == "IPAddressPool");
        if is_pool && action.name() == "create" {
            FaultVerdict::failed(ErrorKind::Forbidden)
        } else {
            FaultVerdict::Served
        }
    });
    bench.create(&with_pool());
    bench.cluster.advance(Duration::from_mins(1));
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/WaitingForPrerequisites");
    assert!(message.ends_with("; grant the operator create and patch on ipaddresspools"), "{message}");
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod"), Value::Null);
    bench.cluster.interfere(|_, _| FaultVerdict::Served);
    bench.cluster.advance(Duration::from_mins(10));
    assert_ready(&mut bench);
}

#[test]
fn changes_of_other_clients_are_reverted() {
    let edits = [
        (KINDS[0], json!({ "spec": { "autoAssign": true } })),
        (KINDS[0], json!({ "spec": { "serviceAllocation": null } })),
        (KINDS[0], json!({ "spec": { "addresses": ["203.0.113.99/32"] } })),
        (KINDS[1], json!({ "spec": { "ipAddressPools": ["vips"] } })),
    ];
    for (kind, edit) in edits {
        let mut bench = ready();
        bench.merge(kind, METALLB, NAME, &edit);
        bench.settle();
        assert_eq!(specs(&mut bench), wanted(ADDRESS), "{edit}");
        assert_ready(&mut bench);
        let applied = format!("asks for apply {kind}");
        assert_eq!(bench.transitions().matches(&applied).count(), 1, "{edit}");
    }
    for kind in KINDS {
        let mut bench = ready();
        bench.delete(kind, METALLB, NAME);
        bench.settle();
        assert_eq!(specs(&mut bench), wanted(ADDRESS), "{kind}");
        assert_ready(&mut bench);
        assert_eq!(given(&mut bench), ADDRESS);
    }
}

/// Administrators may restrict from where the address is announced.
#[test]
fn other_fields_of_the_advertisement_are_left() {
    let mut bench = ready();
    let restricted = json!({ "spec": { "interfaces": ["eth1"] } });
    bench.merge("L2Advertisement", METALLB, NAME, &restricted);
    bench.settle();
    assert_eq!(bench.get("L2Advertisement", METALLB, NAME)["spec"]["interfaces"], json!(["eth1"]));
    assert!(!bench.transitions().contains("asks for apply"));
}

/// The cluster works with the address that it has.
#[test]
fn a_pool_that_another_one_overlaps_is_reported() {
    let mut bench = ready();
    bench.create(&pool("others", "203.0.113.0/28"));
    bench.settle();
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/WaitingForPrerequisites");
    assert!(message.contains("is in IPAddressPool metallb-system/others, so"), "{message}");
    assert_ready(&mut bench);
    // It is not written again while it overlaps.
    bench.delete("IPAddressPool", METALLB, NAME);
    bench.settle();
    assert_eq!(specs(&mut bench)[0], Value::Null);
    bench.delete("IPAddressPool", METALLB, "others");
    bench.settle();
    assert_ready(&mut bench);
    assert_eq!(specs(&mut bench), wanted(ADDRESS));
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "True/AllMet");
}

/// The pool contains both addresses until the Service has the new one.
#[test]
fn a_cluster_keeps_its_address_until_it_has_another() {
    let mut bench = ready();
    bench.change("prod", &json!({ "metalLBVirtualIP": OTHER_ADDRESS }));
    bench.settle();
    let pools: Vec<Value> = bench
        .cluster
        .journal
        .iter()
        .filter_map(|entry| match &entry.what {
            What::Changed(change) if change.object.kind.kind == "IPAddressPool" => change.new.clone(),
            _ => None,
        })
        .map(|pool| pool["spec"]["addresses"].clone())
        .collect();
    let both = json!([format!("{OTHER_ADDRESS}/32"), format!("{ADDRESS}/32")]);
    assert!(pools.contains(&both), "{pools:?}");
    assert_eq!(specs(&mut bench), wanted(OTHER_ADDRESS));
    assert_eq!(given(&mut bench), OTHER_ADDRESS);
    assert_eq!(bench.bridge("prod")["status"]["apiEndpoint"], format!("https://{OTHER_ADDRESS}:6443"));
    bench.transitions();
    assert!(bench.edges.is_empty(), "{:?}", bench.edges);
}

/// MetalLB loads no configuration while two pools overlap. So the pool lets go of the former address as soon as another one has it.
#[test]
fn a_cluster_leaves_an_address_that_another_pool_has_as_well() {
    let mut bench = ready();
    bench.create(&pool("others", &format!("{ADDRESS}/32")));
    bench.settle();
    bench.change("prod", &json!({ "metalLBVirtualIP": OTHER_ADDRESS }));
    bench.settle();
    assert_eq!(specs(&mut bench), wanted(OTHER_ADDRESS));
    assert_eq!(given(&mut bench), OTHER_ADDRESS);
    assert_ready(&mut bench);
}

#[test]
fn an_address_of_another_pool_leaves_the_pool_as_it_is() {
    let mut bench = ready();
    bench.change("prod", &json!({ "metalLBVirtualIP": super::objects::VIP }));
    bench.settle();
    assert_eq!(bench.condition("prod", "PrerequisitesMet").0, "False/InvalidInput");
    assert_eq!((specs(&mut bench), given(&mut bench)), (wanted(ADDRESS), json!(ADDRESS)));
    bench.change("prod", &json!({ "metalLBVirtualIP": ADDRESS }));
    bench.settle();
    assert_ready(&mut bench);
}

/// Two bridges with the same address have no pools that overlap.
#[test]
fn the_older_bridge_has_the_pool() {
    let mut bench = ready();
    let mut younger = with_pool();
    younger["metadata"]["name"] = json!("stage");
    younger["spec"]["dpuClusterRef"]["name"] = json!("more");
    bench.create(&dpu_cluster("more"));
    bench.create(&younger);
    bench.settle();
    assert_eq!(bench.condition("stage", "ServiceExposureReady").0, "False/VIPConflict");
    assert_eq!(bench.get("IPAddressPool", METALLB, "dpf-hcp-bridge-system-stage"), Value::Null);
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    assert_eq!(bench.phase("stage"), "Ready", "{:#}", bench.bridge("stage")["status"]);
}

/// The cluster needs its address until it is gone.
#[test]
fn both_are_deleted_after_the_cluster() {
    let mut bench = ready();
    let stuck = |stuck: Value| json!({ "metadata": { "annotations": { hypershift::STUCK: stuck } } });
    bench.merge("HostedCluster", NAMESPACE, "prod", &stuck(json!("true")));
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(specs(&mut bench), wanted(ADDRESS));
    bench.transitions();
    bench.merge("HostedCluster", NAMESPACE, "prod", &stuck(Value::Null));
    bench.settle();
    assert_eq!(bench.bridge("prod"), Value::Null);
    assert_eq!(specs(&mut bench), [Value::Null, Value::Null]);
    let requests = bench.transitions();
    let deletions = ["L2Advertisement", "IPAddressPool"].map(|kind| {
        requests.find(&format!("asks for delete {kind}")).unwrap_or_else(|| panic!("{requests}"))
    });
    assert!(deletions.is_sorted(), "{requests}");
}

#[test]
fn a_deletion_leaves_the_objects_of_others() {
    let mut bench = ready();
    let disowned = json!({ "metadata": { "labels": { "dpf.hcp.bridge.com/bridge-name": null } } });
    for kind in KINDS {
        bench.merge(kind, METALLB, NAME, &disowned);
    }
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    assert_eq!(bench.bridge("prod"), Value::Null);
    assert_eq!(specs(&mut bench), wanted(ADDRESS));
    assert!(!bench.get("IPAddressPool", METALLB, "vips").is_null());
}

#[test]
fn a_deletion_needs_no_metallb() {
    let mut bench = ready();
    for plural in ["ipaddresspools", "l2advertisements"] {
        bench.delete("CustomResourceDefinition", "", &format!("{plural}.metallb.io"));
    }
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.bridge("prod"), Value::Null);
}

#[test]
fn a_missing_kind_is_waited_for() {
    for kind in KINDS {
        let mut bench = Bench::without(&[kind]);
        bench.provide("IPAddressPool");
        bench.create(&with_pool());
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.phase("prod"), "Pending", "{kind}");
        let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
        assert_eq!(prerequisites, "False/WaitingForPrerequisites");
        let expected = format!("MetalLB is not installed: {kind}s are not served here; install MetalLB");
        assert_eq!(message, expected);
        let definitions = external::definitions(&external::BRIDGE);
        for definition in definitions.iter().filter(|it| it["spec"]["names"]["kind"] == kind) {
            bench.create(definition);
        }
        bench.cluster.advance(Duration::from_mins(10));
        assert_ready(&mut bench);
    }
}

/// A Bridge with the permissions of an earlier version.
#[test]
fn only_bridges_with_a_pool_need_to_watch_advertisements() {
    let mut bench = Bench::new();
    bench.forbid_watch("L2Advertisement");
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(5));
    assert_ready(&mut bench);
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(5));
    assert_eq!(bench.bridge("prod"), Value::Null);
    bench.create(&with_pool());
    bench.cluster.advance(Duration::from_mins(1));
    let (prerequisites, message) = bench.condition("prod", "PrerequisitesMet");
    assert_eq!(prerequisites, "False/WaitingForPrerequisites");
    assert!(message.ends_with("; grant the operator list and watch on l2advertisements"), "{message}");
    bench.permit_watch();
    bench.cluster.advance(Duration::from_mins(5));
    assert_ready(&mut bench);
}

const FLOWS: &[Flow<Bench>] = &[
    ("create", Bench::new, |bench| bench.create(&with_pool())),
    ("move", ready, |bench| bench.change("prod", &json!({ "metalLBVirtualIP": OTHER_ADDRESS }))),
    ("revert", ready, |bench| {
        bench.delete("IPAddressPool", METALLB, NAME);
        bench.merge("L2Advertisement", METALLB, NAME, &json!({ "spec": { "ipAddressPools": ["vips"] } }));
        bench.cluster.advance(Duration::from_mins(1));
        bench.merge("IPAddressPool", METALLB, NAME, &json!({ "spec": { "autoAssign": true } }));
        bench.delete("L2Advertisement", METALLB, NAME);
    }),
    ("delete", ready, |bench| bench.delete("DPFHCPBridge", NAMESPACE, "prod")),
];

#[test]
fn any_single_failure_of_a_creation_leads_to_the_same_objects() {
    leads_to_the_same_world(FLOWS, "create");
}

#[test]
fn any_single_failure_of_a_move_leads_to_the_same_objects() {
    leads_to_the_same_world(FLOWS, "move");
}

#[test]
fn any_single_failure_of_a_revert_leads_to_the_same_objects() {
    leads_to_the_same_world(FLOWS, "revert");
}

#[test]
fn any_single_failure_of_a_deletion_leads_to_the_same_objects() {
    leads_to_the_same_world(FLOWS, "delete");
}
