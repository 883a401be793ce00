//! What admins do to MetalLB and its pools.

use lockstep_bridge::names;
use lockstep_engine::random::Random;
use lockstep_sim::crds;
use lockstep_sim::subject::Client;
use serde_json::{Value, json};

use crate::bridge::setup;

/// Lets the pool serve only some Services, or all again. The first two selectors include the Services of hosted clusters.
pub(super) fn dedicate_pool(client: &mut dyn Client, random: &mut Random) {
    let term = |operator: &str, values: Value| json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "app", "operator": operator, "values": values }] }] });
    let allocation = match random.below(6) {
        0 => json!({ "serviceSelectors": [{ "matchLabels": { "app": "kube-apiserver" } }] }),
        1 => term("In", json!(["kube-apiserver", "other"])),
        2 => term("DoesNotExist", Value::Null),
        3 => term("NotIn", json!(["kube-apiserver"])),
        4 => json!({ "namespaces": ["elsewhere"] }),
        _ => Value::Null,
    };
    client.merge(&setup::pool(), &json!({ "spec": { "serviceAllocation": allocation } }));
}

/// Deletes the CRDs of pools and advertisements, with all their objects.
pub(super) fn uninstall(client: &mut dyn Client, _: &mut Random) {
    for kind in [names::pool(), names::advertisement()] {
        client.delete(&crds::of(&kind));
    }
}
