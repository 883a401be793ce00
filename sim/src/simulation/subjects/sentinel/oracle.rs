//! What a document demands, found out in the plainest way: the judge of the Sentinel's own reading.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_core::sentinel::config::Config;
use lockstep_core::sentinel::fleet::Dialect;
use serde_json::Value;

/// What is to be done about one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    Publish,
    SkipReady,
    SkipNotReady,
    Malformed,
    Foreign,
}

/// The items of a document with what is to be done about each; none if it is no list.
pub(super) fn items(text: &str, config: &Config, now: Timestamp) -> Vec<(String, Demand)> {
    let Ok(document) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let Some(items) = document["items"].as_array() else { return Vec::new() };
    items
        .iter()
        .map(|item| {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            let demand = if id.is_empty() { Demand::Malformed } else { demand(item, config, now) };
            (id, demand)
        })
        .collect()
}

/// Whether an item is of the API that speaks the other dialect: by this one it would look as if nothing had ever been reported.
fn is_foreign_speech(status: &Value, dialect: Dialect) -> bool {
    let (has_phase, has_conditions) = (status["phase"].is_string(), status["conditions"].is_array());
    match dialect {
        Dialect::Labels => has_conditions && !has_phase && !status["lastTransitionTime"].is_string(),
        Dialect::Search => has_phase && !has_conditions,
    }
}

fn demand(item: &Value, config: &Config, now: Timestamp) -> Demand {
    if is_foreign_speech(&item["status"], config.dialect) {
        return Demand::Malformed;
    }
    let (is_ready, since) = match config.dialect {
        Dialect::Labels => (item["status"]["phase"] == "Ready", &item["status"]["lastTransitionTime"]),
        Dialect::Search => {
            let conditions = item["status"]["conditions"].as_array();
            let reconciled =
                conditions.into_iter().flatten().find(|condition| condition["type"] == "Reconciled");
            match reconciled {
                Some(condition) => (condition["status"] == "True", &condition["last_updated_time"]),
                None => (false, &Value::Null),
            }
        }
    };
    let since = if since.is_null() { &item["created_time"] } else { since };
    let since = match since.as_str().map(str::parse::<Timestamp>) {
        Some(Ok(since)) => Some(since),
        Some(Err(_)) => return Demand::Malformed,
        None => None,
    };
    let labels = item["labels"].as_object().cloned().unwrap_or_default();
    let labels =
        labels.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect();
    if !config.selector.matches(&labels) {
        return Demand::Foreign;
    }
    let backoff = if is_ready { config.backoffs.ready } else { config.backoffs.not_ready };
    match since {
        Some(since) if now.duration_since(since) < signed(backoff) => {
            if is_ready {
                Demand::SkipReady
            } else {
                Demand::SkipNotReady
            }
        }
        _ => Demand::Publish,
    }
}

pub(super) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
