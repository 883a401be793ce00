//! Deletes a HostedCluster: its node pools, Service and namespace are removed first.

use lockstep_engine::action::{Action, KubeRequest};
use lockstep_engine::finalizer;
use lockstep_engine::object::{ObjectRef, Uid, annotation, is_deleting, metadata};
use serde_json::Value;

use super::model::{FINALIZER, STUCK, api_server_service, node_pool_kind};
use crate::kinds::{namespace_kind, reference};
use crate::read_view::ReadView;

pub(super) fn reconcile(look: &mut ReadView<'_>, target: &ObjectRef, cluster: &Value) {
    let Some(let_go) = finalizer::remove(target, cluster, FINALIZER) else { return };
    let mut pools_left = false;
    for pool in look.all(&node_pool_kind()).filter(|pool| belongs_to(pool, cluster)) {
        pools_left = true;
        delete(look, &reference(&node_pool_kind(), pool), pool);
    }
    if pools_left {
        return;
    }
    let service = api_server_service(cluster);
    if let Some(found) = look.get(&service) {
        delete(look, &service, found);
        return;
    }
    let namespace = ObjectRef::cluster(&namespace_kind(), service.namespace.as_deref().unwrap_or_default());
    if let Some(found) = look.get(&namespace) {
        delete(look, &namespace, found);
        // Another controller removes it, and may not be running.
        if !is_deleting(found) {
            return;
        }
    }
    if annotation(cluster, STUCK) != Some("true") && look.long_after(target, "teardown") {
        look.ask(let_go);
    }
}

/// Returns whether a NodePool belongs to a HostedCluster.
pub(super) fn belongs_to(pool: &Value, cluster: &Value) -> bool {
    metadata(pool, "namespace") == metadata(cluster, "namespace")
        && pool["spec"]["clusterName"] == metadata(cluster, "name")
}

fn delete(look: &mut ReadView<'_>, target: &ObjectRef, object: &Value) {
    if !is_deleting(object) {
        let uid = Uid::of(object);
        look.ask(Action::Kube(KubeRequest::Delete { target: target.clone(), uid, resource_version: None }));
    }
}
