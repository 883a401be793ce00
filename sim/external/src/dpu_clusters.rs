//! DPU clusters: their access control, and the releases on them.
//!
//! A DPUCluster object defines the cluster. The cluster is reachable at the server of its kubeconfig, with the credentials in the
//! kubeconfig. Other credentials in the kubeconfig are a rotation. With the annotation [`UNREACHABLE`], the cluster is
//! unreachable. Each release of a chart is a ConfigMap in the namespace of the DPUCluster ([`release`]), and is deleted with it:
//!
//! ```text
//!  kubectl --namespace <that of the DPUCluster> get configmaps --selector external.lockstep/cluster=<its name>
//! ```
//!
//! The cluster does what kubelets do: a new release becomes healthy or fails, and a deleted release takes a while to stop.

use std::sync::Arc;

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, ObjectRef, is_deleting, label, metadata};
use serde_json::json;

use super::kinds::{config_map_kind, reference};
use super::level::Controller;
use super::read_view::ReadView;

mod access;
mod cluster;
mod kubeconfigs;
pub mod release;

pub use self::access::Access;
pub(crate) use self::cluster::is_reachable;
pub use self::cluster::{UNREACHABLE, cluster_kind};
pub(crate) use self::kubeconfigs::Kubeconfigs;

/// The controller of the DPU clusters.
#[derive(Debug, Clone, Copy, Default)]
pub struct DpuClusters;

impl Controller for DpuClusters {
    const NAME: &'static str = "dpu-cluster";

    fn kinds() -> Vec<Arc<Kind>> {
        vec![cluster_kind(), config_map_kind()]
    }

    fn look(&mut self, look: &mut ReadView<'_>) {
        for object in look.all(&config_map_kind()) {
            let Some(cluster) = label(object, release::CLUSTER) else { continue };
            let target = reference(&config_map_kind(), object);
            let cluster = ObjectRef::namespaced(&cluster_kind(), metadata(object, "namespace"), cluster);
            if is_deleting(object) {
                // If the cluster was deleted, nothing has to be stopped.
                let stopped = look.get(&cluster).is_none() || look.long_after(&target, "stop");
                if let Some(gone) = finalizer::remove(&target, object, release::FINALIZER).filter(|_| stopped)
                {
                    look.ask(gone);
                }
            } else if object["data"]["health"] == release::PROGRESSING && look.after(&target, "come up") {
                let health = release::outcome(object);
                let patch =
                    json!({ "metadata": { "uid": metadata(object, "uid") }, "data": { "health": health } });
                look.ask(Action::Kube(KubeRequest::Patch {
                    target,
                    subresource: None,
                    patch: Arc::new(patch),
                }));
            }
        }
    }
}
