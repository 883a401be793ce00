//! The desired state: every bridge that can have a hosted cluster has one that matches its spec, and deleted bridges leave no
//! objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_apiserver::server::ApiServer;
use lockstep_bridge::model::encryption_key;
use lockstep_bridge::names::{self, BRIDGE_NAME, BRIDGE_NAMESPACE, condition};
use lockstep_crds::bridge::GENERATED;
use lockstep_engine::object::{Kind, Name, controller_uid, is_deleting, label, metadata};
use lockstep_external::metallb;
use lockstep_sim::conditions;
use serde_json::{Value, json};

use super::reported;
use super::setup::{DPF, DPU_CLUSTERS, NAMESPACE, content};

pub(super) fn differences(server: &ApiServer) -> Vec<String> {
    let bridges = server.objects(&names::bridge());
    let mut differences = Vec::new();
    for bridge in &bridges {
        let name = metadata(bridge, "name");
        let mut differ = |what: String| differences.push(format!("bridge {name}: {what}"));
        if is_deleting(bridge) {
            differ(format!("it is still there: {}", bridge["status"]["message"]));
            continue;
        }
        if bridge["status"]["observedGeneration"] != bridge["metadata"]["generation"] {
            differ("its status is of another generation".to_owned());
            continue;
        }
        reported::message(bridge, &mut differ);
        if let Some(rival) = rival(server, bridge, &bridges) {
            // Of two that were created in the same second, both may have begun to use an address.
            let began = |it: &Value| metadata(it, "creationTimestamp").to_owned();
            let is_warned = conditions::is(bridge, condition::PREREQUISITES_MET, "False");
            let is_late = began(rival) != began(bridge);
            let has_lost = shares(rival, bridge, "dpuClusterRef") && is_connected(server, rival);
            if bridge["status"]["phase"] == "Ready" && (is_late || !is_warned || has_lost) {
                let rival = metadata(rival, "name");
                differ(format!("it is Ready, and {rival} has its DPUCluster or its address"));
            }
        } else if !has_dpu_cluster(server, bridge) {
            // A user deleted the cluster, and its deletion took a while.
            if !matches!(bridge["status"]["phase"].as_str(), Some("Pending" | "Failed")) {
                differ(format!("it is {}, and has no DPUCluster", bridge["status"]["phase"]));
            }
            reported::without_dpu_cluster(bridge, &mut differ);
        } else {
            lacks(server, bridge, &mut differ);
        }
    }
    leftovers(server, &bridges, &mut differences);
    differences
}

/// Returns the Service of a bridge's API server.
fn api_service(server: &ApiServer, bridge: &Value) -> Option<Arc<Value>> {
    let namespace = format!("{NAMESPACE}-{}", metadata(bridge, "name"));
    find(server, &names::service(), &namespace, "kube-apiserver")
}

/// Returns whether the Service of a bridge has the address that the bridge asks for.
fn has_address(server: &ApiServer, bridge: &Value) -> bool {
    api_service(server, bridge).is_some_and(|service| {
        service["status"]["loadBalancer"]["ingress"][0]["ip"] == bridge["spec"]["metalLBVirtualIP"]
    })
}

/// Returns where clients reach the API server of a bridge: at its address, or at the node port of the Node that HyperShift got.
fn api_server(server: &ApiServer, bridge: &Value) -> Option<String> {
    if bridge["spec"]["exposeThroughLoadBalancer"] == true {
        return Some(format!("{}:6443", bridge["spec"]["metalLBVirtualIP"].as_str()?));
    }
    let name = metadata(bridge, "name");
    let cluster = find(server, &names::hosted_cluster(), NAMESPACE, name)?;
    let strategy = &cluster["spec"]["services"][0]["servicePublishingStrategy"];
    let service = api_service(server, bridge)?;
    Some(format!("{}:{}", strategy["nodePort"]["address"].as_str()?, service["spec"]["ports"][0]["nodePort"]))
}

/// Returns the address of a bridge's node port, if no Node has it any more.
fn lost_node(server: &ApiServer, bridge: &Value) -> Option<String> {
    let cluster = find(server, &names::hosted_cluster(), NAMESPACE, metadata(bridge, "name"))?;
    let strategy = &cluster["spec"]["services"][0]["servicePublishingStrategy"];
    let address = strategy["nodePort"]["address"].as_str()?;
    let nodes = server.objects(&names::node());
    let mut addresses = nodes.iter().filter_map(|node| node["status"]["addresses"].as_array()).flatten();
    addresses.all(|it| it["address"] != address).then(|| address.to_owned())
}

