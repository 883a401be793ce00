//! Objects as somebody writes them by hand.

use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "clusters";
pub(crate) const RELEASE: &str = "registry.example.com/ocp-release:4.19.0-multi";

fn published(strategy: &Value) -> Value {
    let route = json!({ "type": "Route" });
    let services =
        [("APIServer", strategy), ("OAuthServer", &route), ("Konnectivity", &route), ("Ignition", &route)];
    services
        .into_iter()
        .map(|(service, strategy)| json!({ "service": service, "servicePublishingStrategy": strategy }))
        .collect()
}

/// The `HostedCluster` that a bridge would write, with its API server behind a load balancer.
pub(crate) fn hosted_cluster(name: &str) -> Value {
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "HostedCluster",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "release": { "image": RELEASE },
            "pullSecret": { "name": "pull-secret" },
            "sshKey": { "name": "ssh-key" },
            "dns": { "baseDomain": "clusters.example.com" },
            "platform": { "type": "None" },
            "controllerAvailabilityPolicy": "HighlyAvailable",
            "infrastructureAvailabilityPolicy": "HighlyAvailable",
            "networking": {
                "networkType": "Other",
                "allocateNodeCIDRs": "Enabled",
                "clusterNetwork": [{ "cidr": "10.132.0.0/14" }],
                "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
            },
            "etcd": {
                "managementType": "Managed",
                "managed": { "storage": {
                    "type": "PersistentVolume",
                    "persistentVolume": { "size": "8Gi", "storageClassName": "ceph-rbd" },
                } },
            },
            "services": published(&json!({ "type": "LoadBalancer" })),
        },
    })
}

/// The same with its API server at a port of all nodes.
pub(crate) fn on_node_ports(name: &str) -> Value {
    let mut cluster = hosted_cluster(name);
    let strategy = json!({ "type": "NodePort", "nodePort": { "address": "192.0.2.10" } });
    cluster["spec"]["services"] = published(&strategy);
    cluster
}

pub(crate) fn node_pool(name: &str) -> Value {
    json!({
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "NodePool",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "clusterName": name,
            "replicas": 0,
            "release": { "image": RELEASE },
            "platform": { "type": "None" },
            "management": { "upgradeType": "Replace" },
        },
    })
}

pub(crate) fn dpu_cluster(name: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1",
        "kind": "DPUCluster",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "type": kind },
    })
}

pub(crate) fn pool(name: &str, addresses: &str, auto_assign: bool) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "IPAddressPool",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "addresses": [addresses], "autoAssign": auto_assign },
    })
}

pub(crate) fn secret(name: &str, key: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "stringData": { key: "{}" },
    })
}

/// A Service that wants an address, this one if any.
pub(crate) fn service(name: &str, address: Option<&str>) -> Value {
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    });
    if let Some(address) = address {
        service["metadata"]["annotations"] = json!({ "metallb.io/loadBalancerIPs": address });
    }
    service
}
