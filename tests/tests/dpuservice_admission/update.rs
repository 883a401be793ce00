//! Tests which fields of an existing DPUService may change.

use std::fmt::Write as _;

use lockstep_tests::admission::{JSON, MERGE};

use super::{Court, json};

pub(super) async fn everything_may_change(court: Court) -> anyhow::Result<()> {
    court.create(&court.sound()).await?;
    let mut results = String::new();
    for (field, value) in [
        ("source", json!({"repoURL": "oci://registry.example.com/charts", "version": "2", "chart": "other"})),
        ("source.version", json!("1.2.x")),
        ("source.version", json!("latest")),
        ("values", json!({"a": {"b": null}})),
        ("serviceID", json!("chain")),
        ("serviceID", json!("")),
        ("serviceDaemonSet", json!({"labels": {"tier": "critical"}})),
        ("serviceDaemonSet", json!({"labels": {"tier": "critical!"}})),
        ("serviceDaemonSet.updateStrategy.rollingUpdate.maxSurge", json!(1)),
    ] {
        results += &court.judge_value(field, &value).await?;
    }
    insta::assert_snapshot!("everything_may_change", results);
    Ok(())
}

pub(super) async fn the_spec_cannot_be_dropped(court: Court) -> anyhow::Result<()> {
    court.create(&court.sound()).await?;
    let mut without = court.stored().await?;
    drop(without.as_object_mut().and_then(|fields| fields.remove("spec")));
    let mut results = String::new();
    writeln!(results, "PUT without\n    {}", court.judge_change("PUT", "application/json", &without).await?)?;
    for (kind, body) in [
        (MERGE, json!({"spec": null})),
        (MERGE, json!({"spec": {"source": null}})),
        (MERGE, json!({"spec": {"source": {"version": null}}})),
        (JSON, json!([{"op": "remove", "path": "/spec"}])),
    ] {
        writeln!(results, "{body}\n    {}", court.judge_change("PATCH", kind, &body).await?)?;
    }
    insta::assert_snapshot!("the_spec_cannot_be_dropped", results);
    Ok(())
}
