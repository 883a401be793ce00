//! Bridges whose API server is reached through node ports, and the Node.

use lockstep_bridge::names;
use lockstep_engine::object::ObjectRef;
use lockstep_engine::random::Random;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use crate::bridge::setup::{self, BRIDGES, NAMESPACE, VIPS};

/// Changes a spec so that node ports are used.
pub(super) fn request(spec: &mut Value) {
    spec["exposeThroughLoadBalancer"] = json!(false);
    spec["metalLBVirtualIP"] = json!("");
}

/// Returns whether the hosted cluster of a bridge has node ports. Before it exists, the spec of the bridge decides.
pub(super) fn are_used(client: &dyn Client, bridge: &str) -> bool {
    let cluster = ObjectRef::namespaced(&names::hosted_cluster(), NAMESPACE, bridge);
    if let Some(cluster) = client.server().object(&cluster) {
        return cluster["spec"]["services"][0]["servicePublishingStrategy"]["type"] == "NodePort";
    }
    let bridge = client.server().object(&ObjectRef::namespaced(&names::bridge(), NAMESPACE, bridge));
    bridge.is_some_and(|bridge| bridge["spec"]["exposeThroughLoadBalancer"] == false)
}

/// Changes how a bridge is reached, which has no effect on an existing hosted cluster.
pub(super) fn change(client: &mut dyn Client, random: &mut Random) {
    let bridge = ObjectRef::namespaced(&names::bridge(), NAMESPACE, random.pick(&BRIDGES));
    let mut spec = json!({ "exposeThroughLoadBalancer": true, "metalLBVirtualIP": random.pick(&VIPS) });
    if random.below(2) == 0 {
        request(&mut spec);
    }
    client.merge(&bridge, &json!({ "spec": spec }));
}

/// Removes the Node, or gives it another address.
pub(super) fn change_node(client: &mut dyn Client, random: &mut Random) {
    if random.below(2) == 0 {
        client.delete(&ObjectRef::cluster(&names::node(), setup::NODE));
    } else {
        setup::create_node(client, random.pick(&["198.51.100.8", "198.51.100.9"]));
    }
}
