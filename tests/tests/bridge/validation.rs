//! The integration and end-to-end tests that the specification of the DPUCluster validation names.

use anyhow::ensure;
use lockstep_tests::bridge::objects::dpu_cluster;
use lockstep_tests::bridge::{Site, Tenant};
use lockstep_tests::ground::eventually;
use serde_json::json;

const VALID: &str = "DPUClusterValid";

pub(crate) async fn dpucluster_validation_end_to_end(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("end-to-end", number).await?;
    tenant.create(&tenant.bridge("prod", "dpus")).await?;
    let message = tenant.told("prod", VALID, "False/DPUClusterNotFound").await?;
    ensure!(message == "DPUCluster 'dpus' not found in namespace 'end-to-end-dpus'", "{message}");
    let event = "Warning DPUClusterNotFound: Referenced DPUCluster 'end-to-end-dpus/dpus' not found";
    tenant.event("prod", event).await?;
    tenant.create(&dpu_cluster("end-to-end-dpus", "dpus")).await?;
    let message = tenant.told("prod", VALID, "True/DPUClusterFound").await?;
    ensure!(message == "DPUCluster 'dpus' found in namespace 'end-to-end-dpus'", "{message}");
    let event = "Normal DPUClusterValidated: DPUCluster 'end-to-end-dpus/dpus' validated successfully";
    tenant.event("prod", event).await
}

pub(crate) async fn dpucluster_deletion(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("deletion", number).await?;
    tenant.create(&dpu_cluster("deletion-dpus", "dpus")).await?;
    tenant.create(&tenant.bridge("prod", "dpus")).await?;
    tenant.told("prod", VALID, "True/DPUClusterFound").await?;
    tenant.delete("DPUCluster", "deletion-dpus", "dpus").await?;
    let message = tenant.told("prod", VALID, "False/DPUClusterNotFound").await?;
    ensure!(message == "DPUCluster 'dpus' not found in namespace 'deletion-dpus'", "{message}");
    let event = "Warning DPUClusterNotFound: Referenced DPUCluster 'deletion-dpus/dpus' not found";
    tenant.event("prod", event).await
}

/// Two bridges name the same DPUCluster, one names another, and one names one of the same name elsewhere.
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
    // Whatever else the bridges were woken by is over when one that came last has been looked at.
    let settled = async |last: &str| {
        add(&tenant, last, "three", "indexing-dpus").await?;
        anyhow::Ok(INDEXED.map(|(name, ..)| passes(name)))
    };
    let mut before = settled("settled").await?;
    for (round, told) in [
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
        tenant.told("first", VALID, told).await?;
        tenant.told("second", VALID, told).await?;
        let after = settled(round).await?;
        ensure!(after[2..] == before[2..], "{round}: {before:?}, then {after:?}");
        before = after;
    }
    Ok(())
}

/// Makes a bridge that asks for no address, and waits until it has been looked at.
async fn add(tenant: &Tenant, name: &str, dpu_cluster: &str, namespace: &str) -> anyhow::Result<()> {
    let mut bridge = tenant.bridge(name, dpu_cluster);
    bridge["spec"]["dpuClusterRef"]["namespace"] = json!(namespace);
    bridge["spec"]["exposeThroughLoadBalancer"] = json!(false);
    bridge["spec"]["metalLBVirtualIP"] = json!("");
    tenant.create(&bridge).await?;
    tenant.told(name, VALID, "False/DPUClusterNotFound").await?;
    Ok(())
}

pub(crate) async fn dpucluster_validation_real_cluster(site: &Site, number: u8) -> anyhow::Result<()> {
    let tenant = site.tenant("real-cluster", number).await?;
    tenant.provide().await?;
    // A DPUCluster of that name, but in the wrong namespace.
    tenant.create(&dpu_cluster("real-cluster", "dpus")).await?;
    tenant.create(&tenant.bridge("prod", "dpus")).await?;
    tenant.told("prod", VALID, "False/DPUClusterNotFound").await?;
    tenant.phase("prod", "Pending").await?;
    ensure!(tenant.get("HostedCluster", "real-cluster", "prod").await?.is_none(), "it is made all the same");
    ensure!(tenant.get("NodePool", "real-cluster", "prod").await?.is_none(), "it is made all the same");
    tenant.create(&dpu_cluster("real-cluster-dpus", "dpus")).await?;
    tenant.told("prod", VALID, "True/DPUClusterFound").await?;
    tenant.phase("prod", "Ready").await?;
    let cluster = tenant.get("HostedCluster", "real-cluster", "prod").await?.unwrap_or_default();
    ensure!(cluster["metadata"]["labels"]["dpf.hcp.bridge.com/bridge-name"] == "prod", "{cluster:#}");
    Ok(())
}
