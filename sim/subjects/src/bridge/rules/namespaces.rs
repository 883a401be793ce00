//! The namespaces of control planes: HyperShift deletes one with the HostedCluster, even if another client has created it.

use lockstep_bridge::names::{self, CONTROL_PLANE};
use lockstep_engine::object::{Name, ObjectRef, label};
use lockstep_sim::cluster::Change;
use lockstep_sim::invariant::Moment;

use super::own_pool::has_long_been;

pub(super) fn no_namespace_is_taken_over(moment: &Moment<'_>) -> Result<(), String> {
    let Some((_, Change { object, old: None, new: Some(new), .. })) = moment.entry.by_process() else {
        return Ok(());
    };
    let namespace = names::control_plane_namespace(&Name::of(new));
    let namespace = ObjectRef::cluster(&names::namespace(), &namespace);
    if object.kind != names::hosted_cluster()
        || !has_long_been(moment, &namespace, |namespace| label(namespace, CONTROL_PLANE).is_none())
    {
        return Ok(());
    }
    Err(format!("{object} was created, and HyperShift will delete {namespace} of another client with it"))
}
