//! The lifecycle of services: they are created, deployed to clusters that join and leave, changed, and deleted.

use anyhow::ensure;
use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};
use lockstep_external::dpu_clusters::{Access, UNREACHABLE, release};
use serde_json::{Value, json};

use super::{DPF, SERVICES, TOKEN, in_argo, join, server, service};
use crate::ground::eventually;
use crate::user::User;

/// The name of the service.
pub const NAME: &str = "hbn";

fn place(name: &str) -> (&'static str, &'static str, &str) {
    ("DPUService", SERVICES, name)
}

/// Adds two clusters, and deploys a service to them.
pub async fn comes(user: &User) -> anyhow::Result<()> {
    join(user, "dpu-cluster-01").await?;
    join(user, "dpu-cluster-02").await?;
    user.create(&service(NAME)).await?;
    user.until_condition(place(NAME), "Ready", "True/Success").await?;
    ensure!(in_argo(user, "Application").await? == ["hbn-01", "hbn-02"]);
    ensure!(in_argo(user, "Secret").await? == ["dpu-cluster-01-argocd", "dpu-cluster-02-argocd"]);
    let application = user.get("Application", ARGO_NAMESPACE, "hbn-01").await?.unwrap_or_default();
    let values = &application["spec"]["source"]["helm"]["valuesObject"];
    let wanted = service(NAME);
    ensure!(values["kept"] == Value::Null && values.get("kept").is_some(), "a null is kept: {values}");
    ensure!(values["nested"] == wanted["spec"]["values"]["nested"], "{values}");
    ensure!(application["metadata"].get("ownerReferences").is_none(), "{application:#}");
    Ok(())
}

/// Changes the version of the chart, and removes values.
pub async fn changes(user: &User) -> anyhow::Result<()> {
    let change = json!({ "spec": { "source": { "version": "v1.2.0" }, "values": { "a": null } } });
    user.merge("DPUService", SERVICES, NAME, &change).await?;
    for name in ["hbn-01", "hbn-02"] {
        let what = format!("{name} is changed");
        user.until(&what, ("Application", ARGO_NAMESPACE, name), |application| {
            let source = &application["spec"]["source"];
            source["targetRevision"] == "v1.2.0" && source["helm"]["valuesObject"].get("a").is_none()
        })
        .await?;
    }
    let revision = |service: &Value| service["status"]["sync"]["dpu-cluster-02"]["revision"] == "v1.2.0";
    user.until("the status reports it", place(NAME), revision).await?;
    user.until_condition(place(NAME), "Ready", "True/Success").await.map(drop)
}

/// Changes the credentials of a kubeconfig.
pub async fn has_kubeconfig_rotated(user: &User) -> anyhow::Result<()> {
    let secret = async || {
        anyhow::Ok(user.get("Secret", ARGO_NAMESPACE, "dpu-cluster-01-argocd").await?.unwrap_or_default())
    };
    let before = secret().await?;
    let access = Access::by_token(&server("dpu-cluster-01"), &format!("{TOKEN}-another"));
    let patch = json!({ "data": access.secret_data() });
    user.merge("Secret", DPF, "dpu-cluster-01-admin-kubeconfig", &patch).await?;
    eventually("Argo CD has the change", async || {
        ensure!(secret().await?["data"]["config"] != before["data"]["config"]);
        Ok(())
    })
    .await?;
    user.until_condition(place(NAME), "Ready", "True/Success").await.map(drop)
}

/// Makes a cluster unreachable; the other continues.
pub async fn loses_a_cluster(user: &User) -> anyhow::Result<()> {
    let cut = json!({ "metadata": { "annotations": { UNREACHABLE: "true" } } });
    user.merge("DPUCluster", DPF, "dpu-cluster-02", &cut).await?;
    let message = user.until_condition(place(NAME), "DPUClustersReady", "False/NotReady").await?;
    ensure!(message.contains("dpu-cluster-02"), "{message}");
    let back = json!({ "metadata": { "annotations": { UNREACHABLE: null } } });
    user.merge("DPUCluster", DPF, "dpu-cluster-02", &back).await?;
    user.until_condition(place(NAME), "Ready", "True/Success").await.map(drop)
}

