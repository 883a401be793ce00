//! The lifecycle of a bridge, as a table of its requests and its status.

use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_external as external;
use lockstep_external::hypershift;
use lockstep_sim::cluster::FaultVerdict;
use serde_json::{Value, json};

use super::bench::{Bench, RESYNC};
use super::objects::{
    DPF, NAMESPACE, PASSWORD, RELEASE, SSH_KEY, UPGRADE, bridge, docker_config, dpu_cluster, pool,
    pull_secret, secret, ssh_secret,
};
use super::scenarios;

#[test]
fn a_bridge_comes_and_goes() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.settle();
    insta::assert_snapshot!("comes", bench.transitions());
    insta::assert_snapshot!("events", bench.events());
    let cluster = bench.get("HostedCluster", NAMESPACE, "prod");
    let mut spec = cluster["spec"].clone();
    // HyperShift sets these fields.
    for field in ["infraID", "clusterID"] {
        assert!(spec.as_object_mut().and_then(|spec| spec.remove(field)).is_some(), "{field}");
    }
    insta::assert_json_snapshot!("hosted_cluster", spec);
    insta::assert_json_snapshot!("node_pool", bench.get("NodePool", NAMESPACE, "prod")["spec"]);
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    insta::assert_snapshot!("goes", bench.transitions());
    for (kind, namespace, name) in [
        ("DPFHCPBridge", NAMESPACE, "prod"),
        ("HostedCluster", NAMESPACE, "prod"),
        ("NodePool", NAMESPACE, "prod"),
        ("Secret", NAMESPACE, "prod-pull-secret"),
        ("Secret", NAMESPACE, "prod-ssh-key"),
        ("Secret", DPF, "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig"),
    ] {
        assert_eq!(bench.get(kind, namespace, name), Value::Null, "{kind} {namespace}/{name}");
    }
    assert_eq!(bench.get("DPUCluster", DPF, "dpus")["spec"]["kubeconfig"], Value::Null);
    assert_eq!(bench.get("Secret", NAMESPACE, "pull")["kind"], "Secret");
}

#[test]
fn at_rest_nothing_is_asked_for() {
    let mut bench = Bench::ready();
    bench.cluster.advance(RESYNC * 2);
    assert_eq!(bench.transitions(), "");
}

#[test]
fn a_restart_reads_and_writes_nothing() {
    let mut bench = Bench::ready();
    bench.cluster.crash(bench.operator, Some(Duration::from_secs(1)));
    bench.settle();
    insta::assert_snapshot!("restart", bench.transitions());
}

