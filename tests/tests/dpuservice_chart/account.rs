//! Whether the controller can live on what the chart grants, and needs all of it.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kube::Client;
use lockstep_core::dpuservice::names::{ARGO_NAMESPACE, CLUSTER, PROJECT, SERVICE, SERVICE_NAME};
use lockstep_shell::clock::Clock;
use lockstep_shell::manager::Manager;
use lockstep_shell::metrics::Metrics;
use lockstep_shell::shutdown::{self, Trigger};
use lockstep_sim::worlds::dpu_clusters::Access;
use lockstep_sim::worlds::{self, Pace};
use lockstep_tests::access::asked;
use lockstep_tests::admission::{MERGE, ask};
use lockstep_tests::bridge::upstream;
use lockstep_tests::chart::{apply, install, install_crd, named, render, start};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::ground::eventually;
use prometheus::Registry;
use serde_json::{Value, json};

use super::{ANYWHERE, DPUSERVICE, THERE, argo_namespace, words};

const SERVICES: &str = "/apis/svc.dpu.nvidia.com/v1alpha1/namespaces/lives/dpuservices/firewall";
const CLUSTERS: &str = "/apis/provisioning.dpu.nvidia.com/v1alpha1/namespaces/dpus/dpuclusters";
const ARGO: &str = "/apis/argoproj.io/v1alpha1/namespaces/dpf-argo-cd-system";
const SECRETS: &str = "/api/v1/namespaces/dpf-argo-cd-system/secrets";

/// How often the service is broken and mended at most.
const ROUNDS: usize = 20;

/// DPF, clusters of DPUs and Argo CD; they end when this is dropped.
async fn surroundings(client: &Client) -> anyhow::Result<Trigger> {
    for definition in upstream(&worlds::DPUSERVICE)? {
        install_crd(client, &definition).await?;
    }
    for name in ["dpus", "lives"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        apply(client, &namespace).await?;
    }
    apply(client, &argo_namespace()).await?;
    let clock = Clock::start(jiff::Timestamp::now);
    let mut manager = Manager::new(client.clone(), clock, 1, Metrics::new(Registry::new())?);
    for world in worlds::controllers(&worlds::DPUSERVICE, Pace::BRISK, 1) {
        manager.add(world);
    }
    let (trigger, stopping) = shutdown::channel();
    tokio::spawn(manager.run(stopping));
    Ok(trigger)
}

async fn get(client: &Client, path: &str) -> anyhow::Result<Option<Value>> {
    Ok(ask(client, "GET", path, "application/json", &Value::Null).await?.ok())
}

async fn patch(client: &Client, path: &str, patch: &Value) -> anyhow::Result<()> {
    ask(client, "PATCH", path, MERGE, patch).await?.map(drop).map_err(anyhow::Error::msg)
}

async fn delete(client: &Client, path: &str) -> anyhow::Result<()> {
    let answer = ask(client, "DELETE", path, "application/json", &Value::Null).await?;
    answer.map(drop).map_err(anyhow::Error::msg)
}

/// A cluster of DPUs that lets in who has this token.
async fn cluster(client: &Client, number: &str, token: &str) -> anyhow::Result<()> {
    let access = Access::by_token(&format!("https://dpus-{number}.example.com:6443"), token);
    let kubeconfig = format!("dpu-cluster-{number}-admin-kubeconfig");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": kubeconfig, "namespace": "dpus"},
        "data": access.secret_data(),
    });
    apply(client, &secret).await?;
    let cluster = json!({
        "apiVersion": "provisioning.dpu.nvidia.com/v1alpha1", "kind": "DPUCluster",
        "metadata": {"name": format!("dpu-cluster-{number}"), "namespace": "dpus"},
        "spec": {"type": "static", "kubeconfig": kubeconfig},
    });
    apply(client, &cluster).await.map(drop)
}