/// Changes and deletes managed objects. The controller corrects them.
pub async fn is_meddled_with(user: &User) -> anyhow::Result<()> {
    let change = json!({ "spec": { "source": { "targetRevision": "v0" } } });
    user.merge("Application", ARGO_NAMESPACE, "hbn-01", &change).await?;
    let is_right = |application: &Value| application["spec"]["source"]["targetRevision"] == "v1.2.0";
    user.until("it is put right", ("Application", ARGO_NAMESPACE, "hbn-01"), is_right).await?;
    let before = user.get("Application", ARGO_NAMESPACE, "hbn-01").await?.unwrap_or_default();
    let strip = json!({ "metadata": { "labels": null } });
    user.merge("Application", ARGO_NAMESPACE, "hbn-01", &strip).await?;
    let is_labelled = |application: &Value| application["metadata"]["labels"] == before["metadata"]["labels"];
    user.until("it has its labels", ("Application", ARGO_NAMESPACE, "hbn-01"), is_labelled).await?;
    user.delete("Secret", ARGO_NAMESPACE, "dpu-cluster-01-argocd").await?;
    user.until("the Secret is back", ("Secret", ARGO_NAMESPACE, "dpu-cluster-01-argocd"), |_| true).await?;
    ensure!(in_argo(user, "Application").await? == ["hbn-01", "hbn-02"]);
    user.until_condition(place(NAME), "Ready", "True/Success").await.map(drop)
}

/// Creates a second service and deletes the first one. What they share stays until the second is deleted too.
pub async fn is_not_alone(user: &User) -> anyhow::Result<()> {
    user.create(&service("firefly")).await?;
    user.until_condition(place("firefly"), "Ready", "True/Success").await?;
    let project = user.get("AppProject", ARGO_NAMESPACE, PROJECT).await?.unwrap_or_default();
    user.delete("DPUService", SERVICES, NAME).await?;
    user.gone("DPUService", SERVICES, NAME).await?;
    ensure!(in_argo(user, "Application").await? == ["firefly-01", "firefly-02"]);
    ensure!(in_argo(user, "Secret").await?.len() == 2);
    let kept = user.get("AppProject", ARGO_NAMESPACE, PROJECT).await?.unwrap_or_default();
    ensure!(
        kept["metadata"]["uid"] == project["metadata"]["uid"]
            && kept["metadata"]["deletionTimestamp"].is_null()
    );
    Ok(())
}

/// Deletes a cluster and what was created for it. The cluster stays until its workloads have been removed.
pub async fn a_cluster_leaves(user: &User) -> anyhow::Result<()> {
    let name = "dpu-cluster-02";
    let cluster = user.get("DPUCluster", DPF, name).await?.unwrap_or_default();
    let mut finalizers = cluster["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!("example.com/drained"));
    user.merge("DPUCluster", DPF, name, &json!({ "metadata": { "finalizers": finalizers } })).await?;
    user.delete("DPUCluster", DPF, name).await?;
    user.gone("Application", ARGO_NAMESPACE, "firefly-02").await?;
    let runs = user.list("ConfigMap", DPF).await?;
    let is_there = |map: &Value| map["metadata"]["labels"][release::CLUSTER] == name;
    ensure!(!runs.iter().any(is_there), "something still runs there: {runs:?}");
    user.merge("DPUCluster", DPF, name, &json!({ "metadata": { "finalizers": null } })).await?;
    user.gone("Secret", ARGO_NAMESPACE, "dpu-cluster-02-argocd").await?;
    let project = user.get("AppProject", ARGO_NAMESPACE, PROJECT).await?.unwrap_or_default();
    ensure!(project["spec"]["destinations"].as_array().map(Vec::len) == Some(1), "{project:#}");
    user.until_condition(place("firefly"), "Ready", "True/Success").await.map(drop)
}

/// Deletes the last service, and checks that nothing is left.
pub async fn goes(user: &User) -> anyhow::Result<()> {
    user.delete("DPUService", SERVICES, "firefly").await?;
    user.gone("DPUService", SERVICES, "firefly").await?;
    user.gone("AppProject", ARGO_NAMESPACE, PROJECT).await?;
    for kind in ["Application", "Secret"] {
        let left = in_argo(user, kind).await?;
        ensure!(left.is_empty(), "{kind}: {left:?}");
    }
    Ok(())
}

/// Checks that the text contains no secret.
pub fn hushed(output: &str) -> anyhow::Result<()> {
    use base64::Engine as _;
    // At any offset, a text has one of three forms in base64.
    let encoded = (0..3).map(|shift| {
        let padded = format!("{}{TOKEN}", "x".repeat(shift));
        let text = base64::engine::general_purpose::STANDARD.encode(padded);
        text[4..text.len() - 4].to_owned()
    });
    for secret in encoded.chain([TOKEN.to_owned()]) {
        ensure!(!output.contains(&secret), "{secret} is in the output");
    }
    Ok(())
}

/// Returns everything that users see of services and Applications.
pub async fn shown(user: &User) -> anyhow::Result<String> {
    let mut shown = String::new();
    for (kind, namespace) in [
        ("DPUService", SERVICES),
        ("Application", ARGO_NAMESPACE),
        ("AppProject", ARGO_NAMESPACE),
        ("Event", SERVICES),
    ] {
        for object in user.list(kind, namespace).await? {
            shown.push_str(&object.to_string());
        }
    }
    Ok(shown)
}