/// Returns whether the DPUCluster of a bridge has its kubeconfig.
fn is_connected(server: &ApiServer, bridge: &Value) -> bool {
    let name = bridge["spec"]["dpuClusterRef"]["name"].as_str().unwrap_or_default();
    let [namespace, own] = ["namespace", "name"].map(|field| metadata(bridge, field));
    find(server, &names::dpu_cluster(), DPF, name)
        .is_some_and(|it| it["spec"]["kubeconfig"] == format!("{namespace}-{own}-dpucluster-kubeconfig"))
}

/// Returns another bridge that has the DPUCluster or the address of this one. That is the one with the kubeconfig that the DPUCluster
/// uses, or with the address at its Service; before that it is the older one.
fn rival<'a>(server: &ApiServer, bridge: &Value, bridges: &'a [Arc<Value>]) -> Option<&'a Value> {
    let age = |bridge: &Value| {
        (metadata(bridge, "creationTimestamp").to_owned(), metadata(bridge, "name").to_owned())
    };
    let mut rivals =
        bridges.iter().filter(|other| metadata(other, "name") != metadata(bridge, "name")).filter(|other| {
            let is_older = age(other) < age(bridge);
            let has_address = |it: &Value| has_address(server, it);
            (shares(other, bridge, "dpuClusterRef")
                && (is_connected(server, other) || (is_older && !is_connected(server, bridge))))
                || (shares(other, bridge, "metalLBVirtualIP")
                    && (has_address(other) || (is_older && !has_address(bridge))))
        });
    rivals.next().map(|other| &**other)
}

/// Returns whether two bridges have the same value in a field of the spec.
fn shares(bridge: &Value, other: &Value, field: &str) -> bool {
    other["spec"][field] == bridge["spec"][field] && bridge["spec"][field] != ""
}

fn has_dpu_cluster(server: &ApiServer, bridge: &Value) -> bool {
    let name = bridge["spec"]["dpuClusterRef"]["name"].as_str().unwrap_or_default();
    find(server, &names::dpu_cluster(), DPF, name).is_some()
}

/// The conditions that a bridge mirrors from HyperShift.
const MIRRORED: [(&str, &str); 3] = [
    ("Available", condition::HOSTED_CLUSTER_AVAILABLE),
    ("Progressing", condition::HOSTED_CLUSTER_PROGRESSING),
    ("Degraded", condition::HOSTED_CLUSTER_DEGRADED),
];

/// Returns the status, reason and message of a condition.
fn describe<'a>(object: &'a Value, name: &str) -> Option<[&'a Value; 3]> {
    let found = conditions::find(object, name)?;
    Some(["status", "reason", "message"].map(|field| &found[field]))
}

