//! Tests the DPUService controller with DPF, DPU clusters and Argo CD, on the embedded API server and on a real one with its
//! garbage collector. The real one has the upstream CRDs of Argo CD and DPF if `LOCKSTEP_UPSTREAM_CRDS` names a folder with
//! them.

use std::time::Duration;

use anyhow::ensure;
use kube::{Client, Config};
use lockstep_dpuservice::names::ARGO_NAMESPACE;
use lockstep_external as external;
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::dpuservice::{self, DPF, SERVICES, lifecycle};
use lockstep_tests::ground::eventually;
use lockstep_tests::upstream::definitions;
use lockstep_tests::user::User;
use lockstep_tests::watched::Watched;
use serde_json::{Value, json};

/// How long a test waits to check that shared objects stay: the garbage collector acts within a second.
const A_WHILE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_service_is_created_changed_and_deleted_on_the_embedded_server() -> anyhow::Result<()> {
    let (host, config) = dpuservice::embedded().await?;
    a_service_is_created_changed_and_deleted(config, external::definitions(&external::DPUSERVICE)).await?;
    drop(host);
    Ok(())
}

#[tokio::test]
async fn a_service_is_created_changed_and_deleted_on_a_real_server() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    a_service_is_created_changed_and_deleted(plane.config().await?, definitions(&external::DPUSERVICE)?).await
}

async fn a_service_is_created_changed_and_deleted(
    config: Config,
    definitions: Vec<Value>,
) -> anyhow::Result<()> {
    let client = Client::try_from(config.clone())?;
    dpuservice::prepare(&client, &dpuservice::own_definitions()?).await?;
    dpuservice::prepare(&client, &definitions).await?;
    let external = dpuservice::surround(client.clone())?;
    let controller = Watched::start("dpuservice", config)?;
    let user = User { client };
    lifecycle::comes(&user).await?;
    what_is_shared_stays(&user).await?;
    at_rest_nothing_is_written(&user, &controller).await?;
    lifecycle::changes(&user).await?;
    lifecycle::has_kubeconfig_rotated(&user).await?;
    lifecycle::loses_a_cluster(&user).await?;
    lifecycle::is_meddled_with(&user).await?;
    lifecycle::is_not_alone(&user).await?;
    lifecycle::a_cluster_leaves(&user).await?;
    lifecycle::hushed(&lifecycle::shown(&user).await?)?;
    lifecycle::goes(&user).await?;
    lifecycle::hushed(&lifecycle::shown(&user).await?)?;
    lifecycle::hushed(&controller.reported()?)?;
    drop(external);
    Ok(())
}

/// Checks that the garbage collector does not delete shared objects: they have no owners, above all none in another namespace.
async fn what_is_shared_stays(user: &User) -> anyhow::Result<()> {
    let versions = async || {
        let mut versions = Vec::new();
        for kind in ["Secret", "AppProject"] {
            for object in user.list(kind, ARGO_NAMESPACE).await? {
                ensure!(object["metadata"].get("ownerReferences").is_none(), "{object:#}");
                versions.push((object["metadata"]["name"].clone(), object["metadata"]["uid"].clone()));
            }
        }
        anyhow::Ok(versions)
    };
    let before = versions().await?;
    // Only a wait can show that no deletion happens.
    tokio::time::sleep(A_WHILE).await;
    ensure!(versions().await? == before);
    Ok(())
}

/// Triggers reconciles that have nothing to do: the controller finds the desired state and writes nothing.
async fn at_rest_nothing_is_written(user: &User, controller: &Watched) -> anyhow::Result<()> {
    let writes = || {
        let mut writes = controller.writes(ARGO_NAMESPACE);
        writes.extend(controller.writes(SERVICES).into_iter().filter(|line| !line.contains("/events")));
        writes
    };
    let before = writes();
    ensure!(before.len() > 8, "{before:?}");
    for (kind, namespace, name, woken) in [
        ("Secret", DPF, "dpu-cluster-01-admin-kubeconfig", (DPF, "dpu-cluster-01")),
        ("Secret", ARGO_NAMESPACE, "dpu-cluster-02-argocd", (DPF, "dpu-cluster-02")),
        ("AppProject", ARGO_NAMESPACE, "doca-platform-framework", (SERVICES, lifecycle::NAME)),
        ("Application", ARGO_NAMESPACE, "hbn-01", (SERVICES, lifecycle::NAME)),
    ] {
        let passes = controller.passes_of(woken.0, woken.1);
        let touch = match kind {
            // A change that is relevant to no service enqueues nothing, so this change is relevant.
            "AppProject" => json!({ "spec": { "description": "touched" } }),
            "Application" => json!({ "spec": { "revisionHistoryLimit": 3 } }),
            _ => json!({ "metadata": { "labels": { "touched": "true" } } }),
        };
        user.merge(kind, namespace, name, &touch).await?;
        eventually(&format!("a pass after {kind} {name} was touched"), async || {
            ensure!(controller.passes_of(woken.0, woken.1) > passes);
            Ok(())
        })
        .await?;
    }
    let after = writes();
    ensure!(after.len() == before.len(), "{:#?}", &after[before.len()..]);
    Ok(())
}
