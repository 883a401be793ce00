//! An oracle for the Sentinel: it evaluates a document in the simplest way, to check the Sentinel's own evaluation.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_sentinel::config::Config;
use lockstep_sentinel::resource::Dialect;
use serde_json::Value;

use super::external::HOSTS;

/// The required action for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Demand {
    Publish,
    SkipReady,
    SkipNotReady,
    Malformed,
    Foreign,
}

/// A page of a list.
pub(super) struct Page {
    items: Vec<Value>,
    total: Option<u64>,
}

/// Parses a document; none if it is not a page of a list.
pub(super) fn page(text: &str) -> Option<Page> {
    let mut document = serde_json::from_str::<Value>(text).ok()?;
    let total = document["total"].as_u64();
    let items = match document.get_mut("items")?.take() {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        _ => return None,
    };
    Some(Page { items, total })
}

impl Page {
    /// Returns the items, with the required action for each.
    pub(super) fn items(&self, config: &Config, now: Timestamp) -> Vec<(String, Demand)> {
        let read = |item: &Value| {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            let demand = if id.is_empty() { Demand::Malformed } else { demand(item, config, now) };
            (id, demand)
        };
        self.items.iter().map(read).collect()
    }

    /// Returns the number of items.
    pub(super) fn len(&self) -> u64 {
        self.items.len() as u64
    }

    /// Returns the total number of items of the list, if the document has it.
    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    /// Returns the ids on the page.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| item["id"].as_str())
    }

    /// Returns whether it is the last page of the list, if it was requested by this URL.
    pub(super) fn is_last(&self, url: &str) -> bool {
        let Some(total) = self.total else { return true };
        let number = url.split(['?', '&']).find_map(|parameter| parameter.strip_prefix("page="));
        let before = number.and_then(|number| number.parse::<u64>().ok()).unwrap_or(1) - 1;
        let host = HOSTS.iter().find(|host| url.starts_with(host.url));
        let size = host.and_then(|host| host.largest_page).map_or(0, |size| size_of(url).min(size as u64));
        self.items.is_empty() || before * size + self.items.len() as u64 >= total
    }
}

/// Returns the maximum number of items on a page with this URL.
pub(super) fn size_of(url: &str) -> u64 {
    let size = url.split(['?', '&']).find_map(|parameter| parameter.strip_prefix("size="));
    size.and_then(|size| size.parse().ok()).unwrap_or(u64::MAX)
}

/// Returns whether an item uses the other dialect of the API. In this dialect it would look as if no status had ever been
/// reported.
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
