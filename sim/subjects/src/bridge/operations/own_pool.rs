//! What other clients do to the IPAddressPools and L2Advertisements that bridges have of their own.

use std::sync::Arc;

use lockstep_bridge::model::pool::overlaps;
use lockstep_bridge::names;
use lockstep_engine::object::{Kind, Name, ObjectRef};
use lockstep_engine::random::Random;
use lockstep_external::metallb;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use crate::bridge::setup::{self, BRIDGES, NAMESPACE, OWN_VIPS};

/// An address for bridges with pools of their own.
pub(super) const SPARE: &str = "203.0.113.40";

/// Makes a bridge request a pool of its own, with the address of this number.
pub(super) fn request(bridge: &mut Value, number: usize) {
    bridge["spec"]["metalLBPool"] = setup::own_pools();
    bridge["spec"]["metalLBVirtualIP"] = json!(OWN_VIPS[number]);
}

/// Returns whether a bridge requests a pool of its own.
pub(super) fn is_requested(client: &dyn Client, bridge: &str) -> bool {
    let bridge = client.server().object(&ObjectRef::namespaced(&names::bridge(), NAMESPACE, bridge));
    bridge.is_some_and(|bridge| bridge["spec"]["metalLBPool"].is_object())
}

/// Returns the number of a bridge.
fn number(bridge: &str) -> usize {
    BRIDGES.iter().position(|name| *name == bridge).unwrap_or_default()
}

/// Returns the name of a bridge's own pool and advertisement.
fn name(bridge: &str) -> String {
    names::control_plane_namespace(&Name::new(NAMESPACE, bridge))
}

/// Changes or deletes the own pool or advertisement of a bridge.
pub(super) fn change(client: &mut dyn Client, random: &mut Random) {
    let bridge = random.pick(&BRIDGES);
    let name = name(bridge);
    let place = |kind: &Arc<Kind>| ObjectRef::namespaced(kind, metallb::NAMESPACE, &name);
    match random.below(4) {
        0 => {
            client.delete(&place(&names::pool()));
        }
        1 => {
            client.delete(&place(&names::advertisement()));
        }
        2 => {
            let spec =
                json!({ "addresses": [format!("203.0.113.9{}/32", number(bridge))], "autoAssign": true });
            client.merge(&place(&names::pool()), &json!({ "spec": spec }));
        }
        _ => {
            client.merge(&place(&names::advertisement()), &json!({ "spec": { "ipAddressPools": ["vips"] } }));
        }
    }
}

/// Creates a pool with the address of a bridge that requests a pool of its own. The webhook of MetalLB refuses one that overlaps
/// another.
pub(super) fn create_overlapping(client: &mut dyn Client, random: &mut Random) {
    let address = random.pick(&[OWN_VIPS[0], OWN_VIPS[1], OWN_VIPS[2], SPARE]);
    let pools = client.server().objects(&names::pool());
    if address.parse().is_ok_and(|address| pools.iter().any(|pool| overlaps(pool, address))) {
        return;
    }
    let spec = json!({ "addresses": [format!("{address}-{address}")], "autoAssign": false });
    client.create(&names::pool(), &json!({ "metadata": setup::squatter("theirs"), "spec": spec }));
}

/// Returns an object that has the name of a bridge's own pool or advertisement.
pub(super) fn blocker(bridge: &str, random: &mut Random) -> (Arc<Kind>, Value) {
    let metadata = setup::squatter(&name(bridge));
    if random.below(2) == 0 {
        let spec = json!({ "ipAddressPools": ["vips"] });
        (names::advertisement(), json!({ "metadata": metadata, "spec": spec }))
    } else {
        let spec = json!({ "addresses": [format!("198.51.100.9{}/32", number(bridge))] });
        (names::pool(), json!({ "metadata": metadata, "spec": spec }))
    }
}
