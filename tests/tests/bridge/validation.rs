//! Runs the integration and end-to-end tests that the specification of the DPUCluster validation names.

use anyhow::ensure;
use lockstep_tests::bridge::objects::dpu_cluster;
use lockstep_tests::bridge::{Site, Tenant, validation};
use lockstep_tests::ground::eventually;
use serde_json::json;

const VALID: &str = "DPUClusterValid";

pub(crate) async fn dpucluster_validation_end_to_end(site: &Site, number: u8) -> anyhow::Result<()> {
    validation::end_to_end(&site.tenant("end-to-end", number).await?).await
}

pub(crate) async fn dpucluster_deletion(site: &Site, number: u8) -> anyhow::Result<()> {
    validation::deletion(&site.tenant("deletion", number).await?).await
}

pub(crate) async fn dpucluster_validation_real_cluster(site: &Site, number: u8) -> anyhow::Result<()> {
    validation::real_cluster(&site.tenant("real-cluster", number).await?).await
}

/// Two bridges name the same DPUCluster, one names another, and one names a DPUCluster with the same name in another namespace.
const INDEXED: [(&str, &str, &str); 4] = [
    ("first", "one", "indexing-dpus"),
    ("second", "one", "indexing-dpus"),
    ("other", "two", "indexing-dpus"),
    ("elsewhere", "one", "indexing"),
];

pub(crate) async fn field_indexing(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("indexing", number).await?;
    for (name, dpu_cluster, namespace) in INDEXED {
        add(&tenant, name, dpu_cluster, namespace).await?;
    }
    let passes = |bridge: &str| site.bridge.passes_of("indexing", bridge);
    // Once a newly created bridge has been reconciled, all earlier reconciles have ended.
    let settled = async |last: &str| {
        add(&tenant, last, "three", "indexing-dpus").await?;
        anyhow::Ok(INDEXED.map(|(name, ..)| passes(name)))
    };
    let mut before = settled("settled").await?;
    for (round, state) in [
        ("created", "True/DPUClusterFound"),
        ("updated", "True/DPUClusterFound"),
        ("deleted", "False/DPUClusterNotFound"),
    ] {
        match round {
            "created" => tenant.create(&dpu_cluster("indexing-dpus", "one")).await?,
            "updated" => {
                let labels = json!({ "metadata": { "labels": { "touched": "true" } } });
                tenant.merge("DPUCluster", "indexing-dpus", "one", &labels).await?;
            }
            _ => tenant.delete("DPUCluster", "indexing-dpus", "one").await?,
        }
        eventually(&format!("both bridges are looked at when it is {round}"), async || {
            ensure!(passes("first") > before[0] && passes("second") > before[1]);
            Ok(())
        })
        .await?;
        tenant.until_condition("first", VALID, state).await?;
        tenant.until_condition("second", VALID, state).await?;
        let after = settled(round).await?;
        ensure!(after[2..] == before[2..], "{round}: {before:?}, then {after:?}");
        before = after;
    }
    Ok(())
}

/// Creates a bridge that requests no address, and waits until it has been reconciled.
async fn add(tenant: &Tenant, name: &str, dpu_cluster: &str, namespace: &str) -> anyhow::Result<()> {
    let mut bridge = tenant.bridge_on_node_ports(name, dpu_cluster);
    bridge["spec"]["dpuClusterRef"]["namespace"] = json!(namespace);
    tenant.create(&bridge).await?;
    tenant.until_condition(name, VALID, "False/DPUClusterNotFound").await?;
    Ok(())
}
