//! Tests each field of the spec by itself.

use super::{Court, Value, json};

pub(super) async fn fields_are_required_and_typed(court: Court) -> anyhow::Result<()> {
    let wrong_types = [
        ("dpuClusterRef", json!("dpu")),
        ("dpuClusterRef.name", json!(1)),
        ("dpuClusterRef.namespace", json!(["dpf"])),
        ("baseDomain", json!({"name": "example.com"})),
        ("ocpReleaseImage", json!(4.19)),
        ("sshKeySecretRef", json!("ssh")),
        ("pullSecretRef", json!([{"name": "pull"}])),
        ("etcdStorageClass", json!(true)),
        ("controlPlaneAvailabilityPolicy", json!(3)),
        ("infrastructureAvailabilityPolicy", json!(false)),
        ("exposeThroughLoadBalancer", json!("true")),
        ("metalLBVirtualIP", json!(3_232_235_876_u32)),
        ("clusterType", json!(["dpf-test"])),
    ];
    let mut results = String::new();
    for (field, wrong) in wrong_types {
        results += &court.judge_each(field, [None, Some(Value::Null), Some(wrong)]).await?;
    }
    insta::assert_snapshot!("fields_are_required_and_typed", results);
    Ok(())
}

/// Tests each limit at and beyond its bound. Lengths are in characters, not in bytes.
pub(super) async fn lengths_end_at_their_limits(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for (field, shortest, longest) in [
        ("dpuClusterRef.name", 1, 253),
        ("dpuClusterRef.namespace", 1, 63),
        ("etcdStorageClass", 1, 253),
        ("clusterType", 1, 63),
        ("ocpReleaseImage", 10, 512),
    ] {
        results += &court
            .judge_texts(
                field,
                [shortest - 1, shortest, longest, longest + 1].map(|length| "a".repeat(length)),
            )
            .await?;
    }
    for field in ["dpuClusterRef.name", "etcdStorageClass"] {
        results += &court.judge_texts(field, [253, 254].map(|length| "ü".repeat(length))).await?;
    }
    let domain = |length: usize| format!("{}.{}", "a".repeat(63), "b".repeat(length - 64));
    results += &court
        .judge_texts("baseDomain", ["a.b".to_owned(), "a.bc".to_owned(), domain(253), domain(254)])
        .await?;
    insta::assert_snapshot!("lengths_end_at_their_limits", results);
    Ok(())
}

pub(super) async fn base_domains(court: Court) -> anyhow::Result<()> {
    let good = ["example.com", "a-b.c-d-e.example.com", "0.1.io", "xn--mnchen-3ya.de", "1.2.3.example"];
    let bad = [
        "localhost",
        "example",
        ".example.com",
        "example.com.",
        "a..example.com",
        "-a.example.com",
        "a-.example.com",
        "a--b.example.com",
        "Example.com",
        "a_b.example.com",
        "a b.example.com",
        "*.example.com",
        "example.c",
        "example.123",
        "192.168.1.1",
        "example.com:6443",
        "https://example.com",
        "example.com\n",
        "münchen.de",
    ];
    insta::assert_snapshot!(
        "base_domains",
        court.judge_texts("baseDomain", good.into_iter().chain(bad)).await?
    );
    Ok(())
}

pub(super) async fn release_images(court: Court) -> anyhow::Result<()> {
    let digest = "0123456789abcdef".repeat(2);
    let digests = [
        format!("quay.io/ocp/release@sha256:{digest}"),
        format!("quay.io/ocp/release:4.19.0@sha256:{digest}"),
    ];
    let good = [
        "quay.io/openshift-release-dev/ocp-release:4.15.0-x86_64",
        "registry.example.com:5000/ocp_release:4.19.0-multi",
        "registry.example.com/OCP/Release:4.19.0-RC.1",
        "localhost/release",
        "10.0.0.1:5000/release",
        "REGISTRY/R",
        "quay.io/a/b:",
        "a@:/._-@:/.",
    ];
    let bad = [
        "",
        "quay.io/a",
        "/quay.io/openshift",
        "-quay.io/openshift",
        "_quay.io/openshift",
        "@sha256:0123456789",
        "quay.io/openshift release",
        "quay.io/openshift:4.19.0+1",
        "quay.io/openshift?tag=1",
        "quay.io/openshift:4.19.0\n",
        "quay.io/öpenshift",
        "docker://quay.io/openshift#1",
    ];
    let mut results = court.judge_texts("ocpReleaseImage", digests).await?;
    results += &court.judge_texts("ocpReleaseImage", good.into_iter().chain(bad)).await?;
    insta::assert_snapshot!("release_images", results);
    Ok(())
}

