//! Manually written objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_external::dpu_clusters::Access;
use lockstep_external::{argocd, metallb};
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

/// Returns the `HostedCluster` that a bridge would write, with its API server behind a load balancer.
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

/// Returns the same with its API server on a node port.
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
        "metadata": { "name": name, "namespace": metallb::NAMESPACE },
        "spec": { "addresses": [addresses], "autoAssign": auto_assign },
    })
}

pub(crate) fn advertisement(name: &str, pool: &str) -> Value {
    json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "L2Advertisement",
        "metadata": { "name": name, "namespace": metallb::NAMESPACE },
        "spec": { "ipAddressPools": [pool] },
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

/// Returns a Service that requests an address, optionally this one.
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

/// Adds the kind to an object.
pub(crate) fn of_kind(api_version: &str, kind: &str, mut object: Value) -> Value {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

/// Returns the server URL of the DPU cluster with this name.
pub(crate) fn server(name: &str) -> String {
    format!("https://{name}.example.com:6443")
}

/// Returns the access to that server with this token.
pub(crate) fn access(name: &str, token: &str) -> Access {
    Access::by_token(&server(name), token)
}

/// Returns a kubeconfig Secret, `<cluster>-kubeconfig`.
pub(crate) fn kubeconfig(name: &str, access: &Access) -> Value {
    let metadata = json!({ "namespace": NAMESPACE, "name": format!("{name}-kubeconfig") });
    of_kind("v1", "Secret", json!({ "metadata": metadata, "data": access.secret_data() }))
}

/// Returns the Secret that registers a cluster with Argo CD, `<cluster>-argocd`.
pub(crate) fn cluster_secret(name: &str, access: &Access) -> Value {
    let (ca, token, server) = (&access.authority, &access.token, &access.server);
    let mut config = json!({ "tlsClientConfig": { "insecure": access.insecure } });
    for (field, value) in [("caData", ca), ("certData", &access.certificate), ("keyData", &access.key)] {
        if !value.is_empty() {
            config["tlsClientConfig"][field] = value.as_str().into();
        }
    }
    if !token.is_empty() {
        config["bearerToken"] = token.as_str().into();
    }
    if !access.username.is_empty() {
        config["username"] = access.username.as_str().into();
        config["password"] = access.password.as_str().into();
    }
    let data = [("name", name), ("server", server), ("config", &config.to_string())];
    let data: Value =
        data.into_iter().map(|(key, value)| (key.to_owned(), json!(STANDARD.encode(value)))).collect();
    let metadata = json!({
        "namespace": argocd::NAMESPACE,
        "name": format!("{name}-argocd"),
        "labels": { argocd::SECRET_TYPE: "cluster" },
    });
    of_kind("v1", "Secret", json!({ "metadata": metadata, "data": data }))
}

/// Returns a project that permits these clusters.
pub(crate) fn project(name: &str, servers: &[String]) -> Value {
    let destinations = servers.iter().map(|server| json!({ "server": server, "namespace": "*" }));
    let spec = json!({
        "destinations": destinations.collect::<Vec<_>>(),
        "sourceRepos": ["*"],
        "clusterResourceWhitelist": [{ "group": "*", "kind": "*" }],
    });
    let metadata =
        json!({ "namespace": argocd::NAMESPACE, "name": name, "finalizers": [argocd::FINALIZERS[0]] });
    of_kind("argoproj.io/v1alpha1", "AppProject", json!({ "metadata": metadata, "spec": spec }))
}

/// Returns an Application that deploys a chart to the cluster of this name automatically.
pub(crate) fn application(name: &str, cluster: &str) -> Value {
    let spec = json!({
        "project": "platform",
        "destination": { "server": server(cluster), "namespace": "services" },
        "source": {
            "repoURL": "https://charts.example.com",
            "chart": "agent",
            "targetRevision": "1.0.0",
            "helm": { "releaseName": "agent", "valuesObject": { "a": 1, "b": { "c": null, "d": [1] } } },
        },
        "syncPolicy": {
            "automated": { "prune": true, "selfHeal": true },
            "syncOptions": ["CreateNamespace=true"],
        },
    });
    let metadata =
        json!({ "namespace": argocd::NAMESPACE, "name": name, "finalizers": [argocd::FINALIZERS[0]] });
    of_kind("argoproj.io/v1alpha1", "Application", json!({ "metadata": metadata, "spec": spec }))
}
