//! Every reason of every condition, with its cause. The table is a snapshot, and each line of it is run.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::bench::Bench;
use super::objects::pool;
use super::phases;
use super::prerequisites;
use super::scenarios as when;

/// A condition, its status and reason, the cause, and the phase.
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

/// Reasons that HyperShift sets, and the Bridge only reads.
const HYPERSHIFTS: &[&str] = &["Blocked"];

const TABLE: &[Line] = &[
    line("DPUClusterValid", "True/DPUClusterFound", "Ready", "the DPUCluster exists", Bench::ready),
    line(
        "DPUClusterValid",
        "False/DPUClusterNotFound",
        "Pending",
        "there is no DPUCluster",
        when::without_dpu_cluster,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterNotFound",
        "Failed",
        "the DPUCluster of a ready bridge is deleted",
        when::dpu_cluster_lost,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterAccessError",
        "Pending",
        "DPUClusters may not be read",
        when::dpu_clusters_forbidden,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterAccessError",
        "Pending",
        "the CRD of DPUClusters is missing",
        when::dpu_clusters_unserved,
    ),
    line(
        "DPUClusterValid",
        "False/DPUClusterNotSpecified",
        "Failed",
        "the bridge is older than the rule that it names a DPUCluster",
        when::dpu_cluster_not_specified,
    ),
    line(
        "SpecApplied",
        "Unknown/UpdatePending",
        "Ready",
        "the API server does not take an upgrade yet",
        when::update_delayed,
    ),
    line(
        "SpecApplied",
        "False/Contested",
        "Ready",
        "another client keeps changing the HostedCluster",
        when::contested,
    ),
    line(
        "SpecApplied",
        "Unknown/UpgradeInProgress",
        "Ready",
        "an upgrade waits for the nodes",
        when::upgrade_under_way,
    ),
    line("SpecApplied", "Unknown/UpdatePending", "Ready", "HyperShift is paused", when::upgrade_paused),
    line(
        "SpecApplied",
        "False/UpdateRefused",
        "Ready",
        "HyperShift can't go on with the new image",
        when::upgrade_blocked,
    ),
    line("PrerequisitesMet", "True/AllMet", "Ready", "everything is there", Bench::ready),
    line(
        "PrerequisitesMet",
        "True/ReleaseImageUnchecked",
        "Ready",
        "the registry does not answer",
        when::registry_down,
    ),
    line(
        "PrerequisitesMet",
        "False/WaitingForPrerequisites",
        "Pending",
        "the pull secret is missing",
        prerequisites::pull_secret_missing,
    ),
    line(
        "PrerequisitesMet",
        "False/InvalidInput",
        "Failed",
        "the SSH key is none",
        prerequisites::malformed_ssh_key,
    ),
    line("SpecApplied", "True/Applied", "Ready", "the HostedCluster is as the spec says", Bench::ready),
    line(
        "SpecApplied",
        "False/ImmutableFieldChanged",
        "Ready",
        "a field changes that HyperShift can't change",
        when::immutable_changed,
    ),
    line(
        "SpecApplied",
        "False/UpdateRefused",
        "Ready",
        "the server refuses the change",
        when::update_refused,
    ),
    line(
        "SpecApplied",
        "False/UpdateRefused",
        "Ready",
        "HyperShift can't go on with the new image, and a field changes that it can't change",
        when::upgrade_blocked_and_immutable_changed,
    ),
    line("HostedClusterCreated", "True/Created", "Ready", "the HostedCluster exists", Bench::ready),
    line(
        "HostedClusterCreated",
        "Unknown/NotCreated",
        "Pending",
        "it was not attempted yet",
        when::without_dpu_cluster,
    ),
    line(
        "HostedClusterCreated",
        "False/CreationFailed",
        "Failed",
        "a HostedCluster of another client has the name",
        when::foreign_hosted_cluster,
    ),
    line(
        "HostedClusterCreated",
        "False/CreationFailed",
        "Failed",
        "HostedClusters may not be created",
        when::creation_forbidden,
    ),
    line(
        "HostedClusterCreated",
        "False/CreationFailed",
        "Failed",
        "the server fails whenever it is to create the HostedCluster",
        when::creation_unavailable,
    ),
    line(
        "HostedClusterCreated",
        "False/Deleted",
        "Failed",
        "another client deletes the HostedCluster, which takes its time",
        when::hosted_cluster_deleted,
    ),
    line("HostedClusterAvailable", "True/AsExpected", "Ready", "the control plane serves", Bench::ready),
    line(
        "HostedClusterProgressing",
        "False/Blocked",
        "Failed",
        "HyperShift can't go on with the image",
        when::blocked,
    ),
    line(
        "HostedClusterProgressing",
        "False/Blocked",
        "Ready",
        "HyperShift is paused while the cluster serves",
        when::paused,
    ),
    line(
        "HostedClusterProgressing",
        "False/Blocked",
        "Ready",
        "HyperShift can't reach the registry of a ready cluster",
        when::releases_unreachable,
    ),
    line("HostedClusterDegraded", "False/AsExpected", "Ready", "the control plane is whole", Bench::ready),
    line(
        "HostedClusterDegraded",
        "True/UnavailableReplicas",
        "Ready",
        "the control plane has lost replicas, and serves all the same",
        when::degraded,
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
        when::without_dpu_cluster,
    ),
    line(
        "NodePoolReady",
        "Unknown/ReleasePending",
        "Ready",
        "the NodePool is ahead of a HostedCluster that is being upgraded",
        when::node_pool_ahead,
    ),
    line(
        "NodePoolReady",
        "Unknown/ReleasePending",
        "Ready",
        "HyperShift can't reach the registry of a ready cluster",
        when::releases_unreachable,
    ),
    line(
        "NodePoolReady",
        "False/NodePoolCreationFailed",
        "Failed",
        "a NodePool of another client has the name",
        when::foreign_node_pool,
    ),
    line(
        "NodePoolReady",
        "False/NodesUnhealthy",
        "Failed",
        "the NodePool reports that something is invalid",
        when::node_pool_invalid,
    ),
    line(
        "ServiceExposureReady",
        "True/LoadBalancerReady",
        "Ready",
        "the load balancer has the address",
        Bench::ready,
    ),
    line("ServiceExposureReady", "True/NodePortReady", "Ready", "the node port is known", when::node_ports),
    line(
        "ServiceExposureReady",
        "False/NodePortUnreachable",
        "Failed",
        "no Node has the address of the node port",
        when::node_lost,
    ),
    line(
        "ServiceExposureReady",
        "False/LoadBalancerPending",
        "Provisioning",
        "MetalLB does not give the address",
        when::load_balancer_pending,
    ),
    line(
        "ServiceExposureReady",
        "False/AddressChangePending",
        "Ready",
        "MetalLB does not give a ready cluster its new address",
        when::new_address_pending,
    ),
    line(
        "ServiceExposureReady",
        "False/VIPConflict",
        "Failed",
        "another Service has the address",
        when::address_taken,
    ),
    line(
        "ServiceExposureReady",
        "False/VIPConflict",
        "Failed",
        "an older bridge has the address",
        when::address_of_a_rival,
    ),
    line(
        "ServiceExposureReady",
        "False/ServiceCreationFailed",
        "Provisioning",
        "the Service may not be annotated",
        when::annotation_forbidden,
    ),
    line(
        "ServiceExposureReady",
        "False/ServiceCreationFailed",
        "Failed",
        "the management cluster has no Routes",
        when::without_routes,
    ),
    line(
        "ServiceExposureReady",
        "Unknown/WaitingForHostedCluster",
        "Pending",
        "there is no HostedCluster",
        when::without_dpu_cluster,
    ),
    line("KubeconfigInjected", "True/Injected", "Ready", "the DPUCluster uses the kubeconfig", Bench::ready),
    line(
        "KubeconfigInjected",
        "False/KubeconfigPending",
        "Pending",
        "HyperShift has made none",
        when::without_dpu_cluster,
    ),
    line(
        "KubeconfigInjected",
        "False/InjectionFailed",
        "Provisioning",
        "the DPUCluster may not be changed",
        when::injection_forbidden,
    ),
    line(
        "KubeconfigInjected",
        "False/DPUClusterHasItsOwn",
        "Ready",
        "the DPUCluster is Ready with a kubeconfig of its own",
        when::own_kubeconfig_ready,
    ),
    line("Provisioned", "True/Completed", "Ready", "the cluster has been ready", Bench::ready),
    line(
        "Provisioned",
        "False/InProgress",
        "Pending",
        "the cluster is not there yet",
        when::without_dpu_cluster,
    ),
    line(
        "Provisioned",
        "False/TimedOut",
        "Failed",
        "the cluster is not ready after an hour",
        when::timed_out,
    ),
    line("Ready", "True/ClusterReady", "Ready", "everything works", Bench::ready),
    line(
        "Ready",
        "Unknown/WatchFailed",
        "Ready",
        "HostedClusters may not be watched any more",
        when::hosted_clusters_unwatchable,
    ),
    line("Ready", "False/ValidationFailed", "Pending", "there is no DPUCluster", when::without_dpu_cluster),
    line("Ready", "False/ValidationFailed", "Failed", "HyperShift can't go on with the image", when::blocked),
    line(
        "Ready",
        "False/WaitingForControlPlane",
        "Failed",
        "the control plane of a ready cluster goes down",
        when::control_plane_down,
    ),
    line(
        "Ready",
        "False/WaitingForControlPlane",
        "Ready",
        "the control plane has lost replicas, and serves all the same",
        when::degraded,
    ),
    line(
        "Ready",
        "False/WaitingForInfrastructure",
        "Failed",
        "the NodePool reports that something is invalid",
        when::node_pool_invalid,
    ),
    line(
        "Ready",
        "False/APIServerUnreachable",
        "Failed",
        "the load balancer can't be reached",
        when::unreachable,
    ),
];

