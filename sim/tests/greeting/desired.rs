//! What the cluster should look like, worked out from the greetings alone.

use std::collections::BTreeSet;

use lockstep_apiserver::server::ApiServer;
use lockstep_engine::object::{ObjectRef, is_deleting, metadata};
use lockstep_sim::history::reference;
use serde_json::Value;

use super::controller::{LOBBY, child, config_map_kind, greeting_kind, is_ours};

/// The condition `Ready` of a greeting.
pub(crate) fn ready(greeting: &Value) -> Option<&Value> {
    let conditions = greeting["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Ready")
}

/// The `ConfigMap` of a greeting.
pub(crate) fn child_of(greeting: &ObjectRef) -> ObjectRef {
    child(greeting.namespace.as_deref().unwrap_or_default(), &greeting.name)
}

pub(crate) fn differences(server: &ApiServer) -> Vec<String> {
    let greetings = server.objects(&greeting_kind());
    let mut differences: Vec<String> =
        greetings.iter().filter_map(|greeting| difference(server, greeting)).collect();
    let wanted: BTreeSet<ObjectRef> =
        greetings.iter().map(|greeting| child_of(&reference(&greeting_kind(), greeting))).collect();
    for found in server.objects(&config_map_kind()) {
        let target = reference(&config_map_kind(), &found);
        let hangs = metadata(&found, "namespace") == LOBBY && is_ours(&found);
        if hangs && !wanted.contains(&target) {
            differences.push(format!("{target} hangs in the lobby without a greeting"));
        }
    }
    differences
}

fn difference(server: &ApiServer, greeting: &Value) -> Option<String> {
    let name = reference(&greeting_kind(), greeting);
    if is_deleting(greeting) {
        return Some(format!("{name} still is being deleted"));
    }
    let target = child_of(&name);
    let hangs = match server.object(&target) {
        None => return Some(format!("{target} is missing")),
        Some(found) if !is_ours(found) => false,
        Some(found) if found["data"]["text"] == greeting["spec"]["text"] => true,
        Some(_) => return Some(format!("{target} does not say what {name} says")),
    };
    let status = if hangs { "True" } else { "False" };
    let told = ready(greeting).cloned().unwrap_or_default();
    let is_told =
        told["status"] == status && told["observedGeneration"] == greeting["metadata"]["generation"];
    (!is_told).then(|| format!("{name} should be Ready={status} of its generation, it says {told}"))
}
