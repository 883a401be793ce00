//! Tests the status, which is a subresource.

use std::fmt::Write as _;

use lockstep_tests::admission::{APPLY, MERGE};

use super::{Court, Value, ensure, json};

fn ready() -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": "AllClustersReady", "message": "All is well.",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    })
}

/// Returns a status as the controller writes it.
pub(super) fn status() -> Value {
    json!({
        "observedGeneration": 1,
        "conditions": [ready()],
        "rollout": {
            "sync": "OutOfSync", "health": "Degraded", "clusters": "1/2",
            "staleSince": {"dpu/dpu-cluster-02": "2026-01-01T00:00:00Z"},
        },
        "sync": {
            "dpu-cluster-01": {"status": "Synced", "revision": "1.1.1"},
            "dpu/dpu-cluster-02": {"status": "OutOfSync"},
        },
        "health": {
            "dpu-cluster-01": {"status": "Healthy", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            "dpu/dpu-cluster-02": {"status": "Degraded", "message": "no node is left"},
        },
        "resources": {"dpu-cluster-01": [
            {"group": "apps", "version": "v1", "kind": "DaemonSet", "namespace": "default", "name": "service", "status": "Synced",
             "health": {"status": "Healthy"}},
        ]},
        "history": {"dpu-cluster-01": [
            {"id": 0, "revision": "1.1.1", "deployedAt": "2026-01-01T00:00:00Z", "source": {"repoURL": "https://helm.ngc.nvidia.com/nvidia"}},
        ]},
        "applicationConditions": {"dpu/dpu-cluster-02": [
            {"type": "SyncError", "message": "it failed", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ]},
        "reconciledAt": {"dpu-cluster-01": "2026-01-01T00:00:00Z"},
        "operationState": {"dpu-cluster-01": {"phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "retryCount": 2}},
        "sourceType": {"dpu-cluster-01": "Helm"},
        "summary": {"dpu-cluster-01": {"images": ["nvcr.io/nvidia/service:1.1.1"]}},
    })
}

pub(super) async fn the_status_has_an_endpoint_of_its_own(court: Court) -> anyhow::Result<()> {
    let mut object = court.sound();
    object["status"] = status();
    let created = court.create(&object).await?;
    ensure!(created.get("status").is_none(), "a status came with the creation: {created}");

    let both = json!({"spec": {"serviceID": "other"}, "status": {"rollout": {"clusters": "0/1"}}});
    let answer = court.ask("PATCH", "/service/status", MERGE, &both).await?.map_err(anyhow::Error::msg)?;
    ensure!(
        answer["status"]["rollout"] == json!({"clusters": "0/1"}) && answer["spec"] == created["spec"],
        "{answer}"
    );
    ensure!(answer["metadata"]["generation"] == 1, "a status is no new generation: {answer}");

    let changed = court.ask("PATCH", "/service", MERGE, &both).await?.map_err(anyhow::Error::msg)?;
    ensure!(changed["status"] == answer["status"] && changed["spec"]["serviceID"] == "other", "{changed}");
    ensure!(changed["metadata"]["generation"] == 2, "a new spec is a new generation: {changed}");

    // The controller writes its status like this: with one field manager for the whole status.
    let below = "/service/status?fieldManager=lockstep-dpuservice&force=true&fieldValidation=Strict";
    let mut whole = court.sound();
    drop(whole.as_object_mut().and_then(|fields| fields.remove("spec")));
    whole["status"] = status();
    let answer = court.ask("PATCH", below, APPLY, &whole).await?.map_err(anyhow::Error::msg)?;
    ensure!(answer["status"] == status(), "{answer}");
    for map in
        ["sync", "health", "resources", "history", "reconciledAt", "operationState", "sourceType", "summary"]
    {
        whole["status"][map] = json!({});
    }
    let answer = court.ask("PATCH", below, APPLY, &whole).await?.map_err(anyhow::Error::msg)?;
    ensure!(answer["status"]["sync"] == json!({}) && answer["status"]["summary"] == json!({}), "{answer}");
    ensure!(answer["status"]["applicationConditions"] == status()["applicationConditions"], "{answer}");
    Ok(())
}

pub(super) async fn what_a_status_may_say(court: Court) -> anyhow::Result<()> {
    court.create(&court.sound()).await?;
    let mut results = String::new();
    for status in [
        json!({}),
        json!({"observedGeneration": "1"}),
        json!({"rollout": {"sync": "Synced", "more": 1}}),
        json!({"rollout": null}),
        json!({"rollout": {"clusters": 3}}),
        json!({"rollout": {"staleSince": {"a": "yesterday"}}}),
        json!({"sync": {"a": {}}}),
        json!({"sync": {"a": "Synced"}}),
        json!({"sync": {"a": {"status": "Synced", "comparedTo": {}}}}),
        json!({"sync": [{"status": "Synced"}]}),
        json!({"health": {"a": {"status": "Healthy", "lastTransitionTime": "yesterday"}}}),
        json!({"resources": {"a": [{"anything": [1, null, {"b": 2.5}]}]}}),
        json!({"resources": {"a": ["DaemonSet"]}}),
        json!({"history": {"a": {}}}),
        json!({"applicationConditions": {"a": [{"type": "SyncError", "message": ""}, {"type": "SyncError", "message": "b"}]}}),
        json!({"applicationConditions": {"a": [{}]}}),
        json!({"reconciledAt": {"a": "2026-01-01"}}),
        json!({"operationState": {"a": {"phase": "Running", "operation": {"sync": {"revision": "1"}}}}}),
        json!({"operationState": {"a": "Running"}}),
        json!({"sourceType": {"a": 1}}),
        json!({"summary": {"a": {"images": []}, "b/c": {}}}),
        json!({"conditions": [ready(), ready()]}),
        json!({"conditions": [{"type": "Ready"}]}),
    ] {
        let body = json!({ "status": status });
        let answer = court.ask("PATCH", "/service/status?dryRun=All", MERGE, &body).await?;
        let verdict = answer.map_or_else(|refusal| refusal, |object| format!("taken: {}", object["status"]));
        writeln!(results, "{status}\n    {verdict}")?;
    }
    insta::assert_snapshot!("what_a_status_may_say", results);
    Ok(())
}