#[test]
fn every_reason_has_a_scenario() {
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for Line { condition, reason, scenario, phase, run } in TABLE {
        let mut bench = run();
        let (found, message) = bench.condition("prod", condition);
        let found = (found, bench.phase("prod"));
        bench.transitions();
        let odd: Vec<_> = bench.edges.iter().filter(|edge| !phases::is_edge(edge)).collect();
        if !odd.is_empty() {
            wrong.push(format!("{condition}: {scenario}: phases went along {odd:?}"));
        }
        if (found.0.as_str(), found.1.as_str()) != (*reason, *phase) {
            wrong.push(format!("{condition}: {scenario}: {found:?}, not {reason}, {phase}: {message}"));
        }
        writeln!(table, "{condition:<24} {reason:<33} {phase:<12}  {scenario}\n    {message}")
            .expect("a string takes it");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    insta::assert_snapshot!("reasons", table);
}

/// Returns the names of all reasons of the Bridge, from the source file that defines them.
fn reasons() -> Vec<&'static str> {
    let names = include_str!("../../../core/bridge/src/names.rs");
    let (_, reasons) = names.split_once("pub mod reason").expect("there is a module of reasons");
    let values = reasons.lines().filter_map(|line| line.split_once("&str = \"")?.1.strip_suffix("\";"));
    values.collect()
}

#[test]
fn no_reason_is_left_out() {
    let covered = TABLE.iter().filter_map(|line| line.reason.split_once('/')).map(|(_, reason)| reason);
    let covered: BTreeSet<&str> = covered.chain(HYPERSHIFTS.iter().copied()).collect();
    let missing: Vec<&str> = reasons().into_iter().filter(|reason| !covered.contains(reason)).collect();
    assert!(reasons().len() > 30 && missing.is_empty(), "{missing:?}");
}

#[test]
fn pools_in_more_than_one_form_hold_the_address() {
    for range in ["192.0.2.0/24", "192.0.2.1 - 192.0.2.20", "192.0.2.10/32"] {
        let mut bench = when::with(|bench| {
            bench.delete("IPAddressPool", "metallb-system", "vips");
            bench.create(&pool("other", range));
        });
        assert_eq!(bench.phase("prod"), "Ready", "{range}");
    }
}
