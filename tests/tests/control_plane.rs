//! Tests that the real control plane has what other tests require.

#[path = "control_plane/owner.rs"]
mod owner;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::PATIENCE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Resource + Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

async fn until_gone<K>(api: &Api<K>, name: &str) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let start = Instant::now();
    while api.get_opt(name).await?.is_some() {
        if start.elapsed() > PATIENCE {
            bail!("{name} is still there after {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[tokio::test]
async fn the_garbage_collector_deletes_what_lost_its_owner() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    create(&Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": "collected"}})).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "collected");
    let owner = create(&maps, json!({"metadata": {"name": "owner"}})).await?;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    create(&maps, json!({"metadata": {"name": "dependent", "ownerReferences": [reference]}})).await?;

    maps.delete("owner", &DeleteParams::background()).await?;

    until_gone(&maps, "dependent").await
}

#[tokio::test]
async fn a_deleted_namespace_goes_with_its_objects() -> anyhow::Result<()> {
    let client = ControlPlane::shared().client().await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    create(&namespaces, json!({"metadata": {"name": "passing"}})).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "passing");
    create(&maps, json!({"metadata": {"name": "inside"}})).await?;

    namespaces.delete("passing", &DeleteParams::default()).await?;

    until_gone(&maps, "inside").await?;
    until_gone(&namespaces, "passing").await
}

#[tokio::test]
async fn access_is_by_role() -> anyhow::Result<()> {
    let plane = ControlPlane::shared();
    let client = plane.client().await?;
    create(&Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": "guarded"}})).await?;
    create(&Api::<ServiceAccount>::namespaced(client, "guarded"), json!({"metadata": {"name": "operator"}}))
        .await?;

    for (config, user) in [
        (plane.user_config("alice").await?, "alice"),
        (
            plane.service_account_config("guarded", "operator").await?,
            "system:serviceaccount:guarded:operator",
        ),
    ] {
        let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "guarded");
        let refusal = maps.list(&kube::api::ListParams::default()).await.expect_err("no role allows it");
        let message = refusal.to_string();
        assert!(message.contains(&format!("User \"{user}\" cannot list resource")), "{message}");
    }
    Ok(())
}

#[tokio::test]
async fn cluster_roles_are_aggregated() -> anyhow::Result<()> {
    let roles: Api<ClusterRole> = Api::all(ControlPlane::shared().client().await?);
    let selector = json!({"matchLabels": {"lockstep.test/aggregate": "true"}});
    let sum = json!({"metadata": {"name": "sum"}, "aggregationRule": {"clusterRoleSelectors": [selector]}, "rules": []});
    create(&roles, sum).await?;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]});
    let metadata = json!({"name": "part", "labels": {"lockstep.test/aggregate": "true"}});
    create(&roles, json!({"metadata": metadata, "rules": [rule]})).await?;

    let start = Instant::now();
    while roles.get("sum").await?.rules.unwrap_or_default().is_empty() {
        assert!(start.elapsed() < PATIENCE, "the rules were not aggregated");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

#[test]
fn nothing_is_left_of_a_control_plane_that_was_dropped() -> anyhow::Result<()> {
    let plane = ControlPlane::start()?;
    let directory = plane.kubeconfig().parent().context("a kubeconfig in no directory")?.to_owned();
    assert!(directory.exists());
    assert!(plane.kubectl().args(["get", "namespaces"]).output()?.status.success());

    drop(plane);

    assert!(!directory.exists(), "{} was left", directory.display());
    Ok(())
}