/// Reports what a bridge that should be Ready is missing.
fn lacks(server: &ApiServer, bridge: &Value, differ: &mut dyn FnMut(String)) {
    let (name, spec) = (metadata(bridge, "name"), &bridge["spec"]);
    if let Some(address) = lost_node(server, bridge) {
        reported::without_node(bridge, &address, differ);
        return;
    }
    if bridge["status"]["phase"] != "Ready" {
        differ(format!("it is {}: {}", bridge["status"]["phase"], bridge["status"]["message"]));
        return;
    }
    if let Some(cluster) = find(server, &names::hosted_cluster(), NAMESPACE, name) {
        reported::when_ready(bridge, &cluster, differ);
        for (theirs, ours) in MIRRORED {
            if describe(&cluster, theirs) != describe(bridge, ours) {
                differ(format!("its {ours} is not what HyperShift says of {theirs}"));
            }
        }
        let [degraded, ready] = [describe(&cluster, "Degraded"), describe(bridge, condition::READY)];
        let is_degraded = degraded.is_some_and(|[status, ..]| status == "True");
        if ready.is_none_or(|[status, ..]| (status == "False") != is_degraded) {
            differ(format!("its Ready is {ready:?}, and HyperShift says of Degraded {degraded:?}"));
        }
    }
    for kind in [names::hosted_cluster(), names::node_pool()] {
        match find(server, &kind, NAMESPACE, name) {
            None => differ(format!("it has no {}", kind.kind)),
            Some(object) => {
                if object["spec"]["release"]["image"] != spec["ocpReleaseImage"] {
                    differ(format!("its {} has the image {}", kind.kind, object["spec"]["release"]["image"]));
                }
                if label(&object, names::CLUSTER_TYPE) != spec["clusterType"].as_str() {
                    differ(format!("its {} does not carry its type", kind.kind));
                }
            }
        }
    }
    let is_encrypted = spec["etcdEncryption"] == GENERATED;
    let cluster = find(server, &names::hosted_cluster(), NAMESPACE, name);
    if cluster.is_some_and(|cluster| cluster["spec"]["secretEncryption"].is_object() != is_encrypted) {
        differ("the encryption of etcd is not as its spec says".to_owned());
    }
    let key = encryption_key::secret(&Name::new(NAMESPACE, name));
    let key = find(server, &names::secret(), &key.namespace, &key.name);
    if is_encrypted && key.as_deref().and_then(|key| content(key, encryption_key::KEY)).is_none() {
        differ("it has no key for etcd".to_owned());
    }
    if spec["metalLBPool"].is_object() {
        let own = names::control_plane_namespace(&Name::new(NAMESPACE, name));
        let address = format!("{}/32", spec["metalLBVirtualIP"].as_str().unwrap_or_default());
        for (kind, field, wanted) in
            [(names::pool(), "addresses", &address), (names::advertisement(), "ipAddressPools", &own)]
        {
            let found = find(server, &kind, metallb::NAMESPACE, &own);
            if found.is_none_or(|found| found["spec"][field] != json!([wanted])) {
                differ(format!("{} {own} does not have {wanted}", kind.kind));
            }
        }
    }
    let kubeconfig = format!("{NAMESPACE}-{name}-dpucluster-kubeconfig");
    let admin = format!("{name}-admin-kubeconfig");
    for (from, key, (namespace, copy), copied) in [
        (
            &spec["pullSecretRef"]["name"],
            ".dockerconfigjson",
            (NAMESPACE, format!("{name}-pull-secret")),
            &[".dockerconfigjson"][..],
        ),
        (
            &spec["sshKeySecretRef"]["name"],
            "ssh-publickey",
            (NAMESPACE, format!("{name}-ssh-key")),
            &["id_rsa.pub"],
        ),
        (&Value::from(admin), "kubeconfig", (DPF, kubeconfig.clone()), &["super-admin.conf", "admin.conf"]),
    ] {
        let source = find(server, &names::secret(), NAMESPACE, from.as_str().unwrap_or_default());
        let found = find(server, &names::secret(), namespace, &copy);
        let source = source.as_deref().and_then(|source| content(source, key));
        let is_same = |key: &&str| found.as_deref().and_then(|copy| content(copy, key)) == source;
        if source.is_none() || !copied.iter().all(is_same) {
            differ(format!("Secret {namespace}/{copy} is not what {from} says"));
        }
    }
    let dpu_cluster = spec["dpuClusterRef"]["name"].as_str().unwrap_or_default();
    match find(server, &names::dpu_cluster(), DPF, dpu_cluster) {
        Some(dpu_cluster) if dpu_cluster["spec"]["kubeconfig"] == kubeconfig => {}
        _ => differ(format!("DPUCluster {dpu_cluster} does not use its kubeconfig")),
    }
    let text = |field: &str| spec[field].as_str().unwrap_or_default();
    for (field, endpoint) in [
        ("apiEndpoint", format!("https://{}", api_server(server, bridge).unwrap_or_default())),
        ("ingressEndpoint", format!("*.apps.{name}.{}", text("baseDomain"))),
    ] {
        if bridge["status"][field] != endpoint {
            differ(format!("its {field} is {}", bridge["status"][field]));
        }
    }
}

/// Reports objects that deleted bridges have left.
fn leftovers(server: &ApiServer, bridges: &[Arc<Value>], differences: &mut Vec<String>) {
    let uids: BTreeMap<&str, &str> =
        bridges.iter().map(|bridge| (metadata(bridge, "uid"), metadata(bridge, "name"))).collect();
    for kind in [names::hosted_cluster(), names::node_pool()] {
        for object in server.objects(&kind) {
            if controller_uid(&object).is_some_and(|uid| !uids.contains_key(uid)) {
                differences.push(format!("{} {} is left", kind.kind, metadata(&object, "name")));
            }
        }
    }
    for kind in [names::secret(), names::pool(), names::advertisement()] {
        for object in server.objects(&kind) {
            let of = label(&object, BRIDGE_NAME).zip(label(&object, BRIDGE_NAMESPACE));
            if let Some((name, _)) = of
                && !uids.values().any(|bridge| *bridge == name)
            {
                differences.push(format!("{} {} is left", kind.kind, metadata(&object, "name")));
            }
        }
    }
    let dpu_clusters = server.objects(&names::dpu_cluster()).into_iter();
    for dpu_cluster in dpu_clusters.filter(|it| DPU_CLUSTERS.contains(&metadata(it, "name"))) {
        let Some(used) = dpu_cluster["spec"]["kubeconfig"].as_str() else { continue };
        if !uids.values().any(|name| used == format!("{NAMESPACE}-{name}-dpucluster-kubeconfig")) {
            differences.push(format!("DPUCluster {} uses {used}", metadata(&dpu_cluster, "name")));
        }
    }
}

fn find(server: &ApiServer, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
    let objects = server.objects(kind);
    objects
        .into_iter()
        .find(|object| metadata(object, "namespace") == namespace && metadata(object, "name") == name)
}
