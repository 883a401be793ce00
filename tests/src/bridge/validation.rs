//! The integration and end-to-end tests that the specification of the DPUCluster validation names, except the one that counts
//! reconciles. They check the Bridge from outside, wherever it runs.

use anyhow::ensure;

use super::Tenant;
use super::objects::dpu_cluster;

const NAME: &str = "prod";
const VALID: &str = "DPUClusterValid";

/// Waits until the DPUCluster is reported as found, or as not found.
async fn found(tenant: &Tenant, is_found: bool) -> anyhow::Result<()> {
    let dpus = tenant.dpus();
    let (state, said, event) = if is_found {
        let event = format!("Normal DPUClusterValidated: DPUCluster '{dpus}/dpus' validated successfully");
        ("True/DPUClusterFound", "found", event)
    } else {
        let event = format!("Warning DPUClusterNotFound: Referenced DPUCluster '{dpus}/dpus' not found");
        ("False/DPUClusterNotFound", "not found", event)
    };
    let message = tenant.until_condition(NAME, VALID, state).await?;
    ensure!(message == format!("DPUCluster 'dpus' {said} in namespace '{dpus}'"), "{message}");
    tenant.event(NAME, &event).await
}

/// `TestIntegration_DPUClusterValidation_EndToEnd`.
pub async fn end_to_end(tenant: &Tenant) -> anyhow::Result<()> {
    tenant.create(&tenant.bridge(NAME, "dpus")).await?;
    found(tenant, false).await?;
    tenant.create(&dpu_cluster(&tenant.dpus(), "dpus")).await?;
    found(tenant, true).await
}

/// `TestIntegration_DPUClusterDeletion`. The DPUCluster was missing before, so the event of its deletion is not new, but its
/// count increases.
pub async fn deletion(tenant: &Tenant) -> anyhow::Result<()> {
    tenant.create(&tenant.bridge(NAME, "dpus")).await?;
    found(tenant, false).await?;
    tenant.create(&dpu_cluster(&tenant.dpus(), "dpus")).await?;
    found(tenant, true).await?;
    tenant.delete("DPUCluster", &tenant.dpus(), "dpus").await?;
    found(tenant, false).await?;
    let event =
        format!("Warning DPUClusterNotFound: Referenced DPUCluster '{}/dpus' not found", tenant.dpus());
    tenant.event_times(NAME, &event, 2).await
}

/// `TestE2E_DPUClusterValidation_RealCluster`.
pub async fn real_cluster(tenant: &Tenant) -> anyhow::Result<()> {
    let namespace = tenant.namespace.as_str();
    tenant.provide().await?;
    // A DPUCluster with that name, but in the wrong namespace.
    tenant.create(&dpu_cluster(namespace, "dpus")).await?;
    tenant.create(&tenant.bridge(NAME, "dpus")).await?;
    tenant.until_condition(NAME, VALID, "False/DPUClusterNotFound").await?;
    tenant.phase(NAME, "Pending").await?;
    ensure!(tenant.get("HostedCluster", namespace, NAME).await?.is_none(), "it is made all the same");
    ensure!(tenant.get("NodePool", namespace, NAME).await?.is_none(), "it is made all the same");
    tenant.create(&dpu_cluster(&tenant.dpus(), "dpus")).await?;
    tenant.until_condition(NAME, VALID, "True/DPUClusterFound").await?;
    tenant.phase(NAME, "Ready").await?;
    let cluster = tenant.get("HostedCluster", namespace, NAME).await?.unwrap_or_default();
    ensure!(cluster["metadata"]["labels"]["dpf.hcp.bridge.com/bridge-name"] == NAME, "{cluster:#}");
    Ok(())
}
