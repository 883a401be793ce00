//! Tests how the API server stores and shows a DPUService.

use anyhow::Context as _;
use lockstep_tests::admission::MERGE;

use super::{Court, Value, ensure, json, status};

/// The example in "DPUService Controller", "Spec".
const DOCUMENTED: &str = include_str!("documented/example.yaml");
const EXAMPLES: [&str; 3] = [
    include_str!("../../../deploy/examples/dpuservice/minimal.yaml"),
    include_str!("../../../deploy/examples/dpuservice/service-chain.yaml"),
    include_str!("../../../deploy/examples/dpuservice/accelerated.yaml"),
];

pub(super) async fn nothing_is_filled_in(court: Court) -> anyhow::Result<()> {
    let created = court.create(&court.sound()).await?;
    assert_eq!(created["spec"], court.sound()["spec"]);
    Ok(())
}

/// The chart defines its values, so no value is removed or added, not even an empty one.
pub(super) async fn values_are_kept_as_they_are(court: Court) -> anyhow::Result<()> {
    let values = json!({
        "null": null, "empty": {}, "list": [null, {}, [], "", 0], "number": 1.5, "whole": 1.0, "large": 9_007_199_254_740_993_i64,
        "text": "{{ .Values.x }}", "a.b/c d": {"apiVersion": 1, "kind": [], "metadata": "x"},
        "serviceDaemonSet": {"labels": {"anything": {"goes": "here"}}}, "serviceID": 7,
    });
    let mut object = court.sound();
    object["spec"]["values"] = values.clone();
    let created = court.create(&object).await?;
    let mut wanted = values;
    // The server chooses the format of numbers.
    wanted["whole"] = created["spec"]["values"]["whole"].clone();
    ensure!(wanted["whole"].as_f64() == Some(1.0), "{created}");
    assert_eq!(created["spec"]["values"], wanted);
    Ok(())
}

pub(super) async fn unknown_fields_are_pruned_or_rejected(court: Court) -> anyhow::Result<()> {
    let mut object = court.sound();
    object["note"] = json!("no client reads this");
    object["spec"]["source"]["targetRevision"] = json!("1");
    object["spec"]["serviceDaemonSet"] = json!({
        "nodeSelector": {"nodeSelectorTerms": []}, "resources": {"cpu": 1, "claims": []}, "updateStrategy": {"partition": 1},
    });
    let stored = court.ask("POST", "?dryRun=All", "application/json", &object).await?;
    let stored = stored.map_err(anyhow::Error::msg)?;
    let mut wanted = court.sound()["spec"].clone();
    wanted["serviceDaemonSet"] = json!({"nodeSelector": {}, "resources": {}, "updateStrategy": {}});
    assert_eq!(stored["spec"], wanted);
    ensure!(stored.get("note").is_none(), "{stored}");

    let below = "?dryRun=All&fieldValidation=Strict";
    let refusal =
        court.ask("POST", below, "application/json", &object).await?.err().context("it was taken")?;
    insta::assert_snapshot!("unknown_fields_are_pruned_or_rejected", refusal);
    Ok(())
}

pub(super) async fn tables_show_what_matters(court: Court) -> anyhow::Result<()> {
    court.create(&court.sound()).await?;
    let mut results = court.table().await?;
    let patch = json!({ "status": status::status() });
    court.ask("PATCH", "/service/status", MERGE, &patch).await?.map_err(anyhow::Error::msg)?;
    results += &court.table().await?;
    insta::assert_snapshot!("tables_show_what_matters", results);
    Ok(())
}

pub(super) async fn names_are_discovered(court: Court) -> anyhow::Result<()> {
    insta::assert_json_snapshot!("names_are_discovered", court.discovered().await?);
    Ok(())
}

pub(super) async fn the_documented_example_is_taken(court: Court) -> anyhow::Result<()> {
    taken(&court, &[DOCUMENTED]).await
}

pub(super) async fn the_examples_are_taken(court: Court) -> anyhow::Result<()> {
    taken(&court, &EXAMPLES).await
}

/// Checks that each is accepted with strict validation, and that no field is lost.
async fn taken(court: &Court, texts: &[&str]) -> anyhow::Result<()> {
    for (object, stored) in court.take(texts).await? {
        assert_eq!(stored["spec"], object["spec"]);
        // The controller parses every spec that the server accepts, and passes it on unchanged.
        let read: lockstep_crds::dpuservice::DPUService = serde_json::from_value(stored)?;
        let spec: Value = serde_json::to_value(read.spec)?;
        assert_eq!(spec, object["spec"]);
    }
    Ok(())
}
