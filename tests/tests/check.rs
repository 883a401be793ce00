//! Tests `lockstep check` on a real API server, with the accounts and the CRDs of the chart.

use std::process::Command;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::{Patch, PatchParams};
use lockstep_cli::permissions::{CLASS_RESOURCE_VERBS, NAMESPACECLASS};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_tests::access::{grants, words};
use lockstep_tests::chart::{apply, install, named, render};
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

#[test]
fn the_role_of_the_namespaceclass_operator_grants_what_it_needs() -> anyhow::Result<()> {
    let objects = render(RELEASE, ALL)?;
    let role = named(&objects, "ClusterRole", "check-lockstep-namespaceclass")?;
    let granted = grants(role["rules"].as_array().context("no rules")?);
    let needed = NAMESPACECLASS.into_iter().flat_map(words).collect();
    ensure!(granted.is_superset(&needed), "{:#?}", needed.difference(&granted));
    // The others are for the kinds in classes.
    for other in granted.difference(&needed) {
        let verb = other.split(' ').next().context("no verb")?;
        ensure!(CLASS_RESOURCE_VERBS.split(' ').any(|needed| needed == verb), "{other}");
        ensure!(!other.contains("akuity"), "{other}");
    }
    Ok(())
}
