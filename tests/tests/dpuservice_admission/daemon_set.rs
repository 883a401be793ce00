//! Tests resources, and several mistakes together.

use super::{Court, Value, json};

const RESOURCES: &str = "serviceDaemonSet.resources";

/// Returns valid and invalid quantities.
pub(super) fn all_quantities() -> Vec<Value> {
    let mut quantities: Vec<Value> = [
        "0",
        "1",
        "+1",
        "1.5",
        "1.",
        ".5",
        "0.000000001",
        "100n",
        "100u",
        "500m",
        "1k",
        "1M",
        "1G",
        "1T",
        "1P",
        "1E",
        "1Ki",
        "1Mi",
        "1.5Gi",
        "1Ti",
        "1Pi",
        "1Ei",
        "1e3",
        "1E3",
        "1e+3",
        "1e-3",
        "9223372036854775807",
        "99999999999999999999999999",
        "-0",
        "",
        " ",
        "-1",
        "-1m",
        "--1",
        "+-1",
        "1 ",
        " 1",
        "1 Gi",
        "1K",
        "1ki",
        "1gi",
        "1g",
        "1Gb",
        "1GiB",
        "1mi",
        "m",
        "Gi",
        ".",
        "1.2.3",
        "1,5",
        "1e",
        "1e1.5",
        "1e3k",
        "0x10",
        "one",
        "½",
        "1\n",
        "Infinity",
        "NaN",
        "${CPU}",
    ]
    .map(Value::from)
    .into();
    quantities.extend([
        json!(0),
        json!(1),
        json!(i64::MAX),
        json!(-1),
        json!(1.0),
        json!(0.5),
        json!(true),
        Value::Null,
    ]);
    quantities.extend([json!("1".repeat(64)), json!("1".repeat(65))]);
    quantities
}

pub(super) async fn quantities(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for quantity in all_quantities() {
        let resources = json!({"limits": {"memory": quantity}});
        results += &court.judge_each(RESOURCES, [Some(resources)]).await?;
    }
    insta::assert_snapshot!("quantities", results);
    Ok(())
}

/// Valid and invalid names of resources.
pub(super) const NAMES: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "hugepages-2Mi",
    "nvidia.com/bf_sf",
    "example.com/A.b",
    "attachable.kubernetes.io/x",
    "pods",
    "storage",
    "CPU",
    "gpu",
    "requests.cpu",
    "",
    "/gpu",
    "nvidia.com/",
    "Nvidia.com/gpu",
    "nvidia.com/gpu/0",
    "nvidia.com/-gpu",
    "nvidia com/gpu",
    "hugepages_2Mi",
];

pub(super) async fn resources(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for name in NAMES {
        results += &court.judge_each(RESOURCES, [Some(json!({"limits": {name: 1}}))]).await?;
    }
    let name = |length: usize| format!("nvidia.com/{}", "a".repeat(length));
    let many = |count: usize| (0..count).map(|i| (format!("nvidia.com/a{i}"), json!(1))).collect::<Value>();
    results += &court
        .judge_each(
            RESOURCES,
            [
                Some(json!({})),
                Some(json!({"requests": {}, "limits": {}})),
                Some(json!({"limits": {name(63): 1}})),
                Some(json!({"limits": {name(64): 1}})),
                Some(json!({"limits": many(32)})),
                Some(json!({"limits": many(33)})),
                Some(json!({"limits": {"b b": 1, "a a": 1, "cpu": 1}})),
            ],
        )
        .await?;
    insta::assert_snapshot!("resources", results);
    Ok(())
}

