//! All names that the DPUService controller writes into the cluster or reads from it.

use std::sync::Arc;

use lockstep_crds::dpuservice::{GROUP, VERSION};
use lockstep_engine::object::Kind;

/// The namespace of Argo CD ("Prerequisites": a well-known one).
pub const ARGO_NAMESPACE: &str = "dpf-argo-cd-system";
/// The name of the AppProject.
pub const PROJECT: &str = "doca-platform-framework";
/// The finalizer by which Argo CD removes what an Application has deployed before the Application is deleted.
pub const ARGO_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// The finalizer that keeps a DPUService until its Applications are gone.
pub const FINALIZER: &str = "dpu.nvidia.com/dpuservice";

/// The name of the DPUService of an Application. Lists select by it.
pub const SERVICE_NAME: &str = "dpu.nvidia.com/dpu-service-name";
/// The namespace of that DPUService.
pub const SERVICE_NAMESPACE: &str = "dpu.nvidia.com/dpu-service-namespace";
/// The name of the DPUCluster of an Application or Secret.
pub const CLUSTER_NAME: &str = "dpu.nvidia.com/cluster-name";
/// The namespace of that DPUCluster.
pub const CLUSTER_NAMESPACE: &str = "dpu.nvidia.com/cluster-namespace";
/// `<namespace>/<name>` of the DPUService, of any length.
pub const SERVICE: &str = "dpu.nvidia.com/dpu-service";
/// `<namespace>/<name>` of the DPUCluster, of any length.
pub const CLUSTER: &str = "dpu.nvidia.com/cluster";
/// The server in a Secret for Argo CD, so that it is known without a read of the Secret.
pub const SERVER: &str = "dpu.nvidia.com/server";
/// The digest of what was applied to an Application last.
pub const APPLIED: &str = "dpu.nvidia.com/applied";
/// The label of the Secrets that define Argo CD's clusters.
pub const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// Its value for clusters.
pub const SECRET_TYPE_CLUSTER: &str = "cluster";
/// The label that identifies the AppProject as ours.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Its value.
pub const MANAGER: &str = "lockstep-dpuservice";

/// The types of conditions.
pub mod condition {
    /// Whether there are DPUClusters, and all of them are ready.
    pub const DPU_CLUSTERS_READY: &str = "DPUClustersReady";
    /// Whether Argo CD has access to each cluster.
    pub const CLUSTER_SECRETS_RECONCILED: &str = "ClusterSecretsReconciled";
    /// Whether the AppProject permits what has to be deployed.
    pub const APP_PROJECT_RECONCILED: &str = "AppProjectReconciled";
    /// Whether every cluster has its Application, with the current spec.
    pub const APPLICATIONS_RECONCILED: &str = "ApplicationsReconciled";
    /// Whether every Application is synced and healthy.
    pub const APPLICATIONS_READY: &str = "ApplicationsReady";
    /// Whether the Applications stay as they are. It is absent unless the service is paused.
    pub const PAUSED: &str = "Paused";
    /// Whether every cluster has been brought to the generation of the service. It is absent unless the service limits how
    /// many clusters change at a time.
    pub const ROLLED_OUT: &str = "RolledOut";
    /// Whether all other conditions hold, except these two.
    pub const READY: &str = "Ready";
}

/// The reasons of conditions.
pub mod reason {
    /// It holds.
    pub const SUCCESS: &str = "Success";
    /// It holds, but some values that the chart gets are rounded.
    pub const VALUES_ROUNDED: &str = "ValuesRounded";
    /// Work is in progress.
    pub const PENDING: &str = "Pending";
    /// Something failed that is retried, or that people have to fix.
    pub const ERROR: &str = "Error";
    /// An object has to be deleted first.
    pub const DELETION_PENDING: &str = "AwaitingDeletion";
    /// There is no DPUCluster.
    pub const NO_DPU_CLUSTERS: &str = "NoDPUClusters";
    /// DPUClusters are not ready.
    pub const NOT_READY: &str = "NotReady";
    /// Argo CD could not deploy an Application, or what it deployed is not healthy.
    pub const FAILURE: &str = "Failure";
    /// An object of that name belongs to another owner.
    pub const CONFLICT: &str = "Conflict";
    /// The service is paused.
    pub const PAUSED: &str = "Paused";
    /// Every cluster has been brought to the generation of the service.
    pub const ALL_CLUSTERS_CHANGED: &str = "AllClustersChanged";
    /// Clusters are being brought to the generation of the service, a few at a time.
    pub const ROLLING_OUT: &str = "RollingOut";
    /// As many clusters are not ready as the service permits, so no further one is changed.
    pub const HALTED: &str = "Halted";
    /// The spec does not match its CRD.
    pub const INVALID_SPEC: &str = "InvalidSpec";
}

/// The kind of services.
pub fn service() -> Arc<Kind> {
    Kind::known(GROUP, VERSION, "DPUService", "dpuservices", true)
}

/// DPF's clusters.
pub fn dpu_cluster() -> Arc<Kind> {
    Kind::known("provisioning.dpu.nvidia.com", "v1alpha1", "DPUCluster", "dpuclusters", true)
}

/// Argo CD's Applications.
pub fn application() -> Arc<Kind> {
    Kind::known("argoproj.io", "v1alpha1", "Application", "applications", true)
}

/// Argo CD's projects.
pub fn project() -> Arc<Kind> {
    Kind::known("argoproj.io", "v1alpha1", "AppProject", "appprojects", true)
}

/// Secrets.
pub fn secret() -> Arc<Kind> {
    Kind::known("", "v1", "Secret", "secrets", true)
}
