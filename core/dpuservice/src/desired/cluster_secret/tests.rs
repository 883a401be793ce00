use super::*;
use crate::model::cluster::Cluster;
use crate::model::kubeconfig;

/// Returns the Secret of a cluster with a kubeconfig of this user, decoded.
fn legible(cluster: &Name, name: &str, user: &Value) -> Value {
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": {
            "server": "https://10.0.0.1:6443/", "certificate-authority-data": "Q0E=",
        } }],
        "users": [{ "name": "u", "user": user }],
    });
    let connection = kubeconfig::parse(kubeconfig.to_string().as_bytes()).expect("it can be used");
    let mut secret = manifest(cluster, &Name::new(ARGO_NAMESPACE, name), &connection);
    for (_, value) in secret["data"].as_object_mut().into_iter().flatten() {
        let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).expect("it is base64");
        let text = String::from_utf8(bytes).expect("it is text");
        *value = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
    }
    secret
}

#[test]
fn the_documented_cluster_becomes_the_documented_secret() {
    let cluster = Name::new("dpf-operator-system", "dpu-cluster-01");
    let user = json!({ "client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ" });
    insta::assert_yaml_snapshot!(legible(&cluster, "dpu-cluster-01-argocd", &user));
}

#[test]
fn of_two_clusters_of_one_name_the_younger_has_a_longer_one() {
    let mut store = Store::default();
    for (namespace, second) in [("dpf", 1), ("lab", 2)] {
        let cluster = json!({ "metadata": {
            "namespace": namespace,
            "name": "dpu-cluster-01",
            "resourceVersion": second.to_string(),
            "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
        } });
        store.clusters.observe(Name::of(&cluster), Cluster::read(&cluster));
    }
    let names = ["dpf", "lab"].map(|namespace| secret_name(&store, &Name::new(namespace, "dpu-cluster-01")));
    assert_eq!(names[0].name, "dpu-cluster-01-argocd");
    let younger = Name::new("lab", "dpu-cluster-01");
    insta::assert_yaml_snapshot!(legible(&younger, &names[1].name, &json!({ "token": "t" })));
}
