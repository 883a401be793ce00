//! The behaviour of the external systems, as a table of changes for each flow.

use std::time::Duration;

use base64::Engine as _;
use lockstep_engine::yaml;
use lockstep_external as external;
use lockstep_external::hypershift::{self, HyperShift};
use serde_json::{Value, json};

use super::bench::Bench;
use super::manifests::{
    access, dpu_cluster, hosted_cluster, kubeconfig, on_node_ports, pool, secret, service,
};

/// Returns the status and reason of a condition.
fn condition(object: &Value, name: &str) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut found = conditions.filter(|condition| condition["type"] == name);
    found.next().map_or("absent".to_owned(), |condition| {
        format!(
            "{}/{}",
            condition["status"].as_str().unwrap_or("?"),
            condition["reason"].as_str().unwrap_or("?")
        )
    })
}

/// Returns the URL in the kubeconfig of the hosted cluster.
fn server(bench: &mut Bench) -> Value {
    let secret = bench.get("Secret", "prod-admin-kubeconfig");
    let text = secret["data"]["kubeconfig"].as_str().expect("the key");
    let text = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    let mut parsed: Value = yaml::read(std::str::from_utf8(&text).expect("UTF-8")).expect("YAML");
    parsed["clusters"][0]["cluster"]["server"].take()
}

/// Returns a cluster with an available hosted cluster.
fn available() -> Bench {
    let mut bench = Bench::hosting(&external::definitions(&external::BRIDGE));
    assert_eq!(condition(&bench.get("HostedCluster", "prod"), "Available"), "True/AsExpected");
    bench
}

#[test]
fn a_hosted_cluster_comes_and_goes() {
    let mut bench = available();
    insta::assert_snapshot!("comes", bench.transitions());
    assert_eq!(server(&mut bench), "https://192.0.2.10:6443");
    bench.delete("HostedCluster", "prod");
    bench.settle();
    insta::assert_snapshot!("goes", bench.transitions());
    for (kind, name) in [
        ("HostedCluster", "prod"),
        ("NodePool", "prod"),
        ("Namespace", "clusters-prod"),
        ("Secret", "prod-admin-kubeconfig"),
    ] {
        assert_eq!(bench.get(kind, name), Value::Null, "{kind} {name}");
    }
}

#[test]
fn at_rest_nothing_is_written() {
    let mut bench = available();
    bench.create(&dpu_cluster("dpus", "static"));
    bench.settle();
    bench.transitions();
    bench.advance(Duration::from_hours(1));
    assert!(bench.cluster.journal.is_empty(), "{:?}", bench.cluster.journal);
}

#[test]
fn node_ports_need_no_address() {
    let mut bench = Bench::new();
    bench.create(&on_node_ports("prod"));
    bench.settle();
    let cluster = bench.get("HostedCluster", "prod");
    assert_eq!(condition(&cluster, "Available"), "True/AsExpected");
    let port =
        bench.at("/api/v1/namespaces/clusters-prod/services/kube-apiserver")["spec"]["ports"][0]["nodePort"]
            .clone();
    assert!(port.is_number());
    assert_eq!(cluster["status"]["controlPlaneEndpoint"], json!({ "host": "192.0.2.10", "port": port }));
}

#[test]
fn a_new_image_is_rolled_out() {
    let mut bench = available();
    bench.transitions();
    let image = "registry.example.com/ocp-release:4.20.1-multi";
    bench.merge("HostedCluster", "prod", &json!({ "spec": { "release": { "image": image } } }));
    bench.settle();
    insta::assert_snapshot!("upgrade", bench.transitions());
}