#[test]
fn a_new_image_upgrades_and_stays_ready() {
    let mut bench = Bench::ready();
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.settle();
    insta::assert_snapshot!("upgrade", bench.transitions());
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod")["spec"]["release"]["image"], UPGRADE);
    assert_eq!(bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"], UPGRADE);
    assert_eq!(bench.phase("prod"), "Ready");
}

/// HyperShift refuses a NodePool with a newer release than its HostedCluster. A version is complete only when the nodes are
/// ready.
#[test]
fn a_cluster_stays_ready_while_it_is_upgraded() {
    for (version, title) in [("4.19.1", "patch"), ("4.20.1", "minor")] {
        let mut bench = Bench::ready();
        let image = format!("registry.example.com/ocp-release:{version}-multi");
        let known = bench.registry().images[UPGRADE].clone();
        bench.registry().images.insert(image.clone(), known);
        let release =
            |bench: &mut Bench| bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"].clone();
        scenarios::annotate(&mut bench, hypershift::NODES, &json!(hypershift::NO_NODES));
        bench.change("prod", &json!({ "ocpReleaseImage": image }));
        bench.settle();
        assert_eq!(release(&mut bench), RELEASE, "{title}");
        assert_eq!(bench.phase("prod"), "Ready", "{title}: {:#}", bench.bridge("prod")["status"]);
        let (applied, message) = bench.condition("prod", "SpecApplied");
        let expected = format!(
            "the HostedCluster is upgraded to {image} (version {version} is Partial); the NodePool keeps {RELEASE} until that \
             is complete"
        );
        assert_eq!((applied.as_str(), message), ("Unknown/UpgradeInProgress", expected), "{title}");

        scenarios::annotate(&mut bench, hypershift::NODES, &Value::Null);
        bench.settle();
        assert_eq!(release(&mut bench), *image, "{title}");
        assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied", "{title}");
        bench.transitions();
        let fails = ("Ready".to_owned(), "Failed".to_owned());
        assert!(!bench.edges.contains(&fails), "{title}: {:?}", bench.edges);
    }
}

/// Neither a digest nor a tag with the same numbers shows that the newest version in a history is not the new one.
#[test]
fn an_upgrade_is_not_complete_before_it_has_begun() {
    let digest = |digit: &str| format!("registry.example.com/ocp-release@sha256:{}", digit.repeat(64));
    let tag = |version: &str| format!("registry.example.com/ocp-release:{version}-multi");
    for (from, to) in [
        (digest("a"), digest("b")),
        (tag("4.20.0-rc.1"), tag("4.20.0-rc.2")),
        (tag("4.20.0-rc.2"), tag("4.20.0")),
        (RELEASE.to_owned(), digest("a")),
    ] {
        let mut bench = Bench::ready();
        for image in [&from, &to] {
            let known = bench.registry().images[RELEASE].clone();
            bench.registry().images.insert(image.clone(), known);
        }
        let release =
            |bench: &mut Bench| bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"].clone();
        bench.change("prod", &json!({ "ocpReleaseImage": from }));
        bench.settle();
        assert_eq!(release(&mut bench), *from, "{to}");
        scenarios::annotate(&mut bench, hypershift::NODES, &json!(hypershift::NO_NODES));
        bench.change("prod", &json!({ "ocpReleaseImage": to }));
        bench.settle();
        assert_eq!(release(&mut bench), *from, "{to}");
        assert_eq!(bench.condition("prod", "SpecApplied").0, "Unknown/UpgradeInProgress", "{to}");
        scenarios::annotate(&mut bench, hypershift::NODES, &Value::Null);
        bench.settle();
        assert_eq!(release(&mut bench), *to);
        assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied", "{to}");
    }
}

/// HyperShift upgrades nothing then, so its histories stay as they are.
#[test]
fn another_name_of_the_same_release_is_no_upgrade() {
    let mut bench = Bench::ready();
    let cluster = bench.get("HostedCluster", NAMESPACE, "prod");
    let digest = &cluster["status"]["version"]["history"][0]["image"];
    let known = bench.registry().images[RELEASE].clone();
    bench.registry().images.insert(digest.as_str().expect("an image").to_owned(), known);
    for image in [digest, &json!(RELEASE)] {
        bench.change("prod", &json!({ "ocpReleaseImage": image }));
        bench.settle();
        assert_eq!(bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"], *image);
        assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied", "{image}");
        let history = &bench.get("HostedCluster", NAMESPACE, "prod")["status"]["version"]["history"];
        assert_eq!(history.as_array().map(Vec::len), Some(1), "{image}");
    }
}

/// A change that HyperShift can't make does not hide an upgrade, or that HyperShift can't continue it.
#[test]
fn an_upgrade_is_reported_beside_a_change_that_is_ignored() {
    let immutable = json!({ "controlPlaneAvailabilityPolicy": "SingleReplica" });
    let ignored = "HyperShift can't change controlPlaneAvailabilityPolicy";
    let mut bench = scenarios::upgrade_under_way();
    bench.change("prod", &immutable);
    bench.settle();
    let (applied, message) = bench.condition("prod", "SpecApplied");
    assert_eq!(applied, "False/ImmutableFieldChanged");
    let progress = format!("the HostedCluster is upgraded to {UPGRADE} (version 4.20.1 is Partial)");
    assert!(message.contains(ignored) && message.contains(&progress), "{message}");

    let mut bench = scenarios::immutable_changed();
    let bad = "registry.example.com/ocp-release:4.20.7-bad";
    let image = bench.registry().images[UPGRADE].clone();
    bench.registry().images.insert(bad.to_owned(), image);
    bench.change("prod", &json!({ "ocpReleaseImage": bad }));
    bench.settle();
    let (applied, message) = bench.condition("prod", "SpecApplied");
    assert_eq!(applied, "False/UpdateRefused");
    let refused = "HyperShift can't upgrade the HostedCluster: Blocked: ";
    assert!(message.starts_with(refused) && message.contains(ignored), "{message}");
    assert!(bench.events().contains(&format!("Warning UpdateRefused: {refused}")), "{}", bench.events());
}

/// Before the first node joins, no version of the whole cluster is complete.
#[test]
fn a_cluster_without_nodes_is_upgraded_with_its_control_plane() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_secs(2));
    scenarios::annotate(&mut bench, hypershift::NODES, &json!(hypershift::NO_NODES));
    bench.settle();
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.settle();
    let pool = bench.get("NodePool", NAMESPACE, "prod");
    assert_eq!(pool["spec"]["release"]["image"], UPGRADE);
    let objection = pool["status"]["conditions"].as_array().expect("conditions").iter();
    let mut objection = objection.filter(|condition| condition["type"] == "SupportedVersionSkew");
    assert_eq!(objection.next().expect("it is reported")["reason"], "UnsupportedSkew");
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    bench.transitions();
    assert!(!bench.edges.contains(&("Ready".to_owned(), "Failed".to_owned())), "{:?}", bench.edges);
}

