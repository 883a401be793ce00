//! Tests the fields of the chart's source.

use std::fmt::Write as _;

use super::{Court, Value, json};

pub(super) async fn fields_are_required_and_typed(court: Court) -> anyhow::Result<()> {
    let wrong_types = [
        ("source", json!("https://helm.ngc.nvidia.com/nvidia")),
        ("source.repoURL", json!(["https://helm.ngc.nvidia.com/nvidia"])),
        ("source.version", json!(1.1)),
        ("source.chart", json!({"name": "dpu-service"})),
        ("values", json!(["a"])),
        ("serviceID", json!(7)),
        ("serviceDaemonSet", json!(true)),
        ("serviceDaemonSet.nodeSelector", json!("tier=critical")),
        ("serviceDaemonSet.nodeSelector.matchLabels", json!([{"tier": "critical"}])),
        ("serviceDaemonSet.nodeSelector.matchExpressions", json!({"key": "tier", "operator": "Exists"})),
        ("serviceDaemonSet.resources", json!("1Gi")),
        ("serviceDaemonSet.resources.requests", json!(["cpu"])),
        ("serviceDaemonSet.resources.limits", json!(1)),
        ("serviceDaemonSet.updateStrategy", json!("OnDelete")),
        ("serviceDaemonSet.updateStrategy.rollingUpdate", json!(1)),
        ("serviceDaemonSet.updateStrategy.rollingUpdate.maxUnavailable", json!(0.5)),
        ("serviceDaemonSet.updateStrategy.rollingUpdate.maxSurge", json!(true)),
        ("serviceDaemonSet.labels", json!(["tier"])),
        ("serviceDaemonSet.labels", json!({"tier": 1})),
        ("serviceDaemonSet.annotations", json!("tier")),
        ("serviceDaemonSet.annotations", json!({"tier": null})),
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
    let url = |length: usize| format!("https://h/{}", "a".repeat(length - 10));
    let mut results = court.judge_texts("source.repoURL", [url(2048), url(2049)]).await?;
    let version = |length: usize| format!("1-{}", "a".repeat(length - 2));
    results += &court.judge_texts("source.version", [String::new(), version(256), version(257)]).await?;
    for (field, longest) in [("source.chart", 250), ("serviceID", 63)] {
        let texts = [0, 1, longest, longest + 1].map(|length| "a".repeat(length));
        results += &court.judge_texts(field, texts).await?;
    }
    insta::assert_snapshot!("lengths_end_at_their_limits", results);
    Ok(())
}

pub(super) async fn repositories(court: Court) -> anyhow::Result<()> {
    let good = [
        "https://helm.ngc.nvidia.com/nvidia",
        "https://helm.ngc.nvidia.com/nvidia/",
        "http://charts",
        "http://10.0.0.1:8080/charts",
        "https://[fd00::1]:8443/charts",
        "https://charts.example.com.",
        "https://Charts.Example.com/A_b/~c/%20/d+e@1",
        "https://charts.example.com/get?channel=stable&arch=arm64",
        "https://charts.example.com?channel=stable",
        "oci://registry.example.com",
        "oci://registry.example.com/",
        "oci://localhost:5000/charts",
        "oci://ghcr.io/team_a/sub.team/x--y/z__0",
    ];
    let bad = [
        "",
        "registry.example.com/charts",
        "//registry.example.com/charts",
        "HTTPS://charts.example.com",
        "Oci://registry.example.com",
        "ftp://charts.example.com",
        "file:///charts",
        "git@github.com:team/charts.git",
        "ssh://git@github.com/team/charts",
        "docker://registry.example.com/charts",
        "https:/charts.example.com",
        "https://",
        "https:///charts",
        "https://:8080/charts",
        "https://charts.example.com:/charts",
        "https://charts.example.com:123456/charts",
        "https://user:password@charts.example.com",
        "https://user@charts.example.com",
        "https://-charts.example.com",
        "https://charts..example.com",
        "https://charts.example.com#top",
        "https://charts.example.com/a b",
        " https://charts.example.com",
        "https://charts.example.com\n",
        "https://chärts.example.com",
        "https://charts.example.com/ä",
        "https://charts.example.com/\u{a0}",
        "https://{{ .Values.host }}/charts",
        "oci://",
        "oci:///charts",
        "oci://registry.example.com/Charts",
        "oci://registry.example.com/charts//team",
        "oci://registry.example.com/-charts",
        "oci://registry.example.com/charts.",
        "oci://registry.example.com/a...b",
        "oci://registry.example.com/a___b",
        "oci://registry.example.com/charts?tag=1",
        "oci://registry.example.com/charts:1.0",
    ];
    insta::assert_snapshot!(
        "repositories",
        court.judge_texts("source.repoURL", good.into_iter().chain(bad)).await?
    );
    Ok(())
}

/// Versions and ranges of versions, the valid ones first.
pub(super) const VERSIONS: [&str; 77] = [
    "1.1.1",
    "v1.1.1",
    "0.0.0",
    "1",
    "1.2",
    "v1",
    "1.2.3-rc.1",
    "1.2.3-0a.b-c.0",
    "1.2.3+build.05",
    "1.2.3-rc.1+build.5",
    "1.2-rc",
    "1.x",
    "1.2.X",
    "v1.*",
    "*",
    "x",
    "^1.2",
    "~1.2.3",
    "~>1",
    "=1.2.3",
    "!=1.2.3",
    ">1",
    ">= 1.2",
    "=> 1.2",
    "<=1",
    "=<1",
    ">=1.2 <2",
    ">=1.2, <2",
    ">=1.2 , <2",
    ">=1.2,<2",
    "1.2 - 1.4.5",
    "^1.2 || ^2",
    "^1.2||>=2.1 <3||4.x",
    ">=1.0.0-0",
    "1.0.20261122093000",
    "latest",
    "stable",
    "HEAD",
    "main",
    "V1.2.3",
    "vv1",
    "v",
    "1.",
    ".1",
    "1..2",
    "1.2.3.4",
    "01.2.3",
    "1.02",
    "1.2.3-",
    "1.2.3-01",
    "1.2.3-a..b",
    "1.2.3-a_b",
    "1.2.3+",
    "1.2.3+a+b",
    "1.2.3_build",
    "1234567890123456789.0.0",
    "-1.2.3",
    "==1.2.3",
    ">",
    "><1",
    "^^1",
    "1.2 -1.4 -",
    "1.2 - ",
    ">=1.2 - 2",
    "^1 |",
    "^1 | ^2",
    "|| ^2",
    "^1 ||",
    "^1 && ^2",
    ">=1.2,,<2",
    ",1",
    " 1.2.3",
    "1.2.3 ",
    "1.2.3\n",
    ">=1\t<2",
    "${VERSION}",
    "sha256:0123",
];

pub(super) async fn versions(court: Court) -> anyhow::Result<()> {
    insta::assert_snapshot!("versions", court.judge_texts("source.version", VERSIONS).await?);
    Ok(())
}

pub(super) async fn charts(court: Court) -> anyhow::Result<()> {
    let good = ["dpu-service", "a", "0", "DPU_Service.v1", "a--b", "a-"];
    let bad =
        ["-a", ".", "..", ".a", "_a", "team/chart", "/a", "a/", "a b", "a:1", "a@1", "a\n", "ä", "a.tgz?"];
    insta::assert_snapshot!("charts", court.judge_texts("source.chart", good.into_iter().chain(bad)).await?);
    Ok(())
}

pub(super) async fn an_oci_registry_has_its_own_rules(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for url in ["https://registry.example.com/Charts", "oci://registry.example.com/charts", "oci://r/Charts"]
    {
        for chart in ["chart", "a.b_c__d---e", "Chart", "a-", "a.-b", "a___b"] {
            let source = json!({"repoURL": url, "version": "1", "chart": chart});
            results += &court.judge_each("source", [Some(source)]).await?;
        }
    }
    insta::assert_snapshot!("an_oci_registry_has_its_own_rules", results);
    Ok(())
}

/// Tests the names of DPUServices, which become values of a label.
pub(super) async fn names(court: Court) -> anyhow::Result<()> {
    let mut results = String::new();
    for name in ["a".to_owned(), "a".repeat(63), "a".repeat(64), "a.b".to_owned(), "A".to_owned()] {
        let mut object = court.sound();
        object["metadata"]["name"] = json!(name);
        writeln!(results, "{} characters: {name:.12}\n    {}", name.len(), court.judge(&object).await?)?;
    }
    insta::assert_snapshot!("names", results);
    Ok(())
}
