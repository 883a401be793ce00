//! Tests the creation, changes and deletion of a bridge.

use anyhow::{bail, ensure};
use lockstep_tests::bridge::{Site, Tenant, lifecycle};
use lockstep_tests::ground::eventually;
use serde_json::json;

/// How many rounds of reconciles may pass until one writes nothing.
const ROUNDS_MAX: usize = 3;

pub(crate) async fn a_bridge_is_created_changed_and_deleted(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("lifecycle", number).await?;
    lifecycle::comes(&tenant).await?;
    at_rest_nothing_is_written(site, &tenant).await?;
    lifecycle::is_upgraded(&tenant).await?;
    lifecycle::has_secrets_rotated(&tenant).await?;
    lifecycle::loses_its_dpu_cluster(&tenant).await?;
    let (shown, key) = (lifecycle::shown(&tenant).await?, lifecycle::key(&tenant).await?);
    lifecycle::goes(&tenant).await?;
    for output in [shown, lifecycle::shown(&tenant).await?, site.bridge.reported()?] {
        lifecycle::hushed(&output)?;
        lifecycle::hides(&output, &key)?;
    }
    Ok(())
}

pub(crate) async fn a_bridge_on_node_ports(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("node-ports", number).await?;
    lifecycle::comes_on_node_ports(&tenant).await?;
    for (kind, name) in
        [("HostedCluster", "hosted_cluster_on_node_ports"), ("NodePool", "node_pool_on_node_ports")]
    {
        let object = tenant.get(kind, &tenant.namespace, lifecycle::NAME).await?.unwrap_or_default();
        let mut spec = object["spec"].clone();
        // The port of the registry differs in each run.
        ensure!(spec["release"]["image"] == tenant.image("4.19.3"), "{object:#}");
        spec["release"]["image"] = json!("ocp/release:4.19.3");
        for drawn_by_hypershift in ["infraID", "clusterID"] {
            spec.as_object_mut().and_then(|spec| spec.remove(drawn_by_hypershift));
        }
        insta::assert_json_snapshot!(name, spec);
    }
    lifecycle::is_upgraded(&tenant).await?;
    lifecycle::loses_its_dpu_cluster(&tenant).await?;
    lifecycle::goes(&tenant).await
}

pub(crate) async fn a_bridge_with_a_pool_of_its_own(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("own-pool", number).await?;
    lifecycle::comes_with_pool(&tenant).await?;
    lifecycle::has_pool_restored(&tenant).await?;
    lifecycle::goes(&tenant).await
}

/// Triggers reconciles that have nothing to do: the Bridge finds the desired state and writes nothing.
async fn at_rest_nothing_is_written(site: &Site, tenant: &Tenant) -> anyhow::Result<()> {
    let (namespace, dpus) = (tenant.namespace.as_str(), tenant.dpus());
    let copy = format!("{namespace}-{}-dpucluster-kubeconfig", lifecycle::NAME);
    // Wait for the last events, and for the reconciles that they trigger.
    let address = format!("https://{}:6443", tenant.address);
    tenant
        .event(lifecycle::NAME, &format!("Normal ClusterReady: the hosted cluster is ready at {address}"))
        .await?;
    tenant.event(lifecycle::NAME, "Normal Completed: the cluster has been ready").await?;
    // The count of a repeated Event is written up to half a minute later.
    let writes = || {
        let writes = site.bridge.writes(namespace);
        writes.into_iter().filter(|line| !line.contains("/events")).collect::<Vec<_>>()
    };
    ensure!(writes().len() > 5, "{:?}", writes());
    let objects = [
        ("Secret", namespace, "pull"),
        ("Secret", namespace, "ssh"),
        ("Secret", namespace, "prod-pull-secret"),
        ("Secret", namespace, "prod-ssh-key"),
        ("Secret", namespace, "prod-etcd-encryption-key"),
        ("Secret", namespace, "prod-admin-kubeconfig"),
        ("Secret", &dpus, &copy),
        ("HostedCluster", namespace, lifecycle::NAME),
        ("NodePool", namespace, lifecycle::NAME),
        ("DPUCluster", &dpus, "dpus"),
    ];
    // The external systems may still finish something during a round, but not during each.
    let mut written = Vec::new();
    for round in 0..ROUNDS_MAX {
        let before = writes();
        for (kind, namespace, name) in &objects {
            let passes = site.bridge.passes_of(&tenant.namespace, lifecycle::NAME);
            let touch = json!({ "metadata": { "labels": { "touched": round.to_string() } } });
            tenant.merge(kind, namespace, name, &touch).await?;
            eventually(&format!("a pass after {kind} {name} was touched"), async || {
                ensure!(site.bridge.passes_of(&tenant.namespace, lifecycle::NAME) > passes);
                Ok(())
            })
            .await?;
        }
        written = writes()[before.len()..].to_vec();
        if written.is_empty() {
            return Ok(());
        }
    }
    bail!("{written:#?}\nof {}", lifecycle::shown(tenant).await?)
}
