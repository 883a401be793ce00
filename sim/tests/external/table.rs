//! What the CRDs should accept: small manifests, and a change of each immutable field.

use serde_json::{Value, json};

use super::manifests::{
    advertisement, application, dpu_cluster, hosted_cluster, node_pool, on_node_ports, pool, project, server,
};

/// A description, the object or patch, and whether it is accepted.
pub(crate) type Case = (&'static str, Value, bool);

fn with(mut object: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').expect("a pointer");
    object.pointer_mut(parent).unwrap_or_else(|| panic!("{path}"))[field] = value;
    object
}

fn without(mut object: Value, path: &str) -> Value {
    let (parent, field) = path.rsplit_once('/').expect("a pointer");
    let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.unwrap_or_else(|| panic!("{path}")).remove(field);
    object
}

/// Returns objects to create, and whether they are accepted.
pub(crate) fn creations() -> Vec<Case> {
    [clusters(), pools(), dpu_clusters(), applications()].concat()
}

fn clusters() -> Vec<Case> {
    let balanced = || hosted_cluster("x");
    let three = |object: Value| {
        let services = object["spec"]["services"].as_array().expect("a list")[..3].to_vec();
        with(object, "/spec/services", services.into())
    };
    let strategy = "/spec/services/0/servicePublishingStrategy";
    let published = |value: Value| with(balanced(), strategy, value);
    let network = |field: &str, value: Value| with(balanced(), &format!("/spec/networking/{field}"), value);
    let image = |image: &str| with(balanced(), "/spec/release/image", image.into());
    let domain = |domain: &str| with(balanced(), "/spec/dns/baseDomain", domain.into());
    let disabled = |names: Value| with(balanced(), "/spec/capabilities", json!({ "disabled": names }));
    let minimal = json!({
        "release": balanced()["spec"]["release"],
        "pullSecret": { "name": "p" },
        "platform": { "type": "None" },
        "services": balanced()["spec"]["services"],
    });
    vec![
        ("behind a load balancer", balanced(), true),
        ("on node ports", on_node_ports("x"), true),
        ("only what is required", with(balanced(), "/spec", minimal), true),
        ("no release", without(balanced(), "/spec/release"), false),
        ("no pull secret", without(balanced(), "/spec/pullSecret"), false),
        ("no platform", without(balanced(), "/spec/platform"), false),
        ("no services", without(balanced(), "/spec/services"), false),
        ("no SSH key", without(balanced(), "/spec/sshKey"), true),
        ("no DNS", without(balanced(), "/spec/dns"), true),
        ("three services", three(balanced()), false),
        (
            "three services on IBM Cloud",
            with(three(balanced()), "/spec/platform/type", "IBMCloud".into()),
            true,
        ),
        ("an unknown service", with(balanced(), "/spec/services/0/service", "Dashboard".into()), false),
        ("a node port without address", published(json!({ "type": "NodePort", "nodePort": {} })), false),
        ("a node port without details", published(json!({ "type": "NodePort" })), false),
        (
            "a node port at an IPv6 address",
            published(json!({ "type": "NodePort", "nodePort": { "address": "2001:db8::1" } })),
            true,
        ),
        (
            "a node port at a host",
            published(json!({ "type": "NodePort", "nodePort": { "address": "node.example.com" } })),
            true,
        ),
        (
            "a node port nowhere",
            published(json!({ "type": "NodePort", "nodePort": { "address": "a b" } })),
            false,
        ),
        (
            "a route at a node port",
            published(json!({ "type": "Route", "nodePort": { "address": "192.0.2.1" } })),
            false,
        ),
        (
            "a load balancer of that name",
            published(json!({ "type": "LoadBalancer", "loadBalancer": { "hostname": "api.example.com" } })),
            true,
        ),
        (
            "a load balancer with an address for a name",
            published(json!({ "type": "LoadBalancer", "loadBalancer": { "hostname": "192.0.2.1" } })),
            false,
        ),
        ("a route of a load balancer", published(json!({ "type": "Route", "loadBalancer": {} })), false),
        ("node CIDRs with OVN", network("networkType", "OVNKubernetes".into()), false),
        ("the same CIDR twice", network("serviceNetwork", json!([{ "cidr": "10.132.0.0/14" }])), false),
        (
            "the same CIDR as the machines",
            network("machineNetwork", json!([{ "cidr": "10.132.0.0/14" }])),
            false,
        ),
        ("a network of machines", network("machineNetwork", json!([{ "cidr": "192.0.2.0/24" }])), true),
        ("no CIDR at all", network("clusterNetwork", json!([{ "cidr": "everything" }])), false),
        ("Ingress without Console", disabled(json!(["Ingress"])), false),
        ("Ingress and Console", disabled(json!(["Ingress", "Console"])), true),
        ("an image by digest", image("quay.io/ocp/release@sha256:0000"), true),
        ("an image with a port", image("registry.example.com:5000/ocp:4.19.0"), true),
        ("an image with a space", image("quay.io/ocp release"), false),
        ("no image", image(""), false),
        ("a domain of one label", domain("internal"), true),
        ("a domain with a space", domain("a b.com"), false),
        ("no domain", domain(""), true),
        ("an infra id in capitals", with(balanced(), "/spec/infraID", "X".into()), false),
        ("a cluster id that is none", with(balanced(), "/spec/clusterID", "x".into()), false),
        ("etcd elsewhere and here", with(balanced(), "/spec/etcd/managementType", "Unmanaged".into()), false),
        (
            "a policy of our own",
            with(balanced(), "/spec/controllerAvailabilityPolicy", "Whatever".into()),
            false,
        ),
        ("an issuer that is no URL", with(balanced(), "/spec/issuerURL", "here".into()), false),
    ]
}

fn pools() -> Vec<Case> {
    let pool_of = |path: &str, value: Value| with(node_pool("x"), path, value);
    vec![
        ("a pool", node_pool("x"), true),
        ("a pool of arm64", pool_of("/spec/arch", "arm64".into()), true),
        ("a pool of s390x", pool_of("/spec/arch", "s390x".into()), false),
        ("a pool of a name with a dot", pool_of("/spec/clusterName", "a.b".into()), false),
        ("a pool of nothing", without(node_pool("x"), "/spec/clusterName"), false),
        ("a pool without image", without(node_pool("x"), "/spec/release"), false),
        ("a pool without platform", without(node_pool("x"), "/spec/platform"), false),
        ("a pool without upgrades", without(node_pool("x"), "/spec/management/upgradeType"), false),
        ("a pool of both sizes", pool_of("/spec/autoScaling", json!({ "min": 1, "max": 2 })), false),
        ("a pool in place", pool_of("/spec/management/inPlace", json!({})), false),
        ("addresses", pool("x", "192.0.2.0/24", true), true),
        ("addresses that are none", pool("x", "everything", true), true),
        ("no addresses", without(pool("x", "", true), "/spec/addresses"), false),
        ("an advertisement", advertisement("x", "x"), true),
        ("an advertisement of all pools", without(advertisement("x", "x"), "/spec"), true),
        (
            "an advertisement from one interface",
            with(advertisement("x", "x"), "/spec/interfaces", json!(["eth0"])),
            true,
        ),
        (
            "an advertisement of no list",
            with(advertisement("x", "x"), "/spec/ipAddressPools", "x".into()),
            false,
        ),
    ]
}

fn dpu_clusters() -> Vec<Case> {
    let dpus = |kind: &str| dpu_cluster("x", kind);
    vec![
        ("a static DPUCluster", dpus("static"), true),
        ("a DPUCluster of a vendor", dpus("example.com/hosted"), true),
        ("a DPUCluster of an unknown type", dpus("hosted"), false),
        ("a DPUCluster that contains a type", dpus("xkamajix"), true),
        ("a DPUCluster without type", without(dpus("static"), "/spec/type"), false),
        ("a DPUCluster without spec", without(dpus("static"), "/spec"), false),
        ("a DPUCluster of too many", with(dpus("static"), "/spec/maxNodes", 1001.into()), false),
        ("a DPUCluster of too long a name", dpu_cluster(&"x".repeat(64), "static"), false),
    ]
}

fn applications() -> Vec<Case> {
    let app = || without(application("x", "dpus"), "/metadata/finalizers");
    let helm = |field: &str, value: Value| with(app(), &format!("/spec/source/helm/{field}"), value);
    let status = |status: Value| with(app(), "/status", status);
    let project = || without(project("x", &[server("dpus")]), "/metadata/finalizers");
    let operation = json!({ "sync": { "resources": [{ "name": "x" }] } });
    vec![
        ("an Application", app(), true),
        ("an Application without project", without(app(), "/spec/project"), false),
        ("an Application without destination", without(app(), "/spec/destination"), false),
        ("an Application without source", without(app(), "/spec/source"), true),
        ("an Application of no repository", without(app(), "/spec/source/repoURL"), false),
        ("an Application without spec", without(app(), "/spec"), false),
        ("destinations", with(app(), "/spec/destination", json!([{ "server": server("dpus") }])), false),
        ("a destination of both forms", with(app(), "/spec/destination/name", "dpus".into()), true),
        ("values of any form", helm("valuesObject", json!({ "a": [1, { "b": null }], "c": {} })), true),
        ("values that are a list", helm("valuesObject", json!([1])), false),
        ("values that are text", helm("values", "a: 1".into()), true),
        ("a number for a release", helm("releaseName", 1.into()), false),
        ("a sync policy that is none", with(app(), "/spec/syncPolicy", "automated".into()), false),
        ("a status at once", status(json!({ "sync": { "status": "Synced" } })), true),
        ("a sync status of nothing", status(json!({ "sync": {} })), false),
        ("a condition without message", status(json!({ "conditions": [{ "type": "SyncError" }] })), false),
        (
            "a history without id",
            status(json!({ "history": [{ "deployedAt": "2026-01-01T00:00:00Z" }] })),
            false,
        ),
        ("an operation of nothing known", with(app(), "/operation", operation), false),
        ("a project", project(), true),
        ("a project without spec", without(project(), "/spec"), false),
        ("a project of nothing", with(project(), "/spec", json!({})), true),
        (
            "a project with a kind of no group",
            with(project(), "/spec/clusterResourceWhitelist", json!([{ "kind": "*" }])),
            false,
        ),
        (
            "a project of one destination",
            with(project(), "/spec/destinations", json!({ "server": "*" })),
            false,
        ),
        ("a long tale of a project", with(project(), "/spec/description", "x".repeat(256).into()), false),
    ]
}

/// Returns patches of existing objects, and whether they are accepted.
pub(crate) fn changes() -> Vec<(&'static str, Value, Case)> {
    let spec = |spec: Value| json!({ "spec": spec });
    let id = "0d3cb7ee-7f23-4f0c-9a4f-0b9d3c1e2f4a";
    let mut known = hosted_cluster("x");
    known["spec"]["infraID"] = "x-1".into();
    known["spec"]["clusterID"] = id.into();
    known["spec"]["fips"] = false.into();
    known["spec"]["secretEncryption"] =
        json!({ "type": "aescbc", "aescbc": { "activeKey": { "name": "k" } } });
    known["spec"]["networking"]["machineNetwork"] = json!([{ "cidr": "192.0.2.0/24" }]);
    let mut turned = known["spec"]["services"].as_array().expect("a list").clone();
    turned.reverse();
    let network = |field: &str, value: Value| spec(json!({ "networking": { field: value } }));
    let volume = |field: &str, value: Value| {
        spec(json!({ "etcd": { "managed": { "storage": { "persistentVolume": { field: value } } } } }))
    };
    let cluster = |name, patch, admitted| ("HostedCluster", known.clone(), (name, patch, admitted));
    let pool = |name, patch, admitted| ("NodePool", node_pool("x"), (name, patch, admitted));
    let dpus = |before: Value, name, patch, admitted| {
        let before = with(dpu_cluster("x", "static"), "/spec/kubeconfig", before);
        ("DPUCluster", before, (name, patch, admitted))
    };
    let app = |name, patch, admitted| {
        let before = without(application("x", "dpus"), "/metadata/finalizers");
        ("Application", before, (name, patch, admitted))
    };
    let no_cidrs = without(hosted_cluster("x"), "/spec/networking/allocateNodeCIDRs");
    vec![
        cluster("policy", spec(json!({ "controllerAvailabilityPolicy": "SingleReplica" })), false),
        cluster("order of services", spec(json!({ "services": turned })), false),
        cluster("domain", spec(json!({ "dns": { "baseDomain": "other.example.com" } })), false),
        cluster("no DNS", spec(json!({ "dns": null })), true),
        cluster("class", volume("storageClassName", "other".into()), false),
        cluster("no class", volume("storageClassName", Value::Null), true),
        cluster("size", volume("size", "9Gi".into()), false),
        cluster("platform", spec(json!({ "platform": { "type": "Agent" } })), false),
        cluster("infra id", spec(json!({ "infraID": "x-2" })), false),
        cluster("cluster id", spec(json!({ "clusterID": id.replace('0', "1") })), false),
        cluster("capabilities", spec(json!({ "capabilities": { "disabled": ["Console"] } })), false),
        cluster("cluster network", network("clusterNetwork", json!([{ "cidr": "10.140.0.0/14" }])), false),
        cluster("service network", network("serviceNetwork", json!([{ "cidr": "172.30.0.0/16" }])), false),
        cluster("machine network", network("machineNetwork", json!([{ "cidr": "192.0.3.0/24" }])), false),
        cluster("node CIDRs", network("allocateNodeCIDRs", "Disabled".into()), false),
        (
            "HostedCluster",
            no_cidrs,
            ("node CIDRs at last", network("allocateNodeCIDRs", "Enabled".into()), true),
        ),
        cluster("etcd", spec(json!({ "etcd": { "managementType": "Unmanaged" } })), false),
        cluster("issuer", spec(json!({ "issuerURL": "https://other.example.com" })), false),
        cluster("FIPS", spec(json!({ "fips": true })), false),
        cluster("no encryption", spec(json!({ "secretEncryption": null })), false),
        cluster("image", spec(json!({ "release": { "image": "quay.io/ocp/release:4.20.0" } })), true),
        cluster("other policy", spec(json!({ "infrastructureAvailabilityPolicy": "SingleReplica" })), true),
        cluster("pull secret", spec(json!({ "pullSecret": { "name": "q" } })), true),
        cluster("SSH key", spec(json!({ "sshKey": { "name": "q" } })), true),
        cluster("nodes", spec(json!({ "nodeSelector": { "a": "b" }, "labels": { "a": "b" } })), true),
        cluster("pause", spec(json!({ "pausedUntil": "true" })), true),
        cluster("pause for ever", spec(json!({ "pausedUntil": "ever" })), false),
        pool("cluster", spec(json!({ "clusterName": "y" })), false),
        pool("arch", spec(json!({ "arch": "arm64" })), false),
        pool("platform", spec(json!({ "platform": { "type": "Agent" } })), false),
        pool("upgrades", spec(json!({ "management": { "upgradeType": "InPlace" } })), false),
        pool("image", spec(json!({ "release": { "image": "quay.io/ocp/release:4.20.0" } })), true),
        pool("replicas", spec(json!({ "replicas": 2 })), true),
        dpus(Value::Null, "a kubeconfig", spec(json!({ "kubeconfig": "a" })), true),
        dpus("".into(), "a kubeconfig for an empty one", spec(json!({ "kubeconfig": "a" })), true),
        dpus("a".into(), "another kubeconfig", spec(json!({ "kubeconfig": "b" })), false),
        dpus("a".into(), "an empty kubeconfig", spec(json!({ "kubeconfig": "" })), false),
        dpus("a".into(), "no kubeconfig", spec(json!({ "kubeconfig": null })), true),
        dpus("a".into(), "type", spec(json!({ "type": "kamaji" })), true),
        app("chart", spec(json!({ "source": { "chart": "other", "targetRevision": "2.0.0" } })), true),
        app("project", spec(json!({ "project": "other" })), true),
        app("destination", spec(json!({ "destination": { "server": server("other") } })), true),
        app("no destination", spec(json!({ "destination": null })), false),
        app("a status with the rest", json!({ "status": { "health": { "status": "Healthy" } } }), true),
        app("a status that is none", json!({ "status": { "health": "Healthy" } }), false),
    ]
}
