//! Uninstalls the systems around the Bridge while bridges are ready, including their CRDs, and installs them again.

use lockstep_engine::object::metadata;
use serde_json::Value;

use super::Tenant;
use super::lifecycle::{DPUS, NAME, has_kubeconfig};
use super::objects::{dpu_cluster, pool};
use crate::chart::install_crd;

/// Deletes the CRDs, and with them the hosted clusters.
pub async fn breaks(tenants: &[&Tenant], definitions: &[Value]) -> anyhow::Result<()> {
    let [tenant, ..] = tenants else { return Ok(()) };
    for definition in definitions {
        tenant.delete("CustomResourceDefinition", "", metadata(definition, "name")).await?;
    }
    for definition in definitions {
        tenant.gone("CustomResourceDefinition", "", metadata(definition, "name")).await?;
    }
    for tenant in tenants {
        tenant.until_condition(NAME, "DPUClusterValid", "False/DPUClusterAccessError").await?;
        tenant.phase(NAME, "Failed").await?;
    }
    Ok(())
}

/// Restores the CRDs and the users' objects; the hosted clusters are created again.
pub async fn passes(tenants: &[&Tenant], definitions: &[Value]) -> anyhow::Result<()> {
    let [tenant, ..] = tenants else { return Ok(()) };
    for definition in definitions {
        install_crd(&tenant.client, definition).await?;
    }
    for tenant in tenants {
        tenant.create(&pool(&tenant.namespace, &format!("{}/32", tenant.address))).await?;
        tenant.create(&dpu_cluster(&tenant.dpus(), DPUS)).await?;
    }
    for tenant in tenants {
        tenant.phase(NAME, "Ready").await?;
        has_kubeconfig(tenant).await?;
    }
    Ok(())
}
