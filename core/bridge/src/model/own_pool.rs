//! The IPAddressPool and the L2Advertisement that are created for a bridge, if it requests them.

use lockstep_engine::object::{Name, text};
use serde_json::Value;

use crate::names::control_plane_namespace;

/// Returns the name of both objects, if a bridge requests them. It is that of the namespace of the control plane: no two
/// bridges can have a cluster with the same one, and it is short enough for any object.
pub fn name(bridge: &Value) -> Option<Name> {
    let namespace = text(bridge, "/spec/metalLBPool/namespace")?;
    Some(Name::new(namespace, &control_plane_namespace(&Name::of(bridge))))
}
