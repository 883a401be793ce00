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

use std::collections::BTreeMap;
use std::sync::Arc;

use lockstep_engine::action::Action;
use lockstep_engine::finalizer;
use lockstep_engine::object::{Kind, ObjectRef, annotation, is_deleting, label, metadata, resource_version};
use serde_json::{Value, json};

use super::dpf::{KUBECONFIG_KEYS, cluster_kind};
use super::level::Controller;
use super::read_view::ReadView;
use super::{config_map_kind, reference, secret_kind};

mod access;
pub mod release;

pub use self::access::Access;

/// On a DPUCluster, with the value `true`: the cluster is unreachable.
pub const UNREACHABLE: &str = "external.lockstep/unreachable";

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
                look.ask(Action::Patch { target, subresource: None, patch: Arc::new(patch) });
            }
        }
    }
}

/// The parsed kubeconfigs, each with the version of its Secret: parsing is slow.
#[derive(Debug, Clone, Default)]
pub(super) struct Kubeconfigs(BTreeMap<ObjectRef, (u64, Option<Access>)>);

impl Kubeconfigs {
    /// Returns the access to a cluster.
    pub(super) fn access(&mut self, look: &ReadView<'_>, cluster: &Value) -> Result<&Access, String> {
        let name = cluster["spec"]["kubeconfig"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err("There is no kubeconfig.".to_owned());
        }
        let target = ObjectRef::namespaced(&secret_kind(), metadata(cluster, "namespace"), name);
        let secret = look.get(&target).unwrap_or(&Value::Null);
        let version = resource_version(secret);
        let read = self.0.entry(target).or_default();
        if read.0 != version {
            let text = KUBECONFIG_KEYS.iter().find_map(|key| secret["data"][*key].as_str());
            *read = (version, text.and_then(Access::decode));
        }
        read.1.as_ref().ok_or_else(|| format!("Secret {name} holds no kubeconfig."))
    }
}

/// Returns whether a cluster is reachable.
pub(super) fn is_reachable(cluster: &Value) -> bool {
    annotation(cluster, UNREACHABLE) != Some("true")
}
