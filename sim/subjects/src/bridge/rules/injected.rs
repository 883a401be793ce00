//! The kubeconfigs that bridges give to their DPUClusters.

use lockstep_bridge::model::secret::SecretRole;
use lockstep_bridge::names;
use lockstep_engine::object::{Name, ObjectRef, metadata};
use lockstep_sim::invariant::Moment;
use serde_json::{Value, json};

use super::judged::STALE;

/// Returns whether a kubeconfig is the one that a bridge gives to its DPUCluster, and this is its DPUCluster.
pub(super) fn has_given(bridge: &Value, dpu_cluster: &ObjectRef, kubeconfig: &str) -> bool {
    let (namespace, name) = (metadata(bridge, "namespace"), metadata(bridge, "name"));
    let reference = &bridge["spec"]["dpuClusterRef"];
    reference["name"] == dpu_cluster.name
        && reference["namespace"] == json!(dpu_cluster.namespace)
        && kubeconfig == format!("{namespace}-{name}-dpucluster-kubeconfig")
}

/// Returns whether the DPUCluster of a bridge uses a copy of the bridge, which exists, both on the server and in the view of the
/// process, without a recent change of that.
pub(super) fn is_connected(moment: &Moment<'_>, process: usize, bridge: &Value) -> bool {
    let key = Name::of(bridge);
    let field = |field: &str| bridge["spec"]["dpuClusterRef"][field].as_str().unwrap_or_default();
    let named = Name::new(field("namespace"), field("name"));
    let Some(copy) = SecretRole::Kubeconfig.copy(&key, Some(&named)) else { return false };
    let is_used = |dpu_cluster: &Value| dpu_cluster["spec"]["kubeconfig"] == copy.name;
    let is_copy = |secret: &Value| names::is_labelled(secret, &key);
    stays(moment, process, &named.object(&names::dpu_cluster()), &is_used)
        && stays(moment, process, &copy.object(&names::secret()), &is_copy)
}

/// Returns whether an object has matched for a while, both on the server and in the view of a process.
fn stays(moment: &Moment<'_>, process: usize, object: &ObjectRef, is_so: &dyn Fn(&Value) -> bool) -> bool {
    let Some(state) = moment.history.process(process) else { return false };
    let since = moment.entry.at.saturating_sub(STALE);
    let versions = moment.history.versions(object);
    let is_old = versions.first().is_some_and(|first| first.at < since);
    let ends = versions.iter().skip(1).map(|next| next.at).chain([moment.entry.at]);
    let mut recent = versions.iter().zip(ends).filter(|(_, end)| *end >= since);
    let has_matched = recent.all(|(version, _)| version.object.as_deref().is_some_and(is_so));
    let Some(observed) = state.observed.get(object).filter(|object| is_so(object)) else { return false };
    let is_new = state.previous.get(object).is_some_and(|(until, before)| *until >= since && !is_so(before));
    // A watch that lists an older state hides it for a moment, and delivers the same version again.
    let mut replaced = state.replaced.get(object).into_iter().flatten();
    let version = |object: &Value| metadata(object, "resourceVersion").to_owned();
    let was_hidden = replaced.any(|(until, before)| *until >= since && version(before) == version(observed));
    is_old && has_matched && !is_new && !was_hidden
}
