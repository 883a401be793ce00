//! Mistakes of users in bridges. They are corrected after faults have ended.

use lockstep_bridge::names;
use lockstep_engine::object::metadata;
use lockstep_engine::random::Random;
use lockstep_sim::history::reference;
use lockstep_sim::subject::Client;
use serde_json::json;

use super::bridges::{bridge, change};
use crate::bridge::setup::{BRIDGES, PULL_SECRETS, SSH_SECRETS};

/// Names with which no HostedCluster can be created: one has a dot, with one the namespace of the control plane is too long.
const IMPOSSIBLE: [&str; 2] = ["edge.one", "a-name-that-is-too-long-for-the-namespace-of-a-control-plane"];

pub(super) fn create_impossible(client: &mut dyn Client, random: &mut Random) {
    let index = usize::try_from(random.below(BRIDGES.len() as u64)).unwrap_or(0);
    client.create(&names::bridge(), &bridge(random.pick(&IMPOSSIBLE), index));
}

/// Names a Secret that can't exist.
pub(super) fn misname_secret(client: &mut dyn Client, random: &mut Random) {
    let field = random.pick(&["pullSecretRef", "sshKeySecretRef"]);
    let name = random.pick(&["", "Not_Valid"]);
    change(client, random, &json!({ field: { "name": name } }));
}

/// Deletes the bridges that can't have a cluster, and names Secrets that exist.
pub(super) fn correct(client: &mut dyn Client) {
    for bridge in client.server().objects(&names::bridge()) {
        let target = reference(&names::bridge(), &bridge);
        if IMPOSSIBLE.contains(&metadata(&bridge, "name")) {
            client.delete(&target);
            continue;
        }
        for (field, known) in [("pullSecretRef", PULL_SECRETS), ("sshKeySecretRef", SSH_SECRETS)] {
            let name = bridge["spec"][field]["name"].as_str().unwrap_or_default();
            if !known.contains(&name) {
                client.merge(&target, &json!({ "spec": { field: { "name": known[0] } } }));
            }
        }
    }
}