pub(super) async fn cluster_types(court: Court) -> anyhow::Result<()> {
    let good = ["a", "0", "dpf-production", "a--b", "4-19"];
    let bad = ["-", "-a", "a-", "Dpf", "a.b", "a_b", "a b", "a/b", "a\n", "ü"];
    insta::assert_snapshot!(
        "cluster_types",
        court.judge_texts("clusterType", good.into_iter().chain(bad)).await?
    );
    Ok(())
}

pub(super) async fn policies(court: Court) -> anyhow::Result<()> {
    let values =
        ["HighlyAvailable", "SingleReplica", "", "highlyAvailable", "HighlyAvailable ", "Single", "3"];
    let mut results = court.judge_texts("controlPlaneAvailabilityPolicy", values).await?;
    results += &court.judge_texts("infrastructureAvailabilityPolicy", values).await?;
    insta::assert_snapshot!("policies", results);
    Ok(())
}

/// Names of Secrets may be omitted, as in every reference of Kubernetes: the controller reports that they are missing.
pub(super) async fn references(court: Court) -> anyhow::Result<()> {
    let secrets = [
        json!({}),
        json!({"name": ""}),
        json!({"name": null}),
        json!({"name": "pull", "namespace": "other"}),
        json!({"name": "No Secret's Name"}),
        json!({"name": 1}),
    ];
    let mut results = String::new();
    for field in ["sshKeySecretRef", "pullSecretRef"] {
        results += &court.judge_each(field, secrets.clone().map(Some)).await?;
    }
    let clusters = [
        json!({}),
        json!({"name": "dpu"}),
        json!({"namespace": "dpf"}),
        json!({"name": "", "namespace": ""}),
        json!({"name": "Any Name", "namespace": "any.namespace"}),
        json!({"name": "dpu", "namespace": "dpf", "kind": "DPUCluster"}),
    ];
    results += &court.judge_each("dpuClusterRef", clusters.map(Some)).await?;
    insta::assert_snapshot!("references", results);
    Ok(())
}

pub(super) async fn etcd_encryption(court: Court) -> anyhow::Result<()> {
    let values = [json!("Generated"), json!("generated"), json!(""), json!(true), Value::Null];
    insta::assert_snapshot!("etcd_encryption", court.judge_each("etcdEncryption", values.map(Some)).await?);
    Ok(())
}

pub(super) async fn metallb_pools(court: Court) -> anyhow::Result<()> {
    let namespace = |namespace: &str| json!({ "namespace": namespace });
    let values = [
        namespace("metallb-system"),
        namespace(&"n".repeat(63)),
        namespace(&"n".repeat(64)),
        namespace(""),
        namespace("metallb_system"),
        namespace("-"),
        json!({ "namespace": 1 }),
        json!({}),
        json!("metallb-system"),
        Value::Null,
    ];
    insta::assert_snapshot!("metallb_pools", court.judge_each("metalLBPool", values.map(Some)).await?);
    Ok(())
}

pub(super) async fn networks_and_capabilities_are_those_that_hypershift_accepts(
    court: Court,
) -> anyhow::Result<()> {
    let networks = [
        json!({}),
        json!({"clusterNetwork": "10.128.0.0/14"}),
        json!({"clusterNetwork": "fd01::/48", "serviceNetwork": "fd02::/112"}),
        json!({"serviceNetwork": "10.132.0.0/14"}),
        json!({"clusterNetwork": "10.0.0.0/8", "serviceNetwork": "10.0.0.0/8"}),
        json!({"clusterNetwork": "10.128.0.0"}),
        json!({"clusterNetwork": "10.128.0.0/14\n"}),
        json!({"clusterNetwork": ["10.128.0.0/14"]}),
        json!({"serviceNetwork": ""}),
    ];
    let capabilities = [
        json!({}),
        json!({"enabled": ["baremetal"], "disabled": ["Console", "Ingress"]}),
        json!({"disabled": ["Ingress"]}),
        json!({"enabled": ["Insights"], "disabled": ["Insights"]}),
        json!({"disabled": ["Insights", "Insights"]}),
        json!({"disabled": ["insights"]}),
        json!({"disabled": "Insights"}),
        json!({"disabled": null}),
    ];
    let mut results = court.judge_each("networking", networks.map(Some)).await?;
    results += &court.judge_each("capabilities", capabilities.map(Some)).await?;
    insta::assert_snapshot!("networks_and_capabilities_are_those_that_hypershift_accepts", results);
    Ok(())
}
