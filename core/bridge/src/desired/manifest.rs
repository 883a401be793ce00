//! The manifests of the HostedCluster and the NodePool.

use std::sync::Arc;

use lockstep_engine::action::Action;
use lockstep_engine::object::{Kind, Uid, controller_reference};
use lockstep_engine::write::{covers, create_or_apply};
use serde_json::{Value, json};

use crate::names::{self, CLUSTER_TYPE};
use crate::snapshot::BridgeSnapshot;

/// Returns the write that brings an object of the bridge's name to its desired state, if it differs from that.
pub(super) fn bring(
    snapshot: &BridgeSnapshot<'_>,
    kind: &Arc<Kind>,
    existing: Option<&Value>,
    spec: &Value,
) -> Option<Action> {
    let mut labels = names::labels(snapshot.key);
    labels[CLUSTER_TYPE] = json!(snapshot.spec.cluster_type);
    let is_as_wanted = existing.is_some_and(|existing| {
        covers(&existing["spec"], spec) && covers(&existing["metadata"]["labels"], &labels)
    });
    let manifest = json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "namespace": snapshot.key.namespace,
            "name": snapshot.key.name,
            "labels": labels,
            "ownerReferences": [controller_reference(&names::bridge(), &snapshot.key.name, &snapshot.bridge.uid)],
        },
        "spec": spec,
    });
    (!is_as_wanted)
        .then(|| create_or_apply(snapshot.key.object(kind), manifest, existing.map(Uid::of).as_ref()))
}
