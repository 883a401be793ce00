//! Tests the DPUService controller with a real Argo CD, which deploys charts from a chart repository to real API servers.
//!
//! The tests are skipped if Argo CD is not built, because the build takes minutes. One table of states of Applications runs on
//! Argo CD and on its model; the model needs no build.

#[path = "argocd/alike.rs"]
mod alike;
#[path = "argocd/environment.rs"]
mod environment;
#[path = "argocd/table.rs"]
mod table;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_dpuservice::names::{ARGO_NAMESPACE, PROJECT};
use lockstep_tests::argocd;
use lockstep_tests::dpuservice::{DPF, in_argo};
use lockstep_tests::ground::eventually;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use self::environment::{BLOCKED, Environment, FIRST, SECOND, SERVICES, within};

/// The maximum time from the return of a cluster until it has the change that it missed.
const CATCH_UP: Duration = Duration::from_mins(2);

fn is_nightly() -> bool {
    std::env::var("LOCKSTEP_TIER").is_ok_and(|tier| tier == "nightly")
}

/// How long nothing may be written at rest.
fn rest() -> Duration {
    if is_nightly() { Duration::from_mins(3) } else { Duration::ZERO }
}

/// Each test uses all processors, so only one runs at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn services_are_deployed_by_argo_cd() -> anyhow::Result<()> {
    let _alone = ALONE.lock().await;
    let Some(mut environment) = Environment::start().await? else { return Ok(()) };
    let result = run(&mut environment).await;
    result.with_context(|| format!("last errors of Argo CD:\n{}", environment.argo.recent_errors()))
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_does_what_the_table_says() -> anyhow::Result<()> {
    let _alone = ALONE.lock().await;
    let Some(built) = argocd::built()? else { return Ok(()) };
    alike::Bench::real(&built).await?.passes_the_table().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_does_what_the_table_says() -> anyhow::Result<()> {
    let _alone = ALONE.lock().await;
    alike::Bench::model().await?.passes_the_table().await
}

/// Tests cases in which the controller or Argo CD waits for minutes.
#[tokio::test(flavor = "multi_thread")]
async fn long_outages_and_hooks_come_to_an_end() -> anyhow::Result<()> {
    if !is_nightly() {
        return Ok(());
    }
    let _alone = ALONE.lock().await;
    let Some(environment) = Environment::start().await? else { return Ok(()) };
    let result = run_long(&environment).await;
    result.with_context(|| format!("last errors of Argo CD:\n{}", environment.argo.recent_errors()))
}

async fn run_long(environment: &Environment) -> anyhow::Result<()> {
    step("a_service_is_rolled_out", a_service_is_rolled_out(environment)).await?;
    let ends = a_change_ends_a_sync(environment, "hangingHook", BLOCKED);
    step("a_change_ends_a_sync that waits for a hook", ends).await?;
    // Argo CD itself stops after five attempts.
    step("a_cluster_catches_up", a_cluster_catches_up(environment, 6)).await?;
    step("nothing_is_left", nothing_is_left(environment)).await
}

async fn run(environment: &mut Environment) -> anyhow::Result<()> {
    // This is the first sync on a cluster. It creates the namespace, which Argo CD lists before the hook.
    step(
        "a_hanging_hook_is_reported_and_ended_by_deletion",
        a_hanging_hook_is_reported_and_ended_by_deletion(environment),
    )
    .await?;
    step("a_service_is_rolled_out", a_service_is_rolled_out(environment)).await?;
    step("a_change_is_deployed", a_change_is_deployed(environment)).await?;
    step("drift_is_corrected", drift_is_corrected(environment)).await?;
    step("a_failed_hook_is_reported", a_failed_hook_is_reported(environment)).await?;
    let ends = a_change_ends_a_sync(environment, "failingHook", CATCH_UP);
    step("a_change_ends_a_sync that is tried again", ends).await?;
    step("a_cluster_catches_up", a_cluster_catches_up(environment, 1)).await?;
    step("a_cluster_leaves_and_joins", a_cluster_leaves_and_joins(environment)).await?;
    step("credentials_are_rotated", credentials_are_rotated(environment)).await?;
    step("restarts_lose_no_change", restarts_lose_no_change(environment)).await?;
    step("at_rest_nothing_is_written", at_rest_nothing_is_written(environment)).await?;
    step("nothing_is_left", nothing_is_left(environment)).await
}

/// Runs a step and names it in its error.
async fn step(name: &str, step: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    step.await.with_context(|| name.to_owned())
}

async fn a_service_is_rolled_out(environment: &Environment) -> anyhow::Result<()> {
    environment.create_service("hbn", &json!({ "greeting": "first", "dropped": 1 })).await?;
    environment.is_ready("hbn").await?;
    environment.runs_everywhere("hbn", "1.0.0", "first").await?;
    ensure!(in_argo(&environment.user, "Application").await? == ["hbn-01", "hbn-02"]);
    for cluster in &environment.clusters {
        let objects = cluster.objects_in(SERVICES).await?;
        ensure!(objects == ["DaemonSet hbn", "ConfigMap hbn-settings"], "{objects:?}");
    }
    Ok(())
}

/// Changes the version and the values, and removes one of these.
async fn a_change_is_deployed(environment: &Environment) -> anyhow::Result<()> {
    let values = json!({ "greeting": "second", "dropped": null });
    environment.change("hbn", &json!({ "source": { "version": "1.1.0" }, "values": values })).await?;
    environment.runs_everywhere("hbn", "1.1.0", "second").await?;
    let (_, values) = environment.clusters[0].release(SERVICES, "hbn").await?;
    ensure!(values.get("dropped").is_none(), "{values}");
    Ok(())
}

/// Deletes an object on a cluster. Argo CD creates it again.
async fn drift_is_corrected(environment: &Environment) -> anyhow::Result<()> {
    environment.clusters[1].delete_settings(SERVICES, "hbn").await?;
    environment.runs_everywhere("hbn", "1.1.0", "second").await
}

async fn a_failed_hook_is_reported(environment: &Environment) -> anyhow::Result<()> {
    environment.create_service("checked", &json!({ "greeting": "first", "failingHook": true })).await?;
    let message = environment.condition("checked", "ApplicationsReady", "False/Failure").await?;
    let expected = "PostSync hook Job checked-check failed: Job has reached the specified backoff limit";
    ensure!(message.contains(expected), "{message}");
    environment.condition("checked", "Ready", "False/Failure").await?;
    // The clusters no longer cause the failure, so the next attempt succeeds.
    for cluster in &environment.clusters {
        cluster.let_jobs_complete(Some(true));
    }
    environment.runs_everywhere("checked", "1.0.0", "first").await?;
    for cluster in &environment.clusters {
        cluster.let_jobs_complete(None);
    }
    environment.delete_service("checked").await
}

async fn a_hanging_hook_is_reported_and_ended_by_deletion(environment: &Environment) -> anyhow::Result<()> {
    let hooks =
        [("early", "PreSync", "pre-install,pre-upgrade"), ("late", "PostSync", "post-install,post-upgrade")];
    // If two syncs create the namespace at the same time, one fails and is retried.
    for (name, _, events) in hooks {
        environment.create_service(name, &json!({ "hangingHook": true, "hookEvents": events })).await?;
    }
    for (name, kind, _) in hooks {
        let hook = format!("waits for {kind} hook Job {name}-check");
        eventually(&hook, async || {
            let message = environment.condition(name, "ApplicationsReady", "False/Pending").await?;
            ensure!(message.contains(&hook), "{message}");
            Ok(())
        })
        .await?;
    }
    for (name, _, _) in hooks {
        environment.delete_service(name).await?;
        for cluster in &environment.clusters {
            let objects = cluster.objects_in(SERVICES).await?;
            ensure!(!objects.iter().any(|object| object.contains(name)), "{objects:?}");
        }
    }
    Ok(())
}

async fn a_cluster_catches_up(environment: &Environment, attempts: u64) -> anyhow::Result<()> {
    let [up, down] = &environment.clusters;
    environment.cut(down).await?;
    let message = environment.condition("hbn", "DPUClustersReady", "False/NotReady").await?;
    ensure!(message.contains(SECOND), "{message}");
    environment
        .change("hbn", &json!({ "source": { "version": "1.2.0" }, "values": { "greeting": "third" } }))
        .await?;
    environment.runs(up, "hbn", "1.2.0", "third").await?;
    environment.is_retried("hbn-02", attempts.min(2)).await?;
    eventually("the failure on the cluster is reported, and no other", async || {
        let message = environment.condition("hbn", "ApplicationsReady", "False/Failure").await?;
        ensure!(message.contains(SECOND) && !message.contains(FIRST), "{message}");
        Ok(())
    })
    .await?;
    // Repeated identical failures are not reported one by one.
    let before = environment.writes();
    environment.is_retried("hbn-02", attempts).await?;
    let after = environment.writes();
    ensure!(after.len() == before.len(), "{:#?}", &after[before.len()..]);
    environment.restore(down).await?;
    let what = "the cluster has the change that it missed";
    within(CATCH_UP, what, async || {
        let (version, values) = down.release(SERVICES, "hbn").await?;
        ensure!(version == "1.2.0" && values["greeting"] == "third", "{version} {values}");
        Ok(())
    })
    .await?;
    environment.is_ready("hbn").await
}

async fn a_cluster_leaves_and_joins(environment: &Environment) -> anyhow::Result<()> {
    let cluster = &environment.clusters[1];
    let found = environment.user.get("DPUCluster", DPF, SECOND).await?.unwrap_or_default();
    let mut finalizers = found["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!("example.com/drained"));
    environment
        .user
        .merge("DPUCluster", DPF, SECOND, &json!({ "metadata": { "finalizers": finalizers } }))
        .await?;
    environment.user.delete("DPUCluster", DPF, SECOND).await?;
    environment.user.gone("Application", ARGO_NAMESPACE, "hbn-02").await?;
    environment.nothing_runs(cluster).await?;
    environment.user.merge("DPUCluster", DPF, SECOND, &json!({ "metadata": { "finalizers": null } })).await?;
    environment.user.gone("Secret", ARGO_NAMESPACE, "dpu-cluster-02-argocd").await?;
    environment.user.gone("DPUCluster", DPF, SECOND).await?;
    environment.is_ready("hbn").await?;
    let [_, dpu_cluster] = cluster.objects();
    environment.user.create(&dpu_cluster).await?;
    environment.runs_everywhere("hbn", "1.2.0", "third").await
}

/// Gives a cluster's administrator another account twice, and revokes the account before. Argo CD deploys with the new one.
async fn credentials_are_rotated(environment: &Environment) -> anyhow::Result<()> {
    let cluster = &environment.clusters[1];
    for (account, former) in [("first-admin", None), ("second-admin", Some("first-admin"))] {
        let access = cluster.admit(account).await?;
        let kubeconfig = json!({ "data": access.secret_data() });
        environment.user.merge("Secret", DPF, &format!("{SECOND}-admin-kubeconfig"), &kubeconfig).await?;
        let has_token = |secret: &Value| {
            let config = secret["data"]["config"].as_str().and_then(|config| STANDARD.decode(config).ok());
            config.is_some_and(|config| String::from_utf8_lossy(&config).contains(&access.token))
        };
        let secret = ("Secret", ARGO_NAMESPACE, "dpu-cluster-02-argocd");
        environment.user.until("Argo CD has the new credentials", secret, has_token).await?;
        if let Some(former) = former {
            cluster.revoke(former).await?;
        }
        environment.change("hbn", &json!({ "values": { "greeting": account } })).await?;
        environment.runs_everywhere("hbn", "1.2.0", account).await.with_context(|| account.to_owned())?;
    }
    Ok(())
}

/// Kills each process during a change and starts it again.
async fn restarts_lose_no_change(environment: &mut Environment) -> anyhow::Result<()> {
    for (number, restart) in [
        |environment: &mut Environment| environment.argo.restart_controller(),
        |environment: &mut Environment| environment.argo.restart_repo_server(),
        |environment: &mut Environment| environment.argo.restart_redis(),
        |environment: &mut Environment| environment.restart_controller(),
    ]
    .into_iter()
    .enumerate()
    {
        let greeting = format!("after restart {number}");
        environment.change("hbn", &json!({ "values": { "greeting": greeting } })).await?;
        restart(environment)?;
        environment.runs_everywhere("hbn", "1.2.0", &greeting).await.with_context(|| greeting.clone())?;
    }
    Ok(())
}

/// Argo CD continues to write: one chart does not exist, and its error message differs at each comparison.
async fn at_rest_nothing_is_written(environment: &Environment) -> anyhow::Result<()> {
    environment.create_service("missing", &json!({})).await?;
    environment.change("missing", &json!({ "source": { "version": "9.9.9" } })).await?;
    let message = environment.condition("missing", "ApplicationsReady", "False/Failure").await?;
    ensure!(message.contains("9.9.9"), "{message}");
    let names = in_argo(&environment.user, "Application").await?;
    ensure!(names.len() == 4, "{names:?}");
    // The controller has reported the result of the first comparison when the second one ends.
    are_compared(environment, &names).await?;
    let before = environment.writes();
    let start = Instant::now();
    while {
        are_compared(environment, &names).await?;
        start.elapsed() < rest()
    } {}
    let after = environment.writes();
    ensure!(after.len() == before.len(), "{:#?}", &after[before.len()..]);
    environment.delete_service("missing").await
}

/// Waits until Argo CD has compared each Application again.
async fn are_compared(environment: &Environment, names: &[String]) -> anyhow::Result<()> {
    let times = async || {
        let mut times = Vec::new();
        for name in names {
            times.push(environment.application(name).await?["status"]["reconciledAt"].clone());
        }
        anyhow::Ok(times)
    };
    let before = times().await?;
    eventually("all Applications are compared again", async || {
        let now = times().await?;
        ensure!(now.iter().zip(&before).all(|(now, before)| now != before), "{now:?}");
        Ok(())
    })
    .await
}

/// A sync is terminated when the spec has changed, because Argo CD retries only with the source of its first attempt. Between
/// two attempts this happens at once; a sync with a hanging hook is terminated some time later.
async fn a_change_ends_a_sync(environment: &Environment, hook: &str, limit: Duration) -> anyhow::Result<()> {
    let name = "changed";
    environment.create_service(name, &json!({ "greeting": "first", hook: true })).await?;
    for application in ["changed-01", "changed-02"] {
        if hook == "failingHook" {
            environment.is_retried(application, 1).await?;
            continue;
        }
        let waits = |application: &Value| {
            let message = &application["status"]["operationState"]["message"];
            message.as_str().is_some_and(|message| message.contains("waiting for completion of hook"))
        };
        let application = ("Application", ARGO_NAMESPACE, application);
        environment.user.until("the sync waits for its hook", application, waits).await?;
    }
    environment.change(name, &json!({ "values": { "greeting": "second", hook: null } })).await?;
    for cluster in &environment.clusters {
        within(limit, "the change is deployed", async || {
            let (_, values) = cluster.release(SERVICES, name).await?;
            ensure!(values["greeting"] == "second", "{values}");
            Ok(())
        })
        .await?;
    }
    environment.runs_everywhere(name, "1.0.0", "second").await?;
    let events = environment.user.events(SERVICES, name).await?;
    ensure!(events.iter().any(|event| event.contains("SyncTerminated")), "{events:?}");
    environment.delete_service(name).await
}

async fn nothing_is_left(environment: &Environment) -> anyhow::Result<()> {
    environment.delete_service("hbn").await?;
    environment.user.gone("AppProject", ARGO_NAMESPACE, PROJECT).await?;
    for kind in ["Application", "Secret"] {
        let left = in_argo(&environment.user, kind).await?;
        ensure!(left.is_empty(), "{kind}: {left:?}");
    }
    for cluster in &environment.clusters {
        environment.nothing_runs(cluster).await?;
    }
    let services = environment.user.list("DPUService", SERVICES).await?;
    ensure!(services.is_empty(), "{services:#?}");
    Ok(())
}