/// Returns pairs of a request and a limit.
pub(super) fn pairs() -> Vec<(&'static str, Option<Value>, Option<Value>)> {
    let pair = |name, request: Value, limit: Value| (name, Some(request), Some(limit));
    vec![
        ("cpu", Some(json!(1)), None),
        ("cpu", None, Some(json!(1))),
        pair("cpu", json!(1), json!(1)),
        pair("cpu", json!("500m"), json!(1)),
        pair("cpu", json!(1), json!("500m")),
        pair("cpu", json!("300m"), json!("0.3")),
        pair("cpu", json!("301m"), json!("0.3")),
        pair("cpu", json!("0.001"), json!("1m")),
        pair("memory", json!("1Gi"), json!("1Gi")),
        pair("memory", json!("1Gi"), json!("1G")),
        pair("memory", json!("1G"), json!("1Gi")),
        pair("memory", json!("1024Mi"), json!("1Gi")),
        pair("memory", json!("1025Mi"), json!("1Gi")),
        pair("memory", json!("999999999999.999E"), json!("0.001m")),
        pair("memory", json!("0.001m"), json!("999999999999.999Ei")),
        pair("memory", json!("2k"), json!(2000)),
        pair("memory", json!("2001"), json!("2k")),
        pair("kubernetes.io/batch", json!(2), json!(1)),
        ("nvidia.com/bf_sf", Some(json!(1)), None),
        ("nvidia.com/bf_sf", None, Some(json!(1))),
        pair("nvidia.com/bf_sf", json!(1), json!("1")),
        pair("nvidia.com/bf_sf", json!(1), json!(2)),
        pair("nvidia.com/bf_sf", json!(2), json!(1)),
        pair("nvidia.com/bf_sf", json!("1k"), json!(1000)),
    ]
}

/// Returns the resources of a pod for one pair.
pub(super) fn of_pair(name: &str, request: Option<&Value>, limit: Option<&Value>) -> Value {
    let mut resources = json!({});
    if let Some(request) = request {
        resources["requests"] = json!({name: request});
    }
    if let Some(limit) = limit {
        resources["limits"] = json!({name: limit});
    }
    resources
}

pub(super) async fn requests_and_limits(court: Court) -> anyhow::Result<()> {
    let mut cases: Vec<Value> = pairs()
        .iter()
        .map(|(name, request, limit)| of_pair(name, request.as_ref(), limit.as_ref()))
        .collect();
    cases.extend([
        json!({"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "2Mi", "cpu": 1}}),
        json!({"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"cpu": 1}}),
        json!({"requests": {"memory": 2, "cpu": 2}, "limits": {"memory": 1, "cpu": 1}}),
        json!({"requests": {"cpu": 2, "b.io/x": 2, "a.io/x": 2}, "limits": {"cpu": 1, "b.io/x": 1}}),
        json!({"requests": {"cpu": "two"}, "limits": {"cpu": 1}}),
        // These values are too large or too precise to be compared.
        json!({"requests": {"cpu": "2e0"}, "limits": {"cpu": 1}}),
        json!({"requests": {"cpu": "1234567890123"}, "limits": {"cpu": 1}}),
        json!({"requests": {"cpu": 2}, "limits": {"cpu": "1000000u"}}),
    ]);
    insta::assert_snapshot!(
        "requests_and_limits",
        court.judge_each(RESOURCES, cases.into_iter().map(Some)).await?
    );
    Ok(())
}

pub(super) async fn several_mistakes_are_reported_at_once(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    let malformed = json!({
        "nodeSelector": {"matchLabels": {"a b": "a b"}, "matchExpressions": [{"key": "-", "operator": "In"}]},
        "resources": {"requests": {"cpu": 2, "gpu": 1}, "limits": {"cpu": 1}},
        "updateStrategy": {"type": "OnDelete", "rollingUpdate": {"maxUnavailable": 0}},
        "labels": {"a": "-"},
        "annotations": {"/": ""},
    });
    results += &court.judge_each("serviceDaemonSet", [Some(malformed)]).await?;
    let source = json!({"repoURL": "charts", "version": "latest", "chart": "a/b"});
    results += &court.judge_each("source", [Some(source), Some(json!({}))]).await?;
    insta::assert_snapshot!("several_mistakes_are_reported_at_once", results);
    Ok(())
}
