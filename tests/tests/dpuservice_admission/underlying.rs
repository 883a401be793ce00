//! Tests the requirement "Each field in the DPUService will be validated in the same way as the underlying ArgoCD field or
//! underlying Kubernetes type". It compares the results for a DPUService with those of a real server, for the same values in the
//! kinds that a chart creates, and with those of Helm.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context as _, ensure};
use lockstep_engine::yaml;
use lockstep_tests::admission::{ask, shown};
use lockstep_tests::control_plane::helm;

use super::{Value, daemon_set, json, labels, real, source, strategy};

/// A value for a field of `serviceDaemonSet`, and a Kubernetes object with the same value.
struct Case {
    field: &'static str,
    value: Value,
    underlying: Value,
}

fn daemon_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
    })
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let labels::Names { good, annotations, bad } = labels::Names::new();
    for name in good.iter().chain(&annotations).chain(&bad) {
        for field in ["labels", "annotations"] {
            let mut underlying = daemon_set();
            underlying["metadata"][field] = json!({name: "x"});
            cases.push(Case { field, value: json!({name: "x"}), underlying });
        }
    }
    let (good, bad) = labels::values();
    for value in good.iter().chain(&bad) {
        let mut underlying = daemon_set();
        underlying["metadata"]["labels"] = json!({"a": value});
        cases.push(Case { field: "labels", value: json!({"a": value}), underlying });
    }
    for term in labels::terms() {
        let selector = json!({"matchExpressions": [term]});
        let underlying = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a"},
            "spec": {"podSelector": selector},
        });
        cases.push(Case { field: "nodeSelector", value: selector, underlying });
    }
    let quantities =
        daemon_set::all_quantities().into_iter().map(|value| json!({"limits": {"memory": value}}));
    let names = daemon_set::NAMES.iter().map(|name| json!({"limits": {*name: 1}}));
    let pairs = daemon_set::pairs().into_iter();
    let pairs =
        pairs.map(|(name, request, limit)| daemon_set::of_pair(name, request.as_ref(), limit.as_ref()));
    for value in quantities.chain(names).chain(pairs) {
        let mut underlying = daemon_set();
        underlying["spec"]["template"]["spec"]["containers"][0]["resources"] = value.clone();
        cases.push(Case { field: "resources", value, underlying });
    }
    for value in strategy::strategies() {
        let mut underlying = daemon_set();
        underlying["spec"]["updateStrategy"] = value.clone();
        cases.push(Case { field: "updateStrategy", value, underlying });
    }
    cases
}

/// The snapshot has the cases in which the results for a DPUService and the underlying kind differ, with the result of
/// Kubernetes.
#[tokio::test]
async fn kubernetes_says_the_same() -> anyhow::Result<()> {
    let court = real("kubernetes_says_the_same").await?;
    let (mut agreed, mut differences) = (0, String::new());
    for Case { field, value, underlying } in cases() {
        let mut object = court.sound();
        object["spec"]["serviceDaemonSet"] = json!({field: value});
        let ours = court.judge(&object).await?;
        let (group, plural) = match underlying["kind"].as_str() {
            Some("DaemonSet") => ("apps/v1", "daemonsets"),
            _ => ("networking.k8s.io/v1", "networkpolicies"),
        };
        let path = format!("/apis/{group}/namespaces/{}/{plural}?dryRun=All", court.namespace);
        let theirs = ask(&court.client, "POST", &path, "application/json", &underlying).await?;
        if (ours == "taken") == theirs.is_ok() {
            agreed += 1;
        } else {
            let theirs = theirs.map_or_else(|refusal| refusal, |_| "taken".to_owned());
            write!(differences, "{field} {}\n    ours:   {ours}\n    theirs: {theirs}\n", shown(&value))?;
        }
    }
    insta::assert_snapshot!("kubernetes_says_the_same", format!("{agreed} alike, and:\n{differences}"));
    Ok(())
}

/// Returns whether Helm accepts each of these as the version of a dependency.
fn asked_of_helm(versions: &[&str]) -> anyhow::Result<Vec<bool>> {
    let chart = tempfile::tempdir()?;
    let write = |path: &str, object: Value| {
        let path = chart.path().join(path);
        std::fs::create_dir_all(path.parent().context("no folder")?)?;
        anyhow::Ok(std::fs::write(path, yaml::write(&object)?)?)
    };
    let dependencies: Vec<Value> = (versions.iter().enumerate())
        .map(|(i, version)| json!({"name": "part", "alias": format!("part-{i}"), "version": version, "repository": ""}))
        .collect();
    let described = |name: &str| json!({"apiVersion": "v2", "name": name, "version": "1.0.0"});
    let mut whole = described("whole");
    whole["dependencies"] = json!(dependencies);
    write("Chart.yaml", whole)?;
    write("charts/part/Chart.yaml", described("part"))?;
    let output = Command::new(helm()?).args(["dependency", "list"]).arg(chart.path()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout)?;
    let rows: Vec<&str> = table.lines().skip(1).filter(|row| !row.is_empty()).collect();
    ensure!(rows.len() == versions.len(), "{table}");
    Ok(rows.iter().map(|row| !row.trim_end().ends_with("invalid version")).collect())
}

/// The snapshot has the versions for which the results of a DPUService and Helm differ.
#[tokio::test]
async fn helm_says_the_same() -> anyhow::Result<()> {
    let court = real("helm_says_the_same").await?;
    let (mut agreed, mut differences) = (0, String::new());
    for (version, taken_by_helm) in source::VERSIONS.iter().zip(asked_of_helm(&source::VERSIONS)?) {
        let mut object = court.sound();
        object["spec"]["source"]["version"] = json!(version);
        let taken = court.judge(&object).await? == "taken";
        if taken == taken_by_helm {
            agreed += 1;
        } else {
            writeln!(differences, "{version:?}: taken {taken}, by Helm {taken_by_helm}")?;
        }
    }
    insta::assert_snapshot!("helm_says_the_same", format!("{agreed} alike, and:\n{differences}"));
    Ok(())
}
