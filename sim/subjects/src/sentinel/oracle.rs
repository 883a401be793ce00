//! An oracle for the Sentinel: it evaluates a document in the simplest way, to check the Sentinel's own evaluation.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use lockstep_sentinel::config::Config;
use lockstep_sentinel::resource::Dialect;
use lockstep_sim::conditions;
use serde_json::Value;
use serde_json::value::RawValue;

use super::expressions::Expressions;
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

/// What is required for an item.
pub(super) struct Verdict {
    pub(super) id: String,
    pub(super) demand: Demand,
    /// The fields of its event that depend on expressions.
    pub(super) data: BTreeMap<String, Value>,
    /// The number of expressions that fail.
    pub(super) failures: u64,
}

/// A page of a list.
pub(super) struct Page {
    items: Vec<Arc<Value>>,
    total: Option<u64>,
}

/// Reads pages. Most pages and items of a poll are the same as in the one before, so it remembers the last page for each URL, and
/// items by their text.
#[derive(Clone, Default)]
pub(super) struct Pages {
    pages: BTreeMap<String, (String, Arc<Page>)>,
    items: BTreeMap<Box<str>, Arc<Value>>,
}

/// Maximum number of remembered items.
const ITEMS_MAX: usize = 1000;

impl Pages {
    /// Parses the document at a URL; none if it is not a page of a list.
    pub(super) fn read(&mut self, url: &str, text: &str) -> Option<Arc<Page>> {
        if let Some((_, page)) = self.pages.get(url).filter(|(last, _)| last == text) {
            return Some(Arc::clone(page));
        }
        let page = Arc::new(self.parse(text)?);
        self.pages.insert(url.to_owned(), (text.to_owned(), Arc::clone(&page)));
        Some(page)
    }

    fn parse(&mut self, text: &str) -> Option<Page> {
        let document = serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok()?;
        let total = document.get("total").and_then(|total| serde_json::from_str(total.get()).ok());
        let items = serde_json::from_str::<Option<Vec<&RawValue>>>(document.get("items")?.get()).ok()?;
        let items = items.unwrap_or_default().into_iter().map(|item| self.item(item.get()));
        Some(Page { items: items.collect::<Option<_>>()?, total })
    }

    fn item(&mut self, text: &str) -> Option<Arc<Value>> {
        if let Some(item) = self.items.get(text) {
            return Some(Arc::clone(item));
        }
        let item: Arc<Value> = Arc::new(serde_json::from_str(text).ok()?);
        if self.items.len() >= ITEMS_MAX {
            self.items.clear();
        }
        self.items.insert(text.into(), Arc::clone(&item));
        Some(item)
    }
}

impl Page {
    /// Returns what is required for each item.
    pub(super) fn items(&self, config: &Config, expressions: &Expressions, now: Timestamp) -> Vec<Verdict> {
        let read = |item: &Arc<Value>| {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            let by_table = if id.is_empty() { (Demand::Malformed, false) } else { demand(item, config, now) };
            verdict(id, by_table, item, expressions, now)
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

/// Applies the expressions to what the table of backoffs demands.
fn verdict(
    id: String,
    by_table: (Demand, bool),
    item: &Value,
    expressions: &Expressions,
    now: Timestamp,
) -> Verdict {
    let (demand, is_ready) = by_table;
    if matches!(demand, Demand::Malformed | Demand::Foreign) {
        return Verdict { id, demand, data: BTreeMap::new(), failures: 0 };
    }
    let skip = if is_ready { Demand::SkipReady } else { Demand::SkipNotReady };
    let (demand, reason, failed) = match expressions.is_due(item, now) {
        None => (demand, "backoff-expired", 0),
        Some(Err(())) => (demand, "backoff-expired", 1),
        Some(Ok(is_due)) => (if is_due { Demand::Publish } else { skip }, "message decision matched", 0),
    };
    let (data, failures) = match demand {
        Demand::Publish => expressions.data(item, reason),
        _ => (BTreeMap::new(), 0),
    };
    Verdict { id, demand, data, failures: failures + failed }
}

/// Returns the demand of the table of backoffs, and whether the item is ready.
fn demand(item: &Value, config: &Config, now: Timestamp) -> (Demand, bool) {
    if is_foreign_speech(&item["status"], config.dialect) {
        return (Demand::Malformed, false);
    }
    let labels = item["labels"].as_object().into_iter().flatten();
    let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    if !config.selector.matches(&labels) {
        return (Demand::Foreign, false);
    }
    let (is_ready, since) = match config.dialect {
        Dialect::Labels => (item["status"]["phase"] == "Ready", &item["status"]["lastTransitionTime"]),
        Dialect::Search => {
            let reconciled = conditions::find(item, "Reconciled").unwrap_or(&Value::Null);
            (reconciled["status"] == "True", &reconciled["last_updated_time"])
        }
    };
    let since = if since.is_null() { &item["created_time"] } else { since };
    let since = match since.as_str().map(str::parse::<Timestamp>) {
        Some(Ok(since)) => Some(since),
        Some(Err(_)) => return (Demand::Malformed, is_ready),
        None => None,
    };
    let backoff = if is_ready { config.backoffs.ready } else { config.backoffs.not_ready };
    let skip = if is_ready { Demand::SkipReady } else { Demand::SkipNotReady };
    let is_early = since.is_some_and(|since| now.duration_since(since) < signed(backoff));
    (if is_early { skip } else { Demand::Publish }, is_ready)
}

pub(super) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_items_with_the_same_text_are_parsed_once() {
        let mut pages = Pages::default();
        let text = r#"{"items":[{"id":"a"},{"id":"b"}],"total":3}"#;
        let first = pages.read("1", text).unwrap();
        assert!(Arc::ptr_eq(&first, &pages.read("1", text).unwrap()));
        let second = pages.read("1", r#"{"total":null,"items":[{"id":"b"},{"id":"c"}]}"#).unwrap();
        assert_eq!((first.total, second.total), (Some(3), None));
        assert_eq!(second.ids().collect::<Vec<_>>(), ["b", "c"]);
        assert!(Arc::ptr_eq(&first.items[1], &second.items[0]));
        assert_eq!(pages.read("1", r#"{"items":null}"#).map(|page| page.len()), Some(0));
    }

    #[test]
    fn what_is_no_page_is_not_read() {
        for text in ["", "[]", "{}", r#"{"items":{}}"#, r#"{"items":[{"id":1e999}]}"#, r#"{"items":[]"#] {
            assert!(Pages::default().read("1", text).is_none(), "{text}");
        }
    }
}
