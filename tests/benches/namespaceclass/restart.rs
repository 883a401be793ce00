//! Measures a new process that finds the desired state: the time until it is idle, and its requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use kube::Client;
use lockstep_tests::chart::{apply, kubeconfig};
use lockstep_tests::control_plane::ControlPlane;
use lockstep_tests::cost;
use lockstep_tests::program::sum;
use serde_json::{Value, json};

use super::{Operator, metrics};

const ACCOUNT: &str = "bench";

/// Starts the operator with an account whose requests the API server logs. Leader election is on, as in a cluster.
pub(super) async fn measure(
    plane: &ControlPlane,
    client: &Client,
    program: &Path,
    namespaces: usize,
) -> anyhow::Result<()> {
    let account = account(plane, client).await?;
    let began = Instant::now();
    let operator = Operator::start(program, &account, &["--leader-elect", "--namespace", "default"]).await?;
    rests(namespaces as u64).await?;
    let (now, peak) = cost::resident_mib(operator.id())?;
    println!("operator, started where all is applied: at rest within {:.1} s", began.elapsed().as_secs_f64());
    println!("  {peak:.1} MiB resident at the peak, {now:.1} MiB then");
    println!("  its requests: {}", summarize(&requests(plane)?));

    let before = requests(plane)?;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let mut minute = requests(plane)?;
    for (request, count) in before {
        minute.entry(request).and_modify(|all| *all -= count);
    }
    minute.retain(|_, count| *count > 0);
    println!(
        "idle: the operator's requests in a minute, watches and leases included: {}",
        summarize(&minute)
    );
    let (now, _) = cost::resident_mib(operator.id())?;
    println!("  {now:.1} MiB resident after it");
    Ok(())
}

/// Returns the kubeconfig of an account with all permissions.
async fn account(plane: &ControlPlane, client: &Client) -> anyhow::Result<String> {
    let account = json!({ "name": ACCOUNT, "namespace": "default" });
    apply(client, &json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": account })).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": ACCOUNT },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default" }],
    });
    apply(client, &binding).await?;
    kubeconfig(plane, "default", ACCOUNT).await
}

/// Waits until every binding has been reconciled, and for two seconds no reconcile has run.
async fn rests(namespaces: u64) -> anyhow::Result<()> {
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let metrics = metrics().await.unwrap_or_default();
        let now = sum(&metrics, "controller_runtime_reconcile_total", "");
        let bindings = sum(&metrics, "controller_runtime_reconcile_total", "reconciler=\"binding\"");
        if now == before && bindings >= namespaces && sum(&metrics, "workqueue_depth", "") == 0 {
            return Ok(());
        }
        before = now;
    }
}

/// Returns the requests of the account, from the audit log of the API server.
fn requests(plane: &ControlPlane) -> anyhow::Result<BTreeMap<String, usize>> {
    let mut requests = BTreeMap::new();
    for line in std::fs::read_to_string(plane.log("audit"))?.lines() {
        let request: Value = serde_json::from_str(line)?;
        if request["user"]["username"] == format!("system:serviceaccount:default:{ACCOUNT}") {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let object = &request["objectRef"]["resource"];
            let object = if object.is_null() { &request["requestURI"] } else { object };
            *requests.entry(format!("{} {}", text(&request["verb"]), text(object))).or_default() += 1;
        }
    }
    Ok(requests)
}

fn summarize(requests: &BTreeMap<String, usize>) -> String {
    let each = requests.iter().map(|(request, count)| format!("{count} {request}"));
    let each: Vec<String> = each.collect();
    format!("{} ({})", requests.values().sum::<usize>(), each.join(", "))
}
