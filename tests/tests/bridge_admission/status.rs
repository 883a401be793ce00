//! Tests the status, which is a subresource.

use std::fmt::Write as _;

use lockstep_tests::admission::MERGE;

use super::{Court, Value, bridge, ensure, json, spec};

fn ready() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "All is well.",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    })
}

pub(super) async fn the_status_has_an_endpoint_of_its_own(court: Court) -> anyhow::Result<()> {
    let mut object = bridge(Some(spec()));
    object["status"] = json!({"phase": "Ready"});
    let created = court.create(&object).await?;
    ensure!(created.get("status").is_none(), "a status came with the creation: {created}");

    let both = json!({"spec": {"clusterType": "other"}, "status": {"phase": "Pending"}});
    let answer = court.ask("PATCH", "/bridge/status", MERGE, &both).await?.map_err(anyhow::Error::msg)?;
    ensure!(answer["status"]["phase"] == "Pending" && answer["spec"] == created["spec"], "{answer}");
    ensure!(answer["metadata"]["generation"] == 1, "a status is no new generation: {answer}");

    let both = json!({"spec": {"clusterType": "other"}, "status": {"phase": "Failed"}});
    let changed = court.ask("PATCH", "/bridge", MERGE, &both).await?.map_err(anyhow::Error::msg)?;
    ensure!(changed["status"] == answer["status"] && changed["spec"]["clusterType"] == "other", "{changed}");
    ensure!(changed["metadata"]["generation"] == 2, "a new spec is a new generation: {changed}");

    // The controller writes its status like this: with one field manager for the whole status.
    let mut applied = bridge(None);
    applied["status"] = json!({"phase": "Ready", "conditions": [ready()], "observedGeneration": 2});
    let below = "/bridge/status?fieldManager=lockstep-bridge&force=true";
    let answer = court.ask("PATCH", below, "application/apply-patch+yaml", &applied).await?;
    let answer = answer.map_err(anyhow::Error::msg)?;
    ensure!(answer["status"] == applied["status"], "{answer}");
    Ok(())
}

pub(super) async fn what_a_status_may_say(court: Court) -> anyhow::Result<()> {
    court.create(&bridge(Some(spec()))).await?;
    let condition = |field: &str, value: Value| {
        let mut condition = ready();
        condition[field] = value;
        json!({"conditions": [condition]})
    };
    let mut cases: Vec<Value> =
        ["Pending", "Provisioning", "Ready", "Failed", "Deleting", "", "ready", "Unknown"]
            .map(|phase| json!({"phase": phase}))
            .into();
    cases.extend([
        json!({"phase": null}),
        json!({"hostedClusterRef": {"name": "prod", "namespace": "clusters"}}),
        json!({"hostedClusterRef": {"name": "prod"}}),
        json!({"nodePoolRef": {"name": "", "namespace": "clusters"}}),
        json!({"kubeconfigSecretRef": {}}),
        json!({"apiEndpoint": "https://192.168.1.100:6443", "ingressEndpoint": "*.apps.prod.example.com"}),
        json!({"apiEndpoint": 6443}),
        json!({"observedGeneration": "1"}),
        json!({"observedGeneration": 9_007_199_254_740_993_i64}),
        json!({"conditions": [ready()]}),
        json!({"conditions": [ready(), ready()]}),
        json!({"conditions": [{"type": "Ready"}]}),
        json!({"conditions": [{"status": "True"}]}),
        condition("type", json!("Not Ready")),
        condition("type", json!("")),
        condition("status", json!("true")),
        condition("reason", json!("")),
        condition("reason", json!("Not ready")),
        condition("message", json!("")),
        condition("lastTransitionTime", json!("yesterday")),
        condition("observedGeneration", json!(-1)),
    ]);
    let mut results = String::new();
    for status in cases {
        let body = json!({ "status": status });
        let answer = court.ask("PATCH", "/bridge/status?dryRun=All", MERGE, &body).await?;
        let verdict = answer.map_or_else(|refusal| refusal, |object| format!("taken: {}", object["status"]));
        writeln!(results, "{status}\n    {verdict}")?;
    }
    insta::assert_snapshot!("what_a_status_may_say", results);
    Ok(())
}
