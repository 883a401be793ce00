//! What may change in a DPFHCPBridge that exists.

use std::fmt::Write as _;

use super::{Value, World, bridge, json, set, shown, spec};

const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl World {
    /// The verdict on a request that would change the bridge.
    async fn judge_change(&self, method: &str, kind: &str, body: &Value) -> anyhow::Result<String> {
        let below = match kind {
            APPLY => "/bridge?dryRun=All&fieldManager=somebody&force=true",
            _ => "/bridge?dryRun=All",
        };
        let answer = self.ask(method, below, kind, body).await?;
        Ok(answer.map_or_else(
            |refusal| refusal,
            |object| format!("taken, generation {}", object["metadata"]["generation"]),
        ))
    }

    /// The verdicts on one field's new value, by replacement, by merge patch and by application.
    async fn judge_value(&self, field: &str, value: &Value) -> anyhow::Result<String> {
        let mut changed = spec();
        set(&mut changed, field, Some(value.clone()));
        let mut told = format!("{field} {}\n", shown(value));
        let mut replacement = self.stored().await?;
        replacement["spec"] = changed.clone();
        writeln!(told, "    PUT    {}", self.judge_change("PUT", "application/json", &replacement).await?)?;
        let patch = json!({ "spec": changed });
        writeln!(told, "    merge  {}", self.judge_change("PATCH", MERGE, &patch).await?)?;
        writeln!(told, "    apply  {}", self.judge_change("PATCH", APPLY, &bridge(Some(changed))).await?)?;
        Ok(told)
    }

    /// The bridge as it is stored.
    pub(super) async fn stored(&self) -> anyhow::Result<Value> {
        self.ask("GET", "/bridge", "application/json", &Value::Null).await?.map_err(anyhow::Error::msg)
    }
}

pub(super) async fn what_is_immutable_stays(world: World) -> anyhow::Result<()> {
    world.create(&bridge(Some(spec()))).await?;
    let mut told = String::new();
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
        told += &world.judge_value(field, &value).await?;
    }
    // Dropped, and dropped and added again.
    for patch in [
        json!([{"op": "remove", "path": "/spec/dpuClusterRef"}]),
        json!([{"op": "remove", "path": "/spec/dpuClusterRef/namespace"}]),
        json!([{"op": "remove", "path": "/spec/baseDomain"}]),
        json!([{"op": "remove", "path": "/spec/baseDomain"}, {"op": "add", "path": "/spec/baseDomain", "value": "other.example.com"}]),
        json!([{"op": "remove", "path": "/spec/dpuClusterRef"}, {"op": "add", "path": "/spec/dpuClusterRef", "value": {"name": "other", "namespace": "other"}}]),
        json!([{"op": "remove", "path": "/spec/dpuClusterRef"}, {"op": "add", "path": "/spec/dpuClusterRef", "value": spec()["dpuClusterRef"]}]),
    ] {
        writeln!(told, "{patch}\n    {}", world.judge_change("PATCH", JSON, &patch).await?)?;
    }
    insta::assert_snapshot!("what_is_immutable_stays", told);
    Ok(())
}

pub(super) async fn what_is_mutable_changes(world: World) -> anyhow::Result<()> {
    world.create(&bridge(Some(spec()))).await?;
    let mut told = String::new();
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
        told += &world.judge_value(field, &value).await?;
    }
    let node_ports = json!({"spec": {"exposeThroughLoadBalancer": false, "metalLBVirtualIP": null}});
    writeln!(told, "{node_ports}\n    {}", world.judge_change("PATCH", MERGE, &node_ports).await?)?;
    insta::assert_snapshot!("what_is_mutable_changes", told);
    Ok(())
}

pub(super) async fn the_spec_cannot_be_dropped(world: World) -> anyhow::Result<()> {
    world.create(&bridge(Some(spec()))).await?;
    let mut without = world.stored().await?;
    drop(without.as_object_mut().and_then(|fields| fields.remove("spec")));
    let mut other = spec();
    set(&mut other, "baseDomain", Some(json!("other.example.com")));
    let mut told = String::new();
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
        writeln!(told, "{method} {kind}\n    {}", world.judge_change(method, kind, &body).await?)?;
    }
    insta::assert_snapshot!("the_spec_cannot_be_dropped", told);
    Ok(())
}
