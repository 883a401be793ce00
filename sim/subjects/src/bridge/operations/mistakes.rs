//! Mistakes of users in bridges. They are corrected after faults have ended.

use lockstep_bridge::names;
use lockstep_engine::object::{ObjectRef, metadata};
use lockstep_engine::random::Random;
use lockstep_sim::history::reference;
use lockstep_sim::subject::Client;
use serde_json::json;

use super::bridges::{bridge, change};
use crate::bridge::setup::{BRIDGES, NAMESAKE, NAMESAKE_NAMESPACE, PULL_SECRETS, SSH_SECRETS};

/// Names with which no HostedCluster can be created: one has a dot, with one the namespace of the control plane is too long.
const IMPOSSIBLE: [&str; 2] = ["edge.one", "a-name-that-is-too-long-for-the-namespace-of-a-control-plane"];

pub(super) fn create_impossible(client: &mut dyn Client, random: &mut Random) {
    let index = usize::try_from(random.below(BRIDGES.len() as u64)).unwrap_or(0);
    client.create(&names::bridge(), &bridge(random.pick(&IMPOSSIBLE), index));
}

/// Creates or deletes a bridge for which the control plane's namespace and the kubeconfig's copy have the names of another bridge's. It gets no
/// cluster: its namespace has no Secrets.
pub(super) fn toggle_namesake(client: &mut dyn Client, _: &mut Random) {
    if client.server().object(&target_of_namesake()).is_some() {
        delete_namesake(client);
        return;
    }
    let mut namesake = bridge(NAMESAKE, 1);
    namesake["metadata"]["namespace"] = json!(NAMESAKE_NAMESPACE);
    client.create(&names::bridge(), &namesake);
}

fn delete_namesake(client: &mut dyn Client) {
    client.delete(&target_of_namesake());
}

fn target_of_namesake() -> ObjectRef {
    ObjectRef::namespaced(&names::bridge(), NAMESAKE_NAMESPACE, NAMESAKE)
}

/// Names a Secret that can't exist.
pub(super) fn misname_secret(client: &mut dyn Client, random: &mut Random) {
    let field = random.pick(&["pullSecretRef", "sshKeySecretRef"]);
    let name = random.pick(&["", "Not_Valid"]);
    change(client, random, &json!({ field: { "name": name } }));
}

/// Deletes the bridges that can't have a cluster, and names Secrets that exist.
pub(super) fn correct(client: &mut dyn Client) {
    delete_namesake(client);
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