/// A control plane serves requests even if HyperShift does not reconcile it, or can't reach its registry.
#[test]
fn a_cluster_that_serves_stays_ready_while_hypershift_is_blocked() {
    for begin in [scenarios::paused, scenarios::releases_unreachable, scenarios::upgrade_blocked] {
        let mut bench = begin();
        assert_eq!(bench.condition("prod", "HostedClusterProgressing").0, "False/Blocked");
        let (ready, message) = bench.condition("prod", "Ready");
        assert_eq!(ready, "True/ClusterReady");
        assert!(message.contains(", but HyperShift can't change it now: Blocked: "), "{message}");
        scenarios::pause(&mut bench, &Value::Null);
        scenarios::annotate(&mut bench, hypershift::RELEASES, &Value::Null);
        bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
        bench.settle();
        assert_eq!(bench.get("NodePool", NAMESPACE, "prod")["spec"]["release"]["image"], UPGRADE);
        assert_eq!(bench.condition("prod", "NodePoolReady").0, "True/NodesReady");
        bench.transitions();
        assert!(!bench.edges.contains(&("Ready".to_owned(), "Failed".to_owned())), "{:?}", bench.edges);
    }
}

#[test]
fn rotated_secrets_are_handed_on() {
    let mut bench = Bench::ready();
    let pull = secret("pull", ".dockerconfigjson", &docker_config("another-password"));
    bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": pull["data"] }));
    let ssh = secret("ssh", "ssh-publickey", &format!("# rotated\n{SSH_KEY}\n"));
    bench.merge("Secret", NAMESPACE, "ssh", &json!({ "data": ssh["data"] }));
    bench.settle();
    insta::assert_snapshot!("rotation", bench.transitions());
    let copy = bench.get("Secret", NAMESPACE, "prod-pull-secret");
    assert_eq!(copy["data"][".dockerconfigjson"], pull["data"][".dockerconfigjson"]);
    let copy = bench.get("Secret", NAMESPACE, "prod-ssh-key");
    assert_eq!(copy["data"]["id_rsa.pub"], ssh["data"]["ssh-publickey"]);
}

