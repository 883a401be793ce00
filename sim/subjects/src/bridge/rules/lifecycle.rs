//! When a bridge gets and loses its finalizer and its clusters.

use std::sync::Arc;

use lockstep_bridge::names::{self, FINALIZER};
use lockstep_engine::finalizer::is_held;
use lockstep_engine::object::{Kind, Name, ObjectRef, controller_uid, is_deleting, metadata};
use lockstep_sim::cluster::Change;
use lockstep_sim::invariant::{Moment, is_deletion};
use serde_json::Value;

pub(super) fn is_cluster(object: &ObjectRef) -> bool {
    object.kind == names::hosted_cluster() || object.kind == names::node_pool()
}

/// Returns a bridge as it is on the server.
fn bridge_of(moment: &Moment<'_>, uid: &str) -> Option<Arc<Value>> {
    moment.server.objects(&names::bridge()).into_iter().find(|bridge| metadata(bridge, "uid") == uid)
}

pub(super) fn clusters_are_deleted_only_with_their_bridge(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, change)) = moment.entry.by_process() else { return Ok(()) };
    if !is_cluster(&change.object) || !is_deletion(change) {
        return Ok(());
    }
    let uid = change.old.as_deref().and_then(controller_uid).unwrap_or_default();
    match bridge_of(moment, uid) {
        Some(bridge) if !is_deleting(&bridge) => {
            Err(format!("{} was deleted, and its bridge is not", change.object))
        }
        _ => Ok(()),
    }
}

pub(super) fn the_finalizer_is_added_first(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: None, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let Some(uid) = controller_uid(new) else { return Ok(()) };
    match bridge_of(moment, uid) {
        Some(bridge) if !is_held(&bridge, FINALIZER) => {
            Err(format!("{object} was made for a bridge without the finalizer"))
        }
        _ => Ok(()),
    }
}

pub(super) fn the_finalizer_is_removed_last(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: Some(old), new, .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let is_held = |object: &Value| is_held(object, FINALIZER);
    let went = object.kind == names::bridge() && is_held(old) && !new.as_deref().is_some_and(is_held);
    if !went {
        return Ok(());
    }
    let (uid, key) = (metadata(old, "uid"), Name::of(old));
    let is_left = |kind: &Kind, object: &Value| {
        if [names::hosted_cluster(), names::node_pool()].iter().any(|owned| **owned == *kind) {
            return controller_uid(object) == Some(uid);
        }
        // In namespaces of others, they have no owner. The garbage collector deletes the Secrets in the bridge's own namespace.
        metadata(object, "namespace") != key.namespace && names::is_labelled(object, &key)
    };
    let kinds =
        [names::hosted_cluster(), names::node_pool(), names::secret(), names::pool(), names::advertisement()];
    let mut left =
        kinds.iter().filter(|kind| moment.server.objects(kind).iter().any(|object| is_left(kind, object)));
    match left.next() {
        Some(kind) => Err(format!("{object} was let go, and its {} is still there", kind.kind)),
        None => Ok(()),
    }
}
