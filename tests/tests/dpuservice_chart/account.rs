//! Tests that the controller works with the permissions that the chart grants, and needs all of them.

use anyhow::{Context as _, ensure};
use lockstep_dpuservice::names::{ARGO_NAMESPACE, CLUSTER, SERVICE, SERVICE_NAME};
use lockstep_external as external;
use lockstep_tests::access::{asked, needs_all_of};
use lockstep_tests::chart::{install, named, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::dpuservice::{DPF, SERVICES, lifecycle, prepare, surround};
use lockstep_tests::upstream::definitions;
use lockstep_tests::user::User;
use serde_json::{Value, json};

use super::{ANYWHERE, DPUSERVICE, THERE, words};

/// How often a cluster becomes unreachable at most.
const ROUNDS: usize = 20;

#[tokio::test]
async fn the_controller_needs_exactly_the_permissions_of_the_chart() -> anyhow::Result<()> {
    let (plane, release) = (ControlPlane::start()?, "dpuservice-lives");
    let client = plane.client().await?;
    prepare(&client, &definitions(&external::DPUSERVICE)?).await?;
    let _external = surround(client.clone())?;
    let objects = render(release, &format!("{DPUSERVICE}log: {{level: debug}}\n"))?;
    install(&client, release, &objects).await?;
    let program =
        start(&plane, named(&objects, "Deployment", "dpuservice-lives-lockstep-dpuservice")?).await?;

    let user = User { client };
    lifecycle::comes(&user).await?;
    lifecycle::changes(&user).await?;
    lifecycle::has_kubeconfig_rotated(&user).await?;
    let account = "system:serviceaccount:dpuservice-lives:dpuservice-lives-lockstep-dpuservice";
    // A repeated Event increases the count of the first one, but not that soon.
    for _ in 0..ROUNDS {
        lifecycle::loses_a_cluster(&user).await?;
        if asked(&plane, account)?.0.contains("patch events.k8s.io events ") {
            break;
        }
    }
    finds_names_taken(&user).await?;
    finds_orphans(&user).await?;
    lifecycle::is_not_alone(&user).await?;
    lifecycle::a_cluster_leaves(&user).await?;
    lifecycle::hushed(&lifecycle::shown(&user).await?)?;
    lifecycle::goes(&user).await?;

    let metrics = program.metrics().await?;
    program.never_counted("lockstep_actions_total", "\"forbidden\"").await?;
    program.never_counted("lockstep_watch_errors_total", "").await?;
    lifecycle::hushed(&format!("{}\n{metrics}", program.log()))?;
    needs_all_of(&plane, account, &words(ANYWHERE.into_iter().chain(THERE)), &[]).await
}

/// Gives the name of an Application to an object of another owner, which no watch reports.
async fn finds_names_taken(user: &User) -> anyhow::Result<()> {
    let foreign = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "guest-01", "namespace": ARGO_NAMESPACE},
        "spec": {"project": "other", "destination": {"server": "https://other.example.com", "namespace": "other"}},
    });
    user.create(&foreign).await?;
    user.create(&lockstep_tests::dpuservice::service("guest")).await?;
    user.until_condition(("DPUService", SERVICES, "guest"), "Ready", "True/Success").await?;
    user.delete("DPUService", SERVICES, "guest").await?;
    user.gone("DPUService", SERVICES, "guest").await?;
    let kept = user.get("Application", ARGO_NAMESPACE, "guest-01").await?.context("it was removed")?;
    ensure!(kept["metadata"].get("labels").is_none() && kept["spec"] == foreign["spec"], "{kept:#}");
    user.delete("Application", ARGO_NAMESPACE, "guest-01").await
}

/// Checks that an Application is removed if its service was deleted without it, as after a user removed its finalizer.
async fn finds_orphans(user: &User) -> anyhow::Result<()> {
    let sibling = user.get("Application", ARGO_NAMESPACE, "hbn-02").await?.context("no Application")?;
    let mut labels = sibling["metadata"]["labels"].clone();
    labels[SERVICE_NAME] = json!("ghost");
    let annotations = json!({SERVICE: format!("{SERVICES}/ghost"), CLUSTER: format!("{DPF}/dpu-cluster-02")});
    let orphan: Value = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "ghost-02", "namespace": ARGO_NAMESPACE, "labels": labels, "annotations": annotations},
        "spec": sibling["spec"],
    });
    user.create(&orphan).await?;
    user.gone("Application", ARGO_NAMESPACE, "ghost-02").await
}