/// HyperShift's conditions for a NodePool with a newer release than its HostedCluster, and for each new token.
#[test]
fn a_node_pool_waits_for_its_cluster() {
    let mut bench = available();
    let image = |version: &str| json!({ "spec": { "release": { "image": format!("registry.example.com/ocp-release:{version}-multi") } } });
    let message = |object: &Value, name: &str| {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.find(|condition| condition["type"] == name).map(|found| found["message"].clone())
    };
    annotate(&mut bench, hypershift::NODES, &json!(hypershift::NO_NODES));
    bench.transitions();
    for kind in ["HostedCluster", "NodePool"] {
        bench.merge(kind, "prod", &image("4.19.1"));
    }
    bench.settle();
    let pool = bench.get("NodePool", "prod");
    assert_eq!(condition(&pool, "SupportedVersionSkew"), "False/UnsupportedSkew");
    let skew = "NodePool version 4.19.1 cannot be higher than the HostedCluster version 4.19.0";
    assert_eq!(message(&pool, "SupportedVersionSkew"), Some(json!(skew)));
    bench.merge("NodePool", "prod", &image("4.20.1"));
    bench.settle();
    let pool = bench.get("NodePool", "prod");
    assert_eq!(condition(&pool, "ValidReleaseImage"), "False/ValidationFailed");
    let latest = "the latest version supported is: \"4.19.0\". Attempting to use: \"4.20.1\"";
    assert_eq!(message(&pool, "ValidReleaseImage"), Some(json!(latest)));
    bench.merge("HostedCluster", "prod", &image("4.20.1"));
    annotate(&mut bench, hypershift::NODES, &Value::Null);
    bench.settle();
    let pool = bench.get("NodePool", "prod");
    for name in ["SupportedVersionSkew", "ValidReleaseImage", "ValidGeneratedPayload"] {
        assert!(condition(&pool, name).starts_with("True/"), "{name}: {pool:#}");
    }
    insta::assert_snapshot!("node_pool_waits", bench.transitions());
}

#[test]
fn a_bad_image_blocks() {
    let mut bench = available();
    bench.transitions();
    for tag in ["4.20.0-bad", "4.18.3-multi", "latest"] {
        let image = format!("registry.example.com/ocp-release:{tag}");
        bench.merge("HostedCluster", "prod", &json!({ "spec": { "release": { "image": image } } }));
        bench.settle();
        let cluster = bench.get("HostedCluster", "prod");
        assert_eq!(condition(&cluster, "ValidReleaseImage"), "False/InvalidImage", "{tag}");
        assert_eq!(condition(&cluster, "Progressing"), "False/Blocked", "{tag}");
        assert_eq!(condition(&cluster, "Available"), "True/AsExpected", "{tag}");
        let history = cluster["status"]["controlPlaneVersion"]["history"].as_array().expect("a history");
        assert_eq!(history.len(), 1, "{tag}");
    }
    insta::assert_snapshot!("blocked", bench.transitions());
}

/// Controls the control plane's behaviour through annotations of its HostedCluster.
fn annotate(bench: &mut Bench, what: &str, value: &Value) {
    bench.merge("HostedCluster", "prod", &json!({ "metadata": { "annotations": { what: value } } }));
}

#[test]
fn a_control_plane_ails_and_recovers() {
    let mut bench = available();
    bench.transitions();
    annotate(&mut bench, hypershift::AILS, &json!(hypershift::DEGRADED));
    bench.settle();
    let cluster = bench.get("HostedCluster", "prod");
    assert_eq!(condition(&cluster, "Degraded"), "True/UnavailableReplicas");
    assert_eq!(condition(&cluster, "Available"), "True/AsExpected");
    annotate(&mut bench, hypershift::AILS, &json!(hypershift::FLAPPING));
    bench.advance(Duration::from_secs(6));
    annotate(&mut bench, hypershift::AILS, &Value::Null);
    bench.settle();
    let cluster = bench.get("HostedCluster", "prod");
    assert_eq!(condition(&cluster, "Degraded"), "False/AsExpected");
    assert_eq!(condition(&cluster, "Available"), "True/AsExpected");
    insta::assert_snapshot!("ails", bench.transitions());
}

#[test]
fn a_teardown_is_stuck_until_it_is_not() {
    let mut bench = available();
    annotate(&mut bench, hypershift::STUCK, &json!("true"));
    bench.delete("HostedCluster", "prod");
    bench.advance(Duration::from_hours(1));
    assert!(bench.get("NodePool", "prod").is_null());
    assert!(!bench.get("HostedCluster", "prod").is_null());
    annotate(&mut bench, hypershift::STUCK, &Value::Null);
    bench.settle();
    assert!(bench.get("HostedCluster", "prod").is_null());
}

#[test]
fn a_missing_secret_blocks_until_it_is_there() {
    let mut bench = Bench::new();
    bench.create(&pool("vips", "192.0.2.10/32", true));
    bench.delete("Secret", "ssh-key");
    bench.delete("Secret", "pull-secret");
    bench.transitions();
    bench.create(&hosted_cluster("prod"));
    bench.settle();
    bench.create(&secret("pull-secret", ".dockerconfigjson"));
    bench.create(&secret("ssh-key", "ssh-publickey"));
    bench.settle();
    insta::assert_snapshot!("missing_secret", bench.transitions());
    bench.merge("Secret", "ssh-key", &json!({ "stringData": { "id_rsa.pub": "ssh-ed25519" } }));
    bench.settle();
    assert_eq!(condition(&bench.get("HostedCluster", "prod"), "Available"), "True/AsExpected");
}

