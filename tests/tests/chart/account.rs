//! Tests that the operator works with the permissions that the chart grants, and needs all of them.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lockstep_tests::access::{grants, needs_all_of};
use lockstep_tests::chart::{install, named, only, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::user::User;
use serde_json::{Value, json};

/// The namespace that is deleted at the end.
const LEAVING: &str = "chart-leaving";
const LABEL: &str = "namespaceclass.akuity.io/name";

/// Permissions that no request of the operator needs. Owner references that block the deletion of owners need them if the
/// admission plugin `OwnerReferencesPermissionEnforcement` is enabled, which it is not on the test control plane.
const UNUSED: [&str; 2] =
    ["update  namespaces/finalizers ", "update namespaceclass.akuity.io namespaceclassbindings/finalizers "];

/// How often a namespace switches to each of two classes.
const ROUNDS: u64 = 3;
/// How long the count of an Event may lag: half a minute, plus a margin for a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);
/// The interval between checks of the count.
const PAUSE: Duration = Duration::from_secs(1);

/// Returns one object of each kind that the chart grants by default.
fn one_of_each(value: &str) -> Value {
    let labels = json!({"value": value});
    json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": value}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"a": value}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker", "labels": labels}},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"},
         "spec": {"limits": [{"type": "Container", "default": {"cpu": value}}]}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": {"pods": value}}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "deny", "labels": labels},
         "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    ])
}

fn class(name: &str, resources: &Value) -> Value {
    json!({
        "apiVersion": "namespaceclass.akuity.io/v1alpha1",
        "kind": "NamespaceClass",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    })
}

fn namespace(name: &str, class: Option<&str>) -> Value {
    let labels = class.map(|class| json!({LABEL: class}));
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

async fn label(user: &User, namespace: &str, class: Option<&str>) -> anyhow::Result<()> {
    user.merge("Namespace", "", namespace, &json!({"metadata": {"labels": {LABEL: class}}})).await
}

/// Waits until a binding reports that this generation of the class is applied.
async fn ready(user: &User, namespace: &str, class: &str) -> anyhow::Result<()> {
    let class_now = user.get("NamespaceClass", "", class).await?.context("no class")?;
    let generation = &class_now["metadata"]["generation"];
    let binding = ("NamespaceClassBinding", namespace, namespace);
    let is_ready = |binding: &Value| {
        let status = &binding["status"];
        status["observedClassName"] == class
            && status["observedClassGeneration"] == *generation
            && status["conditions"].as_array().into_iter().flatten().all(|it| it["status"] == "True")
    };
    user.until(&format!("{namespace} is ready"), binding, is_ready).await.map(drop)
}

/// Runs all flows of the specification, and drift, except the deletion of a namespace.
async fn live(user: &User) -> anyhow::Result<()> {
    let team = "chart-team";
    user.create(&class("chart-all", &one_of_each("1"))).await?;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}});
    user.create(&class("chart-one", &json!([other]))).await?;
    user.create(&namespace(team, Some("chart-all"))).await?;
    ready(user, team, "chart-all").await?;

    user.delete("ConfigMap", team, "settings").await?;
    user.until("what was deleted is back", ("ConfigMap", team, "settings"), |_| true).await?;
    user.merge("ResourceQuota", team, "quota", &json!({"spec": {"hard": {"pods": "7"}}})).await?;
    let is_undone = |quota: &Value| quota["spec"]["hard"]["pods"] == "1";
    user.until("the edit is undone", ("ResourceQuota", team, "quota"), is_undone).await?;

    // Updates the class: changes each of its resources, then removes one.
    let update = json!({"spec": {"resources": one_of_each("2")}});
    user.merge("NamespaceClass", "", "chart-all", &update).await?;
    ready(user, team, "chart-all").await?;
    let settings = user.get("ConfigMap", team, "settings").await?.context("no ConfigMap")?;
    ensure!(settings["data"]["a"] == "2", "{settings:#}");
    let mut fewer = one_of_each("2");
    fewer.as_array_mut().context("a list")?.retain(|resource| resource["kind"] != "Secret");
    user.merge("NamespaceClass", "", "chart-all", &json!({"spec": {"resources": fewer}})).await?;
    ready(user, team, "chart-all").await?;
    user.gone("Secret", team, "token").await?;

    label(user, team, Some("chart-one")).await?;
    ready(user, team, "chart-one").await?;
    for (kind, name) in [
        ("ConfigMap", "settings"),
        ("ServiceAccount", "worker"),
        ("LimitRange", "limits"),
        ("ResourceQuota", "quota"),
        ("NetworkPolicy", "deny"),
    ] {
        user.gone(kind, team, name).await?;
    }

    label(user, team, None).await?;
    user.gone("NamespaceClassBinding", team, team).await?;
    user.gone("ConfigMap", team, "other").await?;

    // Deletes a class.
    user.create(&namespace(LEAVING, Some("chart-one"))).await?;
    ready(user, LEAVING, "chart-one").await?;
    user.delete("NamespaceClass", "", "chart-one").await?;
    user.gone("NamespaceClassBinding", LEAVING, LEAVING).await?;
    user.gone("ConfigMap", LEAVING, "other").await?;
    label(user, LEAVING, Some("chart-all")).await?;
    ready(user, LEAVING, "chart-all").await
}

