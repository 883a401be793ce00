//! The desired state: for every resource of the shard, the last report or event is no older than its backoff and a poll
//! interval.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_external::hyperfleet::Resource;
use lockstep_sentinel::loader;
use lockstep_sim::conditions;
use lockstep_sim::subject::World;
use serde_json::Value;

use super::external::Beyond;
use super::names::CONFIG;
use super::oracle::signed;

/// A cycle with retries, and the time of an answer.
const SLACK: Duration = Duration::from_secs(10);

pub(super) fn differences(world: &World<'_>) -> Vec<String> {
    let Some(beyond) = world.outside.and_then(|outside| outside.find::<Beyond>()) else {
        return vec!["there is no fleet".to_owned()];
    };
    let configs = world.server.objects(&loader::kind());
    let Some(config) = configs.iter().find(|config| config["metadata"]["name"] == CONFIG) else {
        return vec!["there is no configuration".to_owned()];
    };
    let neglected = beyond.resources().filter_map(|resource| neglected(resource, beyond, config, world.now));
    let mut differences: Vec<String> = neglected.take(5).collect();
    untrue(config, &mut differences);
    differences
}

fn neglected(resource: &Resource, beyond: &Beyond, config: &Value, now: Timestamp) -> Option<String> {
    if resource.labels.get("region").is_none_or(|region| region != "us-east") {
        return None;
    }
    let duration = |field: &str| config["spec"][field].as_str()?.parse::<SignedDuration>().ok();
    let backoff = duration(if resource.is_ready() { "backoffReady" } else { "backoffNotReady" })?;
    let most = backoff + duration("pollInterval")? + signed(SLACK);
    let heard = resource.last_report().max(beyond.taken.get(&resource.id).copied());
    if heard.is_some_and(|heard| now.duration_since(heard) <= most) {
        return None;
    }
    Some(format!("resource {} was last heard of or asked for at {heard:?}", resource.id))
}

fn untrue(config: &Value, differences: &mut Vec<String>) {
    if config["status"]["observedGeneration"] != config["metadata"]["generation"] {
        differences.push("the status is of another generation".to_owned());
    }
    for name in ["ConfigValid", "FleetReachable", "BrokerConnected", "Publishing", "Ready"] {
        if !conditions::is(config, name, "True") {
            let found = conditions::find(config, name);
            differences.push(format!("the condition {name} should be True: {found:?}"));
        }
    }
}
