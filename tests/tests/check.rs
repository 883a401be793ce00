//! Tests `lockstep check` on a real API server, with the accounts and the CRDs of the chart.

use std::process::Command;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use lockstep_cli::permissions::{CLASS_RESOURCE_VERBS, NAMESPACECLASS};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_tests::access::{describe, grants};
use lockstep_tests::chart::{apply, install, kubeconfig, named, only, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::eventually;
use lockstep_tests::program::program;
use serde_json::{Value, json};

const RELEASE: &str = "check";

const ALL: &str = "
namespaceclass: {enabled: true}
bridge: {enabled: true}
dpuservice: {enabled: true}
";

/// Returns the checks of one kind for a controller, with the permissions of its account.
fn check(plane: &ControlPlane, controller: &str, kind: &str) -> anyhow::Result<Vec<Value>> {
    let output = Command::new(program()?)
        .args(["check", "-o", "json", "--namespace", RELEASE, "--controllers", controller])
        .args(["--as", &format!("system:serviceaccount:{RELEASE}:{RELEASE}-lockstep-{controller}")])
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .output()?;
    let document: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let checks = document["checks"].as_array().context("no checks")?.iter();
    Ok(checks.filter(|check| check["check"] == kind).cloned().collect())
}

#[tokio::test]
async fn a_check_accepts_the_chart_and_names_a_missing_permission() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ARGO_NAMESPACE}});
    apply(&client, &namespace).await?;
    install(&client, RELEASE, &render(RELEASE, ALL)?).await?;
    for controller in ["namespaceclass", "bridge", "dpuservice"] {
        for kind in ["CRD", "permissions"] {
            let found = check(&plane, controller, kind)?;
            ensure!(!found.is_empty() && found.iter().all(|check| check["level"] == "OK"), "{found:#?}");
        }
    }

    let roles: Api<ClusterRole> = Api::all(client);
    let rule = json!([{"op": "replace", "path": "/rules/0/verbs", "value": ["get", "list"]}]);
    let patch = Patch::<ClusterRole>::Json(serde_json::from_value(rule)?);
    roles.patch("check-lockstep-namespaceclass", &PatchParams::default(), &patch).await?;
    // The authorizer caches roles.
    eventually("the missing verbs are named", async || {
        let found = check(&plane, "namespaceclass", "permissions")?;
        let message = found[0]["message"].as_str().context("no message")?;
        ensure!(
            found[0]["level"] == "FAIL" && message.ends_with("may not patch/watch namespaces"),
            "{found:#?}"
        );
        Ok(())
    })
    .await
}

/// Runs the container of a rendered pod with the account of the pod. Returns the exit code and the output.
async fn run_pod(plane: &ControlPlane, pod: &Value) -> anyhow::Result<(Option<i32>, String)> {
    let (spec, directory) = (&pod["spec"], tempfile::tempdir()?);
    let account = spec["serviceAccountName"].as_str().context("no account")?;
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig(plane, RELEASE, account).await?)?;
    let arguments = spec["containers"][0]["args"].as_array().context("no arguments")?;
    let output = Command::new(program()?)
        .args(arguments.iter().filter_map(Value::as_str))
        .env("KUBECONFIG", file)
        .output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8(text)?))
}

#[tokio::test]
async fn helm_test_succeeds_once_the_operator_leads_and_fails_without_a_permission() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let objects = render(RELEASE, "{}")?;
    install(&client, RELEASE, &objects).await?;
    let pod = only(&objects, "Pod")?;
    assert_eq!(pod["metadata"]["annotations"]["helm.sh/hook"], "test");

    let (code, text) = run_pod(&plane, pod).await?;
    ensure!(
        code == Some(2) && text.contains("Lease check/check-lockstep-namespaceclass: does not exist"),
        "{text}"
    );

    let program = start(&plane, only(&objects, "Deployment")?).await?;
    eventually("the operator leads", async || {
        let (code, text) = run_pod(&plane, pod).await?;
        ensure!(code == Some(0), "{code:?}: {text}");
        Ok(())
    })
    .await
    .with_context(|| program.log())?;

    let roles: Api<ClusterRole> = Api::all(client);
    roles.delete("check-lockstep-namespaceclass", &DeleteParams::default()).await?;
    eventually("the missing permissions are named", async || {
        let (code, text) = run_pod(&plane, pod).await?;
        ensure!(code == Some(2) && text.contains("may not"), "{code:?}: {text}");
        Ok(())
    })
    .await
}

/// Nothing that a user could not fix fails the test: neither a forbidden read of the account nor an optional system.
#[tokio::test]
async fn helm_test_of_the_other_controllers_fails_only_for_missing_systems() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let client = plane.client().await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ARGO_NAMESPACE}});
    apply(&client, &namespace).await?;
    let objects = render(RELEASE, ALL)?;
    install(&client, RELEASE, &objects).await?;
    for controller in ["bridge", "dpuservice"] {
        let deployment = named(&objects, "Deployment", &format!("check-lockstep-{controller}"))?;
        let program = start(&plane, deployment).await?;
        let pod = named(&objects, "Pod", &format!("check-lockstep-{controller}-check"))?;
        eventually("it leads", async || {
            let (code, text) = run_pod(&plane, pod).await?;
            let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("FAIL")).collect();
            let of_systems = failed.iter().filter(|line| line.starts_with("FAIL  system")).count();
            ensure!(code == Some(2) && of_systems > 0 && of_systems == failed.len(), "{text}");
            Ok(())
        })
        .await
        .with_context(|| program.log())?;
    }
    Ok(())
}

#[test]
fn the_role_of_the_namespaceclass_operator_grants_what_it_needs() -> anyhow::Result<()> {
    let objects = render(RELEASE, ALL)?;
    let role = named(&objects, "ClusterRole", "check-lockstep-namespaceclass")?;
    let granted = grants(role["rules"].as_array().context("no rules")?);
    let needed = NAMESPACECLASS.into_iter().flat_map(describe).collect();
    ensure!(granted.is_superset(&needed), "{:#?}", needed.difference(&granted));
    // The others are for the kinds in classes.
    for other in granted.difference(&needed) {
        let verb = other.split(' ').next().context("no verb")?;
        ensure!(CLASS_RESOURCE_VERBS.split(' ').any(|needed| needed == verb), "{other}");
        ensure!(!other.contains("akuity"), "{other}");
    }
    Ok(())
}