/// Deletes a namespace. After that, no client can create an Event in it.
async fn leave(user: &User) -> anyhow::Result<()> {
    user.delete("Namespace", "", LEAVING).await?;
    user.gone("Namespace", "", LEAVING).await
}

/// Checks that a repeated Event increases the count of the first one each time, also after its last occurrence.
async fn has_events_counted(user: &User) -> anyhow::Result<()> {
    let (team, classes) = ("chart-counted", ["chart-back", "chart-forth"]);
    for name in classes {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        user.create(&class(name, &json!([map]))).await?;
    }
    user.create(&namespace(team, None)).await?;
    for _ in 0..ROUNDS {
        for class in classes {
            label(user, team, Some(class)).await?;
            ready(user, team, class).await?;
        }
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let events = user.list("Event", team).await?;
        let events = events.iter().filter(|event| event["reason"] == "ResourcesApplied");
        let counts: Vec<u64> = events.map(|event| event["series"]["count"].as_u64().unwrap_or(1)).collect();
        if counts.len() == classes.len() && counts.iter().all(|count| *count >= ROUNDS) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{counts:?}: {:#?}", user.events(team, team).await?);
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test]
async fn the_operator_needs_exactly_the_permissions_of_the_chart() -> anyhow::Result<()> {
    // The test needs its own control plane: every operator acts on all classes of its cluster.
    let (plane, release) = (&ControlPlane::start()?, "chart-operator");
    let client = plane.client().await?;
    let objects = render(release, "{}")?;
    install(&client, release, &objects).await?;
    let deployment = only(&objects, "Deployment")?;
    let program = start(plane, deployment).await?;

    let user = User { client };
    live(&user).await?;
    has_events_counted(&user).await?;

    let metrics = program.metrics().await?;
    ensure!(program.metric("lockstep_leader", "").await? > 0, "the lease was not won:\n{metrics}");
    program.never_counted("lockstep_actions_total", "\"forbidden\"").await?;
    program.never_counted("lockstep_watch_errors_total", "").await?;
    leave(&user).await?;
    let role = named(&objects, "ClusterRole", "chart-operator-lockstep-namespaceclass")?;
    let roles = [role, only(&objects, "Role")?];
    let granted = grants(roles.iter().filter_map(|role| role["rules"].as_array()).flatten());
    let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
    let account = format!("system:serviceaccount:{release}:{}", account.as_str().context("no account")?);
    needs_all_of(plane, &account, &granted, &UNUSED).await
}

#[tokio::test]
async fn a_kind_that_is_not_granted_is_reported_with_the_value_that_grants_it() -> anyhow::Result<()> {
    let (plane, release) = (&ControlPlane::start()?, "chart-denied");
    let client = plane.client().await?;
    // The chart sets this flag as well.
    let objects = render(release, "namespaceclass: {extraArgs: [--log-level=debug]}")?;
    install(&client, release, &objects).await?;
    let program = start(plane, only(&objects, "Deployment")?).await?;
    let user = User { client };
    let denied = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app"}}]);
    user.create(&class("chart-denied", &denied)).await?;
    user.create(&namespace("chart-denied-team", Some("chart-denied"))).await?;

    let binding = ("NamespaceClassBinding", "chart-denied-team", "chart-denied-team");
    let message =
        user.until_condition(binding, "Ready", "False/Forbidden").await.with_context(|| program.log())?;
    assert!(
        message.contains("namespaceclass.rbac.rules") && message.contains("spec.resources[0]"),
        "{message}"
    );
    ensure!(program.log().contains("DEBUG"), "{}", program.log());
    Ok(())
}