#[test]
fn another_secret_by_reference_is_handed_on() {
    let mut bench = Bench::ready();
    bench.create(&secret("pull-2", ".dockerconfigjson", &docker_config("another-password")));
    bench.change("prod", &json!({ "pullSecretRef": { "name": "pull-2" } }));
    bench.settle();
    let (source, copy) =
        (bench.get("Secret", NAMESPACE, "pull-2"), bench.get("Secret", NAMESPACE, "prod-pull-secret"));
    assert_eq!(copy["data"], source["data"]);
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn a_copy_changed_by_another_client_is_restored() {
    let mut bench = Bench::ready();
    for (namespace, name, key) in [
        (NAMESPACE, "prod-pull-secret", ".dockerconfigjson"),
        (NAMESPACE, "prod-ssh-key", "id_rsa.pub"),
        (DPF, "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig", "super-admin.conf"),
        // The key that DPF 24.10 reads.
        (DPF, "dpf-hcp-bridge-system-prod-dpucluster-kubeconfig", "admin.conf"),
    ] {
        let before = bench.get("Secret", namespace, name)["data"].clone();
        bench.merge("Secret", namespace, name, &json!({ "data": { key: "e30=" } }));
        bench.settle();
        assert_eq!(bench.get("Secret", namespace, name)["data"], before, "{name} changed");
        bench.delete("Secret", namespace, name);
        bench.settle();
        assert_eq!(bench.get("Secret", namespace, name)["data"], before, "{name} deleted");
    }
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn a_dpucluster_that_is_lost_and_comes_back() {
    let mut bench = Bench::ready();
    bench.delete("DPUCluster", DPF, "dpus");
    bench.settle();
    insta::assert_snapshot!("dpucluster_lost", bench.transitions());
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod")["kind"], "HostedCluster");
    assert_eq!(bench.phase("prod"), "Failed");
    bench.create(&dpu_cluster("dpus"));
    bench.settle();
    insta::assert_snapshot!("dpucluster_back", bench.transitions());
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn a_hosted_cluster_deleted_by_another_client_is_recreated() {
    let mut bench = Bench::ready();
    bench.delete("HostedCluster", NAMESPACE, "prod");
    bench.settle();
    insta::assert_snapshot!("recreated", bench.transitions());
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn node_ports_need_the_address_of_a_node() {
    let mut bench = Bench::new();
    let mut wanted = bridge("dev");
    wanted["spec"]["exposeThroughLoadBalancer"] = json!(false);
    wanted["spec"]["metalLBVirtualIP"] = json!("");
    bench.create(&wanted);
    bench.settle();
    assert_eq!(bench.phase("dev"), "Pending");
    bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } }));
    let addresses = json!([{ "type": "InternalIP", "address": "198.51.100.7" }]);
    bench.merge("Node", "", "worker-1/status", &json!({ "status": { "addresses": addresses } }));
    bench.settle();
    assert_eq!(bench.phase("dev"), "Ready", "{:#}", bench.bridge("dev")["status"]);
    assert_eq!(bench.condition("dev", "ServiceExposureReady").0, "True/NodePortReady");
    let endpoint = bench.bridge("dev")["status"]["apiEndpoint"].as_str().unwrap_or_default().to_owned();
    assert!(endpoint.starts_with("https://198.51.100.7:3"), "{endpoint}");
}

#[test]
fn immutable_hypershift_fields_are_reported_and_not_changed() {
    let mut bench = Bench::ready();
    let before = bench.get("HostedCluster", NAMESPACE, "prod")["spec"].clone();
    bench.change(
        "prod",
        &json!({
            "controlPlaneAvailabilityPolicy": "SingleReplica",
            "exposeThroughLoadBalancer": false,
            "metalLBVirtualIP": "",
            "etcdStorageClass": "another",
            "networking": { "clusterNetwork": "10.128.0.0/14" },
            "capabilities": { "disabled": ["Console"] },
        }),
    );
    bench.settle();
    assert_eq!(bench.get("HostedCluster", NAMESPACE, "prod")["spec"], before);
    let (applied, message) = bench.condition("prod", "SpecApplied");
    assert_eq!(applied, "False/ImmutableFieldChanged");
    insta::assert_snapshot!("immutable", message);
    assert_eq!(bench.phase("prod"), "Ready");
    insta::assert_snapshot!("immutable_transitions", bench.transitions());
}

