//! Tests labels, annotations and label selectors.

use super::{Court, Value, json};

const LABELS: &str = "serviceDaemonSet.labels";
const ANNOTATIONS: &str = "serviceDaemonSet.annotations";
const SELECTOR: &str = "serviceDaemonSet.nodeSelector";

/// Valid and invalid names of labels. The names in [`Names::annotations`] are valid only for annotations.
pub(super) struct Names {
    pub(super) good: Vec<String>,
    pub(super) annotations: Vec<String>,
    pub(super) bad: Vec<String>,
}

impl Names {
    pub(super) fn new() -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut names = Self {
            good: owned(&[
                "a",
                "0",
                "A",
                "a-b_c.d",
                "A..B",
                "example.com/a",
                "a/b",
                "0.example/A",
                "a-b.c-d/e_f",
            ]),
            annotations: owned(&["Example.com/a", "A/b"]),
            bad: owned(&[
                "", "/", "/a", "a/", "a/b/c", "-a", "a-", ".a", "a.", "_a", "a_", "a b", "a:b", "a\n", "ä",
                "-a/b", "a-/b", "a..b/c", ".a/b", "a./b", "a_b/c", "a\"b", "a'b",
            ]),
        };
        names.good.extend(["a".repeat(63), format!("{}/{}", dns(253), "a".repeat(63))]);
        names.bad.extend(["a".repeat(64), format!("a/{}", "a".repeat(64)), format!("{}/a", dns(254))]);
        names
    }
}

/// Returns a DNS name of this length.
fn dns(length: usize) -> String {
    let label = format!("{}.", "a".repeat(61));
    let mut name = label.repeat(length / label.len());
    name.push_str(&"b".repeat(length - name.len()));
    name
}

pub(super) async fn names_of_labels(court: Court) -> anyhow::Result<()> {
    let Names { good, annotations, bad } = Names::new();
    let mut results = String::new();
    let names: Vec<String> = good.into_iter().chain(annotations).chain(bad).collect();
    for field in [LABELS, "serviceDaemonSet.nodeSelector.matchLabels"] {
        results += &court.judge_each(field, names.iter().map(|name| Some(json!({name: "x"})))).await?;
    }
    results += &court
        .judge_each(
            SELECTOR,
            names.iter().map(|name| Some(json!({"matchExpressions": [{"key": name, "operator": "Exists"}]}))),
        )
        .await?;
    // The first of several mistakes is reported, and at most 64 labels are accepted.
    let many = |count: usize| (0..count).map(|i| (format!("label-{i}"), json!("x"))).collect::<Value>();
    let several = json!({"b b": "x", "a a": "x", "c": "x", "c c": "x"});
    results +=
        &court.judge_each(LABELS, [Some(several), Some(json!({})), Some(many(64)), Some(many(65))]).await?;
    insta::assert_snapshot!("names_of_labels", results);
    Ok(())
}

pub(super) fn values() -> (Vec<String>, Vec<String>) {
    let good = ["", "a", "0", "A", "a-b_c.d", "a..b", "my-app-label"].map(str::to_owned);
    let bad = ["-", "-a", "a-", ".a", "a.", "_a", "a_", "a b", "a/b", "a:b", "a\n", "ä"].map(str::to_owned);
    let (mut good, mut bad) = (good.to_vec(), bad.to_vec());
    good.push("a".repeat(63));
    bad.push("a".repeat(64));
    (good, bad)
}

pub(super) async fn values_of_labels(court: Court) -> anyhow::Result<()> {
    let (good, bad) = values();
    let mut results = String::new();
    for value in good.iter().chain(&bad) {
        results += &court.judge_each(LABELS, [Some(json!({"example.com/a": value}))]).await?;
        results += &court
            .judge_each("serviceDaemonSet.nodeSelector.matchLabels", [Some(json!({"a": value}))])
            .await?;
        let term = json!([{"key": "a", "operator": "In", "values": ["b", value]}]);
        results += &court.judge_each("serviceDaemonSet.nodeSelector.matchExpressions", [Some(term)]).await?;
    }
    insta::assert_snapshot!("values_of_labels", results);
    Ok(())
}