/// Waits until the service tells this of itself.
async fn told(client: &Client, ready: &str, clusters: &str) -> anyhow::Result<()> {
    eventually(&format!("the service is Ready {ready}, on {clusters}"), async || {
        let service = get(client, SERVICES).await?.context("no service")?;
        let status = &service["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == ready);
        let is_new = status["observedGeneration"] == service["metadata"]["generation"];
        ensure!(is_ready && is_new && status["rollout"]["clusters"] == clusters, "{status:#}");
        Ok(())
    })
    .await
}

async fn gone(client: &Client, path: &str) -> anyhow::Result<()> {
    eventually(&format!("{path} is gone"), async || {
        ensure!(get(client, path).await?.is_none());
        Ok(())
    })
    .await
}

/// The service comes, changes, follows clusters that join, are given other credentials and leave, and goes.
async fn life(client: &Client, plane: &ControlPlane, user: &str) -> anyhow::Result<()> {
    // The name that would be that of the first Application is somebody else's.
    let foreign = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "firewall-01", "namespace": ARGO_NAMESPACE},
        "spec": {"project": "other", "destination": {"server": "https://other.example.com", "namespace": "other"}},
    });
    apply(client, &foreign).await?;
    let service = json!({
        "apiVersion": "svc.dpu.nvidia.com/v1alpha1", "kind": "DPUService",
        "metadata": {"name": "firewall", "namespace": "lives"},
        "spec": {
            "source": {"repoURL": "https://helm.ngc.nvidia.com/nvidia", "version": "1.0.0", "chart": "firewall"},
            "values": {"logLevel": "info"},
        },
    });
    cluster(client, "01", "tops3cretAAA").await?;
    apply(client, &service).await?;
    told(client, "True", "1/1").await?;
    cluster(client, "02", "tops3cretBBB").await?;
    told(client, "True", "2/2").await?;

    orphan(client).await?;

    patch(client, SERVICES, &json!({"spec": {"source": {"version": "1.1.0"}}})).await?;
    told(client, "True", "2/2").await?;
    let before = get(client, &format!("{SECRETS}/dpu-cluster-02-argocd")).await?.context("no Secret")?;
    cluster(client, "02", "tops3cretCCC").await?;
    eventually("Argo CD has the new token", async || {
        let now = get(client, &format!("{SECRETS}/dpu-cluster-02-argocd")).await?.context("no Secret")?;
        ensure!(now["data"]["config"] != before["data"]["config"]);
        Ok(())
    })
    .await?;

    // An Event that happens again is counted on the first one, but not so soon.
    for _ in 0..ROUNDS {
        patch(client, &format!("{CLUSTERS}/dpu-cluster-02"), &unreachable(true)).await?;
        told(client, "False", "1/2").await?;
        patch(client, &format!("{CLUSTERS}/dpu-cluster-02"), &unreachable(false)).await?;
        told(client, "True", "2/2").await?;
        if asked(plane, user)?.0.contains("patch events.k8s.io events ") {
            break;
        }
    }

    // It still answers while it is about to go, so that Argo CD can clean up.
    let leaving = format!("{CLUSTERS}/dpu-cluster-02");
    let held = |by: &Value| json!({"metadata": {"finalizers": by}});
    patch(client, &leaving, &held(&json!(["example.com/held"]))).await?;
    delete(client, &leaving).await?;
    gone(client, &format!("{ARGO}/applications/firewall-02")).await?;
    gone(client, &format!("{SECRETS}/dpu-cluster-02-argocd")).await?;
    patch(client, &leaving, &held(&Value::Null)).await?;
    gone(client, &leaving).await?;
    told(client, "True", "1/1").await?;

    delete(client, SERVICES).await?;
    gone(client, SERVICES).await?;
    gone(client, &format!("{ARGO}/appprojects/{PROJECT}")).await?;
    gone(client, &format!("{SECRETS}/dpu-cluster-01-argocd")).await?;
    let left = get(client, &format!("{ARGO}/applications")).await?.context("no list")?;
    let left: Vec<&Value> =
        left["items"].as_array().into_iter().flatten().map(|it| &it["metadata"]["name"]).collect();
    ensure!(left == [&json!("firewall-01")], "{left:?}");
    Ok(())
}

/// An Application whose service has gone without it, as after its finalizer was taken out by hand, is removed.
async fn orphan(client: &Client) -> anyhow::Result<()> {
    let sibling =
        get(client, &format!("{ARGO}/applications/firewall-02")).await?.context("no Application")?;
    let mut labels = sibling["metadata"]["labels"].clone();
    labels[SERVICE_NAME] = json!("ghost");
    let orphan = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "name": "ghost-02", "namespace": ARGO_NAMESPACE, "labels": labels,
            "annotations": {SERVICE: "lives/ghost", CLUSTER: "dpus/dpu-cluster-02"},
        },
        "spec": sibling["spec"],
    });
    apply(client, &orphan).await?;
    gone(client, &format!("{ARGO}/applications/ghost-02")).await
}

fn unreachable(is_so: bool) -> Value {
    let annotation = if is_so { json!("true") } else { Value::Null };
    json!({"metadata": {"annotations": {worlds::dpu_clusters::UNREACHABLE: annotation}}})
}

#[tokio::test]
async fn the_controller_lives_on_what_the_chart_grants_and_needs_all_of_it() -> anyhow::Result<()> {
    let (plane, release) = (ControlPlane::start()?, "dpuservice-lives");
    let client = plane.client().await?;
    let _surroundings = surroundings(&client).await?;
    let objects = render(release, &format!("{DPUSERVICE}log: {{level: debug}}\n"))?;
    install(&client, release, &objects).await?;
    let program =
        start(&plane, named(&objects, "Deployment", "dpuservice-lives-lockstep-dpuservice")?).await?;

    let user = "system:serviceaccount:dpuservice-lives:dpuservice-lives-lockstep-dpuservice";
    life(&client, &plane, user).await.with_context(|| program.log())?;
    let metrics = program.metrics().await?;
    ensure!(program.metric("lockstep_actions_total", "\"forbidden\"").await? == 0, "{metrics}");
    ensure!(program.metric("lockstep_watch_errors_total", "").await? == 0, "{metrics}");
    let log = program.log();
    ensure!(log.contains("firewall") && !log.contains("tops3cret") && !log.contains("dG9wczNjcmV0"), "{log}");
    eventually("every permission was used", async || {
        let (allowed, refused) = asked(&plane, user)?;
        ensure!(refused.is_empty(), "refused: {refused:#?}");
        let wanted = words(ANYWHERE.into_iter().chain(THERE));
        let unused: BTreeSet<&String> = wanted.difference(&allowed).collect();
        ensure!(unused.is_empty(), "never asked for: {unused:#?}");
        Ok(())
    })
    .await
}