#[test]
fn networks_and_capabilities_are_those_of_the_hosted_cluster() {
    let mut bench = Bench::new();
    let mut prod = bridge("prod");
    prod["spec"]["networking"] =
        json!({ "clusterNetwork": "10.128.0.0/14", "serviceNetwork": "172.30.0.0/16" });
    prod["spec"]["capabilities"] = json!({ "enabled": ["baremetal"], "disabled": ["Console", "Ingress"] });
    bench.create(&prod);
    bench.settle();
    let created = bench.get("HostedCluster", NAMESPACE, "prod")["spec"].clone();
    assert_eq!(created["networking"]["clusterNetwork"], json!([{ "cidr": "10.128.0.0/14" }]));
    assert_eq!(created["networking"]["serviceNetwork"], json!([{ "cidr": "172.30.0.0/16" }]));
    assert_eq!(created["capabilities"], prod["spec"]["capabilities"]);
    assert_eq!(bench.condition("prod", "SpecApplied").0, "True/Applied");

    // HyperShift can't change them, and refuses a write that leaves them out.
    bench.change("prod", &json!({ "networking": null, "capabilities": null, "clusterType": "dpf-dev" }));
    bench.settle();
    let changed = bench.get("HostedCluster", NAMESPACE, "prod");
    assert_eq!(changed["spec"], created);
    assert_eq!(changed["metadata"]["labels"]["dpf.hcp.bridge.com/cluster-type"], "dpf-dev");
    let (applied, message) = bench.condition("prod", "SpecApplied");
    assert_eq!(applied, "False/ImmutableFieldChanged");
    assert!(message.contains("can't change networking, capabilities:"), "{message}");
}

#[test]
fn another_address_moves_the_load_balancer() {
    let mut bench = Bench::ready();
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.settle();
    insta::assert_snapshot!("another_address", bench.transitions());
    assert_eq!(bench.bridge("prod")["status"]["apiEndpoint"], "https://192.0.2.20:6443");
}

/// Nothing has to be installed before the Bridge.
#[test]
fn a_kind_that_comes_later_is_picked_up() {
    for kind in ["DPUCluster", "HostedCluster", "NodePool", "IPAddressPool"] {
        let mut bench = Bench::without(&[kind]);
        bench.provide(kind);
        bench.create(&bridge("prod"));
        bench.cluster.advance(Duration::from_mins(3));
        assert_eq!(bench.phase("prod"), "Pending", "{kind}");
        let definitions = external::definitions(&external::BRIDGE);
        for definition in definitions.iter().filter(|it| it["spec"]["names"]["kind"] == kind) {
            bench.create(definition);
        }
        bench.cluster.advance(Duration::from_mins(1));
        match kind {
            "DPUCluster" => bench.create(&dpu_cluster("dpus")),
            "IPAddressPool" => bench.create(&pool("vips", "192.0.2.0/24")),
            _ => {}
        }
        bench.cluster.advance(Duration::from_mins(10));
        assert_eq!(bench.phase("prod"), "Ready", "{kind}: {:#}", bench.bridge("prod")["status"]);
    }
}