pub(super) async fn names_and_sizes_of_annotations(court: Court) -> anyhow::Result<()> {
    let Names { good, annotations, bad } = Names::new();
    let names = good.into_iter().chain(annotations).chain(bad);
    let mut results =
        court.judge_each(ANNOTATIONS, names.map(|name| Some(json!({name: "any text"})))).await?;
    let most = 256 * 1024;
    results += &court
        .judge_each(
            ANNOTATIONS,
            [
                Some(json!({"a": "x".repeat(most - 1)})),
                Some(json!({"a": "x".repeat(most)})),
                Some(json!({"a": "x".repeat(most + 1)})),
                Some(json!({"a": "x".repeat(most / 2 - 1), "b": "x".repeat(most / 2 - 1)})),
                Some(json!({"a": "x".repeat(most / 2 - 1), "b": "x".repeat(most / 2)})),
                Some(json!({"a": "ä".repeat(most / 2 - 1)})),
                Some(json!({"a": "ä".repeat(most / 2)})),
            ],
        )
        .await?;
    let many = |count: usize| (0..count).map(|i| (format!("note-{i}"), json!("x"))).collect::<Value>();
    results += &court.judge_each(ANNOTATIONS, [Some(many(64)), Some(many(65))]).await?;
    insta::assert_snapshot!("names_and_sizes_of_annotations", results);
    Ok(())
}

/// Returns terms of selectors.
pub(super) fn terms() -> Vec<Value> {
    vec![
        json!({"key": "a", "operator": "In", "values": ["b"]}),
        json!({"key": "a", "operator": "NotIn", "values": ["b", "c", ""]}),
        json!({"key": "a", "operator": "Exists"}),
        json!({"key": "a", "operator": "DoesNotExist"}),
        json!({"key": "a", "operator": "Exists", "values": []}),
        json!({"key": "a", "operator": "In"}),
        json!({"key": "a", "operator": "In", "values": []}),
        json!({"key": "a", "operator": "NotIn"}),
        json!({"key": "a", "operator": "NotIn", "values": []}),
        json!({"key": "a", "operator": "Exists", "values": ["b"]}),
        json!({"key": "a", "operator": "DoesNotExist", "values": ["b"]}),
        json!({"key": "a", "operator": "in", "values": ["b"]}),
        json!({"key": "a", "operator": "Gt", "values": ["1"]}),
        json!({"key": "a", "operator": ""}),
        json!({"key": "", "operator": "Exists"}),
        json!({"key": "a b", "operator": "Exists"}),
    ]
}

pub(super) async fn selectors(court: Court) -> anyhow::Result<()> {
    let selector = |term: Value| Some(json!({"matchExpressions": [term]}));
    let mut results = court.judge_each(SELECTOR, terms().into_iter().map(selector)).await?;
    let incomplete = [
        json!({"operator": "Exists"}),
        json!({"key": "a"}),
        json!({"key": "a", "operator": "In", "values": "b"}),
        json!({"key": "a", "operator": "In", "values": [1]}),
        json!({"key": "a", "operator": "Exists", "values": null}),
        json!("a in (b)"),
    ];
    results += &court.judge_each(SELECTOR, incomplete.into_iter().map(selector)).await?;
    let term = |i: usize| json!({"key": format!("label-{i}"), "operator": "Exists"});
    let terms = |count: usize| json!({"matchExpressions": (0..count).map(term).collect::<Vec<_>>()});
    let values = |count: usize| {
        let values: Vec<String> = (0..count).map(|i| format!("value-{i}")).collect();
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": values}]})
    };
    results += &court
        .judge_each(SELECTOR, [json!({}), terms(64), terms(65), values(256), values(257)].map(Some))
        .await?;
    insta::assert_snapshot!("selectors", results);
    Ok(())
}

pub(super) async fn service_ids(court: Court) -> anyhow::Result<()> {
    let (good, bad) = values();
    insta::assert_snapshot!(
        "service_ids",
        court.judge_texts("serviceID", good.into_iter().chain(bad)).await?
    );
    Ok(())
}
