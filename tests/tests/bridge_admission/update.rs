//! Tests which fields of an existing DPFHCPBridge may change.

use std::fmt::Write as _;

use lockstep_tests::admission::{JSON, MERGE};

use super::{Court, Value, bridge, json, set, spec};

pub(super) async fn what_is_immutable_stays(court: Court) -> anyhow::Result<()> {
    court.create(&bridge(Some(spec()))).await?;
    let mut results = String::new();
    for (field, value) in [
        ("dpuClusterRef", json!({"name": "dpu", "namespace": "dpf-operator-system"})),
        ("dpuClusterRef", json!({"name": "other", "namespace": "dpf-operator-system"})),
        ("dpuClusterRef", json!({"name": "dpu", "namespace": "other"})),
        ("dpuClusterRef", json!({"name": "other", "namespace": "other"})),
        ("dpuClusterRef.name", json!("other")),
        ("dpuClusterRef.namespace", json!("other")),
        ("dpuClusterRef", json!({"name": "", "namespace": "other"})),
        ("baseDomain", json!("clusters.example.com")),
        ("baseDomain", json!("other.example.com")),
        ("baseDomain", json!("Clusters.Example.com")),
    ] {
        results += &court.judge_value(field, &value).await?;
    }
    // These patches remove fields, or remove them and add them again.
    for patch in [
        json!([{"op": "remove", "path": "/spec/dpuClusterRef"}]),
        json!([{"op": "remove", "path": "/spec/dpuClusterRef/namespace"}]),
        json!([{"op": "remove", "path": "/spec/baseDomain"}]),
        json!([{"op": "remove", "path": "/spec/baseDomain"}, {"op": "add", "path": "/spec/baseDomain", "value": "other.example.com"}]),
        json!([{"op": "remove", "path": "/spec/dpuClusterRef"}, {"op": "add", "path": "/spec/dpuClusterRef", "value": {"name": "other", "namespace": "other"}}]),
        json!([{"op": "remove", "path": "/spec/dpuClusterRef"}, {"op": "add", "path": "/spec/dpuClusterRef", "value": spec()["dpuClusterRef"]}]),
    ] {
        writeln!(results, "{patch}\n    {}", court.judge_change("PATCH", JSON, &patch).await?)?;
    }
    insta::assert_snapshot!("what_is_immutable_stays", results);
    Ok(())
}

/// Returns the answers to these changes of a bridge, which is deleted afterwards.
async fn judge_changes(court: &Court, title: &str, spec: Value, changes: &[Value]) -> anyhow::Result<String> {
    let mut results = String::new();
    court.create(&bridge(Some(spec))).await?;
    for change in changes {
        let answer = court.judge_change("PATCH", MERGE, change).await?;
        writeln!(results, "{title}: {change}\n    {answer}")?;
    }
    let deleted = court.ask("DELETE", "/bridge", "application/json", &Value::Null).await?;
    deleted.map_err(anyhow::Error::msg)?;
    Ok(results)
}

pub(super) async fn encryption_is_chosen_at_creation(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    let mut encrypted = spec();
    set(&mut encrypted, "etcdEncryption", Some(json!("Generated")));
    for (title, spec) in [("without", spec()), ("with", encrypted)] {
        let changes = [
            json!({"spec": {"etcdEncryption": null, "clusterType": "dpf-other"}}),
            json!({"spec": {"etcdEncryption": "Generated", "clusterType": "dpf-other"}}),
            json!({"spec": {"clusterType": "dpf-other"}}),
        ];
        results += &judge_changes(&court, title, spec, &changes).await?;
    }
    insta::assert_snapshot!("encryption_is_chosen_at_creation", results);
    Ok(())
}

pub(super) async fn a_pool_is_chosen_at_creation(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    let mut with_pool = spec();
    set(&mut with_pool, "metalLBPool", Some(json!({ "namespace": "metallb-system" })));
    for (title, spec) in [("without", spec()), ("with", with_pool)] {
        let changes = [
            json!({"spec": {"metalLBPool": null}}),
            json!({"spec": {"metalLBPool": {"namespace": "metallb-system"}}}),
            json!({"spec": {"metalLBPool": {"namespace": "other"}}}),
            json!({"spec": {"metalLBVirtualIP": "192.168.1.101"}}),
            json!({"spec": {"exposeThroughLoadBalancer": false, "metalLBVirtualIP": ""}}),
        ];
        results += &judge_changes(&court, title, spec, &changes).await?;
    }
    insta::assert_snapshot!("a_pool_is_chosen_at_creation", results);
    Ok(())
}

pub(super) async fn what_is_mutable_changes(court: Court) -> anyhow::Result<()> {
    court.create(&bridge(Some(spec()))).await?;
    let mut results = String::new();
    for (field, value) in [
        ("ocpReleaseImage", json!("quay.io/openshift-release-dev/ocp-release:4.20.0-multi")),
        ("sshKeySecretRef", json!({"name": "other"})),
        ("pullSecretRef", json!({"name": "other"})),
        ("etcdStorageClass", json!("slow")),
        ("controlPlaneAvailabilityPolicy", json!("SingleReplica")),
        ("infrastructureAvailabilityPolicy", json!("HighlyAvailable")),
        ("exposeThroughLoadBalancer", json!(false)),
        ("metalLBVirtualIP", json!("192.168.1.101")),
        ("metalLBVirtualIP", json!("")),
        ("clusterType", json!("dpf-other")),
    ] {
        results += &court.judge_value(field, &value).await?;
    }
    let node_ports = json!({"spec": {"exposeThroughLoadBalancer": false, "metalLBVirtualIP": null}});
    writeln!(results, "{node_ports}\n    {}", court.judge_change("PATCH", MERGE, &node_ports).await?)?;
    insta::assert_snapshot!("what_is_mutable_changes", results);
    Ok(())
}

pub(super) async fn the_spec_cannot_be_dropped(court: Court) -> anyhow::Result<()> {
    court.create(&bridge(Some(spec()))).await?;
    let mut without = court.stored().await?;
    drop(without.as_object_mut().and_then(|fields| fields.remove("spec")));
    let mut other = spec();
    set(&mut other, "baseDomain", Some(json!("other.example.com")));
    let mut results = String::new();
    for (method, kind, body) in [
        ("PUT", "application/json", without),
        ("PATCH", MERGE, json!({"spec": null})),
        ("PATCH", JSON, json!([{"op": "remove", "path": "/spec"}])),
        (
            "PATCH",
            JSON,
            json!([{"op": "remove", "path": "/spec"}, {"op": "add", "path": "/spec", "value": other}]),
        ),
        (
            "PATCH",
            JSON,
            json!([{"op": "remove", "path": "/spec"}, {"op": "add", "path": "/spec", "value": spec()}]),
        ),
    ] {
        writeln!(results, "{method} {kind}\n    {}", court.judge_change(method, kind, &body).await?)?;
    }
    insta::assert_snapshot!("the_spec_cannot_be_dropped", results);
    Ok(())
}