#[test]
fn no_secret_value_is_exposed() {
    let mut bench = Bench::new();
    bench.create(&bridge("prod"));
    bench.settle();
    bench.change("prod", &json!({ "ocpReleaseImage": UPGRADE }));
    bench.merge("Secret", NAMESPACE, "pull", &json!({ "data": { ".dockerconfigjson": "e30=" } }));
    bench.settle();
    bench.delete("DPFHCPBridge", NAMESPACE, "prod");
    bench.settle();
    let output = format!("{}\n{}\n{:?}", bench.transitions(), bench.events(), bench.notes);
    assert!(output.contains("ssh") && !output.contains(PASSWORD), "{output}");
    for (secret, key) in [(pull_secret(), ".dockerconfigjson"), (ssh_secret(), "ssh-publickey")] {
        let encoded = secret["data"][key].as_str().expect("a value");
        assert!(!output.contains(encoded), "{key}: {output}");
    }
}

#[test]
fn a_hosted_cluster_deleted_while_the_bridge_was_down_is_recreated() {
    let mut bench = Bench::ready();
    bench.cluster.crash(bench.operator, Some(Duration::from_mins(5)));
    bench.delete("HostedCluster", NAMESPACE, "prod");
    bench.cluster.advance(Duration::from_mins(10));
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    insta::assert_snapshot!("recreated_after_a_restart", bench.transitions());
}

#[test]
fn an_address_that_cannot_be_given_leaves_the_cluster_its_own() {
    let mut bench = Bench::ready();
    bench.change("prod", &json!({ "metalLBVirtualIP": "198.51.100.1" }));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Failed");
    let service = bench.get("Service", "dpf-hcp-bridge-system-prod", "kube-apiserver");
    assert_eq!(service["metadata"]["annotations"]["metallb.io/loadBalancerIPs"], "192.0.2.10");
    assert_eq!(bench.bridge("prod")["status"]["apiEndpoint"], "https://192.0.2.10:6443");
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.10" }));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
}

#[test]
fn a_registry_that_wants_to_be_left_alone_holds_up_nothing_else() {
    let mut bench = Bench::new();
    let retry_after = Some(Duration::from_hours(1));
    bench.cluster.interfere(move |_, action| match action.name() {
        "find_image" => {
            FaultVerdict::Failed(Failure { retry_after, ..Failure::new(ErrorKind::Throttled, "busy") })
        }
        _ => FaultVerdict::Served,
    });
    bench.create(&bridge("prod"));
    bench.cluster.advance(Duration::from_mins(3));
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    let asked = bench.cluster.carried().filter(|(_, carried)| carried.action.name() == "find_image").count();
    assert_eq!(asked, 1);
}

#[test]
fn an_address_that_is_let_go_goes_to_who_waits_for_it() {
    let mut bench = Bench::ready();
    bench.create(&dpu_cluster("more"));
    let mut younger = bridge("stage");
    younger["spec"]["dpuClusterRef"]["name"] = json!("more");
    bench.create(&younger);
    bench.settle();
    assert_eq!(bench.condition("stage", "ServiceExposureReady").0, "False/VIPConflict");
    bench.change("prod", &json!({ "metalLBVirtualIP": "192.0.2.20" }));
    bench.settle();
    assert_eq!((bench.phase("prod").as_str(), bench.phase("stage").as_str()), ("Ready", "Ready"));
}

#[test]
fn node_ports_stay_whatever_address_is_asked_for() {
    let mut bench = Bench::new();
    bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-1" } }));
    bench.create(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "worker-2" } }));
    let addresses = json!([{ "type": "InternalIP", "address": "198.51.100.7" }]);
    bench.merge("Node", "", "worker-2/status", &json!({ "status": { "addresses": addresses } }));
    let mut wanted = bridge("prod");
    wanted["spec"]["exposeThroughLoadBalancer"] = json!(false);
    wanted["spec"]["metalLBVirtualIP"] = json!("");
    bench.create(&wanted);
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready", "{:#}", bench.bridge("prod")["status"]);
    bench.change("prod", &json!({ "exposeThroughLoadBalancer": true, "metalLBVirtualIP": "198.51.100.1" }));
    bench.settle();
    assert_eq!(bench.phase("prod"), "Ready");
    assert_eq!(bench.condition("prod", "SpecApplied").0, "False/ImmutableFieldChanged");
}
