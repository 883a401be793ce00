//! Tests the creation, changes and deletion of a bridge.

use anyhow::{bail, ensure};
use lockstep_tests::bridge::{Site, Tenant, life};
use lockstep_tests::ground::eventually;
use serde_json::json;

/// How many rounds of reconciles may pass until one writes nothing.
const ROUNDS_MAX: usize = 3;

pub(crate) async fn a_bridge_lives(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("lifecycle", number).await?;
    life::comes(&tenant).await?;
    at_rest_nothing_is_written(site, &tenant).await?;
    life::is_upgraded(&tenant).await?;
    life::has_secrets_rotated(&tenant).await?;
    life::loses_its_dpu_cluster(&tenant).await?;
    let shown = life::shown(&tenant).await?;
    life::goes(&tenant).await?;
    life::hushed(&shown)?;
    life::hushed(&life::shown(&tenant).await?)?;
    life::hushed(&site.bridge.told()?)
}

pub(crate) async fn a_bridge_on_node_ports(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("node-ports", number).await?;
    life::comes_on_node_ports(&tenant).await?;
    for (kind, name) in
        [("HostedCluster", "hosted_cluster_on_node_ports"), ("NodePool", "node_pool_on_node_ports")]
    {
        let object = tenant.get(kind, &tenant.namespace, life::NAME).await?.unwrap_or_default();
        let mut spec = object["spec"].clone();
        // The port of the registry differs in each run.
        ensure!(spec["release"]["image"] == tenant.image("4.19.3"), "{object:#}");
        spec["release"]["image"] = json!("ocp/release:4.19.3");
        for drawn_by_hypershift in ["infraID", "clusterID"] {
            spec.as_object_mut().and_then(|spec| spec.remove(drawn_by_hypershift));
        }
        insta::assert_json_snapshot!(name, spec);
    }
    life::is_upgraded(&tenant).await?;
    life::loses_its_dpu_cluster(&tenant).await?;
    life::goes(&tenant).await
}

/// Triggers reconciles that have nothing to do: the Bridge finds the desired state and writes nothing.
async fn at_rest_nothing_is_written(site: &Site, tenant: &Tenant) -> anyhow::Result<()> {
    let (namespace, dpus) = (tenant.namespace.as_str(), tenant.dpus());
    let copy = format!("{namespace}-{}-dpucluster-kubeconfig", life::NAME);
    // Wait for the last events, and for the reconciles that they trigger.
    let address = format!("https://{}:6443", tenant.address);
    tenant
        .event(life::NAME, &format!("Normal ClusterReady: the hosted cluster is ready at {address}"))
        .await?;
    tenant.event(life::NAME, "Normal Completed: the cluster has been ready").await?;
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
        ("Secret", namespace, "prod-admin-kubeconfig"),
        ("Secret", &dpus, &copy),
        ("HostedCluster", namespace, life::NAME),
        ("NodePool", namespace, life::NAME),
        ("DPUCluster", &dpus, "dpus"),
    ];
    // The external systems may still finish something during a round, but not during each.
    let mut written = Vec::new();
    for round in 0..ROUNDS_MAX {
        let before = writes();
        for (kind, namespace, name) in &objects {
            let passes = site.bridge.passes_of(&tenant.namespace, life::NAME);
            let touch = json!({ "metadata": { "labels": { "touched": round.to_string() } } });
            tenant.merge(kind, namespace, name, &touch).await?;
            eventually(&format!("a pass after {kind} {name} was touched"), async || {
                ensure!(site.bridge.passes_of(&tenant.namespace, life::NAME) > passes);
                Ok(())
            })
            .await?;
        }
        written = writes()[before.len()..].to_vec();
        if written.is_empty() {
            return Ok(());
        }
    }
    bail!("{written:#?}\nof {}", life::shown(tenant).await?)
}
