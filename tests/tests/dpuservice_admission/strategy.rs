//! Tests update strategies, and the limits of a rollout.

use super::{Court, Value, json};

const STRATEGY: &str = "serviceDaemonSet.updateStrategy";

/// Returns valid and invalid update strategies.
pub(super) fn strategies() -> Vec<Value> {
    let mut cases = vec![
        json!({}),
        json!({"type": "RollingUpdate"}),
        json!({"type": "OnDelete"}),
        json!({"rollingUpdate": {}}),
        json!({"type": "RollingUpdate", "rollingUpdate": {}}),
        json!({"type": "rollingUpdate"}),
        json!({"type": "Recreate"}),
        json!({"type": ""}),
    ];
    let mut number = |value: Value| {
        cases.push(json!({"rollingUpdate": {"maxUnavailable": value}}));
        cases.push(json!({"rollingUpdate": {"maxSurge": value, "maxUnavailable": 0}}));
    };
    for count in [0_i64, 1, 1000, i64::from(i32::MAX), i64::from(i32::MAX) + 1, -1] {
        number(json!(count));
    }
    for text in [
        "0%", "1%", "10%", "99%", "100%", "101%", "1000%", "007%", "-1%", "1.5%", "%", "1", "0", "", "10 %",
        "10%%", " 10%", "10%\n", "ten%",
    ] {
        number(json!(text));
    }
    for (surge, unavailable) in [
        (json!(0), json!(0)),
        (json!(1), json!(1)),
        (json!(1), json!("0%")),
        (json!("10%"), json!(0)),
        (json!("0%"), json!(1)),
        (json!(0), json!("10%")),
        (json!("000%"), json!(0)),
        (json!("0%"), json!("00%")),
        (json!("10%"), json!("10%")),
    ] {
        cases.push(json!({"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}));
    }
    cases.extend([
        json!({"rollingUpdate": {"maxSurge": 1}}),
        json!({"rollingUpdate": {"maxSurge": 0}}),
        json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 0}}),
        json!({"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 1}}),
    ]);
    cases
}

pub(super) async fn update_strategies(court: Court) -> anyhow::Result<()> {
    insta::assert_snapshot!(
        "update_strategies",
        court.judge_each(STRATEGY, strategies().into_iter().map(Some)).await?
    );
    Ok(())
}

pub(super) async fn limits_of_a_rollout(court: Court) -> anyhow::Result<()> {
    let numbers =
        [1_i64, 1000, i64::from(i32::MAX), i64::from(i32::MAX) + 1, 0, -1].map(|number| json!(number));
    let texts = ["1%", "10%", "100%", "007%", "0%", "000%", "101%", "1.5%", "%", "1", "", "10 %"]
        .map(|text| json!(text));
    let many: Vec<String> = (0..65).map(|number| format!("dpf/{number}")).collect();
    let canaries = [
        json!([]),
        json!(["dpf/dpu-01", "lab/dpu.01"]),
        json!(["dpu-01"]),
        json!(["dpf/a", "dpf/a"]),
        json!(many),
    ]
    .map(|canaries| json!({ "maxUnavailable": 1, "canaries": canaries }));
    let cases =
        numbers.into_iter().chain(texts).map(|limit| json!({ "maxUnavailable": limit })).chain([json!({})]);
    let cases = cases.chain(canaries).chain([json!({ "canaries": ["dpf/dpu-01"] })]);
    insta::assert_snapshot!("limits_of_a_rollout", court.judge_each("rollout", cases.map(Some)).await?);
    Ok(())
}
