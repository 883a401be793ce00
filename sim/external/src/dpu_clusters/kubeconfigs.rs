//! The kubeconfigs of clusters, read from their Secrets.

use std::collections::BTreeMap;

use lockstep_engine::object::{ObjectRef, ResourceVersion, metadata};
use serde_json::Value;

use super::access::Access;
use crate::kinds::secret_kind;
use crate::read_view::ReadView;

/// The parsed kubeconfigs, each with the version of its Secret: parsing is slow.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kubeconfigs(BTreeMap<ObjectRef, (ResourceVersion, Option<Access>)>);

impl Kubeconfigs {
    /// Returns the access to a cluster.
    pub(crate) fn access(&mut self, look: &ReadView<'_>, cluster: &Value) -> Result<&Access, String> {
        let name = cluster["spec"]["kubeconfig"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err("There is no kubeconfig.".to_owned());
        }
        let target = ObjectRef::namespaced(&secret_kind(), metadata(cluster, "namespace"), name);
        let secret = look.get(&target).unwrap_or(&Value::Null);
        let version = ResourceVersion::of(secret);
        let read = self.0.entry(target).or_default();
        if read.0 != version {
            *read = (version, Access::of_kubeconfig(secret));
        }
        read.1.as_ref().ok_or_else(|| format!("Secret {name} holds no kubeconfig."))
    }
}
