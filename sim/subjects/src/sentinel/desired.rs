//! The desired state: for every resource of the shard, the last report or event is no older than its backoff.

use std::time::Duration;

use lockstep_external::hyperfleet::Resource;
use lockstep_sentinel::loader;
use lockstep_sim::subject::World;
use serde_json::Value;

use super::external::Beyond;
use super::names::CONFIG;
use super::oracle::signed;

/// A poll interval, a cycle with retries, and the time of an answer.
const SLACK: Duration = Duration::from_secs(15);

pub(super) fn differences(world: &World<'_>) -> Vec<String> {
    let Some(beyond) = world.outside.and_then(|outside| outside.find::<Beyond>()) else {
        return vec!["there is no fleet".to_owned()];
    };
    let mut differences: Vec<String> =
        beyond.resources().filter_map(|resource| neglected(resource, beyond, world)).take(5).collect();
    let configs = world.server.objects(&loader::kind());
    match configs.iter().find(|config| config["metadata"]["name"] == CONFIG) {
        Some(config) => untrue(config, &mut differences),
        None => differences.push("there is no configuration".to_owned()),
    }
    differences
}

fn neglected(resource: &Resource, beyond: &Beyond, world: &World<'_>) -> Option<String> {
    if resource.labels.get("region").is_none_or(|region| region != "us-east") {
        return None;
    }
    let backoff = if resource.is_ready() { Duration::from_mins(30) } else { Duration::from_secs(10) };
    let heard = resource.last_report().max(beyond.taken.get(&resource.id).copied());
    let since = heard.map(|heard| world.now.duration_since(heard));
    if since.is_some_and(|since| since <= signed(backoff + SLACK)) {
        return None;
    }
    Some(format!("resource {} was last heard of or asked for at {heard:?}", resource.id))
}

fn untrue(config: &Value, differences: &mut Vec<String>) {
    let status = &config["status"];
    if status["observedGeneration"] != config["metadata"]["generation"] {
        differences.push("the status is of another generation".to_owned());
    }
    for name in ["ConfigValid", "FleetReachable", "BrokerConnected", "Publishing", "Ready"] {
        let conditions = status["conditions"].as_array();
        let condition = conditions.into_iter().flatten().find(|condition| condition["type"] == name);
        if condition.is_none_or(|condition| condition["status"] != "True") {
            differences.push(format!("the condition {name} should be True: {condition:?}"));
        }
    }
}