#[test]
fn without_routes_the_configuration_is_invalid() {
    let mut bench = Bench::running(&external::definitions(&external::BRIDGE), HyperShift { routes: false });
    bench.create(&hosted_cluster("prod"));
    bench.settle();
    let cluster = bench.get("HostedCluster", "prod");
    assert_eq!(condition(&cluster, "ValidConfiguration"), "False/InvalidConfiguration");
    assert_eq!(condition(&cluster, "Progressing"), "absent");
}

#[test]
fn a_lost_load_balancer_is_reported_and_recovers() {
    let mut bench = available();
    bench.transitions();
    bench.delete("IPAddressPool", "vips");
    bench.settle();
    bench.create(&pool("vips", "192.0.2.20/32", true));
    bench.settle();
    assert_eq!(server(&mut bench), "https://192.0.2.20:6443");
    insta::assert_snapshot!("load_balancer_lost", bench.transitions());
}

#[test]
fn an_address_that_is_taken_is_not_given_again() {
    let mut bench = Bench::new();
    bench.create(&pool("vips", "192.0.2.10-192.0.2.11", false));
    bench.create(&service("first", Some("192.0.2.10")));
    bench.settle();
    // The second requests the address of the first, the third requests none, and the fourth requests one that no pool has.
    bench.create(&service("second", Some("192.0.2.10")));
    bench.create(&service("third", None));
    bench.create(&service("fourth", Some("192.0.2.99")));
    bench.settle();
    let address = |bench: &mut Bench, name| {
        bench.get("Service", name)["status"]["loadBalancer"]["ingress"][0]["ip"].clone()
    };
    for name in ["second", "third", "fourth"] {
        assert_eq!(address(&mut bench, name), Value::Null, "{name}");
    }
    let asks =
        |address: &str| json!({ "metadata": { "annotations": { "metallb.io/loadBalancerIPs": address } } });
    bench.merge("Service", "first", &asks("192.0.2.11"));
    bench.settle();
    assert_eq!(address(&mut bench, "first"), "192.0.2.11");
    // The move of the first does not make MetalLB reconcile any other Service.
    assert_eq!(address(&mut bench, "second"), Value::Null);
    bench.merge("Service", "second", &json!({ "metadata": { "labels": { "touched": "yes" } } }));
    bench.settle();
    assert_eq!(address(&mut bench, "second"), "192.0.2.10");
    // A Service that requests an address in use loses its own.
    bench.merge("Service", "second", &asks("192.0.2.11"));
    bench.settle();
    assert_eq!(address(&mut bench, "second"), Value::Null);
    bench.merge("Service", "second", &asks("192.0.2.10"));
    bench.settle();
    assert_eq!(address(&mut bench, "second"), "192.0.2.10");
    bench.merge("IPAddressPool", "vips", &json!({ "spec": { "autoAssign": true } }));
    bench.settle();
    bench.merge("Service", "first", &asks("192.0.2.99"));
    bench.settle();
    // An address lost by a failed request is given to a waiting Service.
    assert_eq!(address(&mut bench, "first"), Value::Null);
    assert_eq!(address(&mut bench, "third"), "192.0.2.11");
    insta::assert_snapshot!("addresses", bench.transitions());
}

#[test]
fn a_dpu_cluster_follows_its_kubeconfig() {
    let mut bench = Bench::new();
    bench.create(&dpu_cluster("dpus", "static"));
    bench.settle();
    bench.merge("DPUCluster", "dpus", &json!({ "spec": { "kubeconfig": "dpus-kubeconfig" } }));
    bench.settle();
    bench.create(&kubeconfig("dpus", &access("dpus", "t1")));
    bench.settle();
    bench.delete("Secret", "dpus-kubeconfig");
    bench.settle();
    bench.merge("DPUCluster", "dpus", &json!({ "spec": { "kubeconfig": null } }));
    bench.settle();
    bench.delete("DPUCluster", "dpus");
    bench.settle();
    insta::assert_snapshot!("dpu_cluster", bench.transitions());
}
