use std::collections::BTreeMap;

use lockstep_crds::sentinel::ShardSelector;
use lockstep_engine::document::{Condenser, Document};
use lockstep_engine::time::Wall;
use lockstep_sentinel::config;
use lockstep_sentinel::decision::{Backoffs, evaluate};
use lockstep_sentinel::fleet::{self, Place};
use lockstep_sentinel::pager::Pager;
use lockstep_sentinel::resource::{Dialect, ResourceType};
use lockstep_sentinel::selector::Selector;
use serde_json::Value;

/// Runs one fuzz input. The first byte chooses the format of the rest: a configuration, an answer of the fleet in either
/// dialect, or a selector.
pub fn sentinel(data: &[u8]) {
    let Some((choice, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match choice % 4 {
        0 => configuration(text),
        1 => answer(text, Dialect::Labels),
        2 => answer(text, Dialect::Search),
        _ => selector(text),
    }
}

fn configuration(text: &str) {
    let Ok(object) = serde_json::from_str::<Value>(text) else { return };
    match config::read(&object) {
        Ok(config) => {
            assert!(!config.poll_interval.is_zero() && !config.timeout.is_zero());
            assert!(config.url.starts_with("http"));
            let url = object["spec"]["broker"]["url"].as_str().unwrap_or_default();
            let password =
                url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')).map(|(user, _)| user);
            if let Some(password) = password.filter(|password| password.len() > 12) {
                assert!(!format!("{:?}", config.target).contains(password), "credentials are shown");
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty() && problems.iter().all(|problem| problem.starts_with("spec")));
        }
    }
}

fn answer(text: &str, dialect: Dialect) {
    let read = |document: &Document| fleet::read(document, dialect, &Selector::default());
    let whole = read(&text.into());
    let condensed = |mut condenser: Condenser| {
        let is_short = text.as_bytes().chunks(7).all(|chunk| condenser.push(chunk).is_ok());
        condenser.finish().filter(|_| is_short).expect("a short text")
    };
    let kept = condensed(Condenser::new(&fleet::fields()));
    // The condensed page has the same meaning.
    assert!(whole.is_err() || read(&kept) == whole, "{kept:?}");
    let parts = condensed(Condenser::with_parts(&fleet::fields(), 0));
    let Ok(mut page) = whole else { return };
    let of_parts = read(&parts).expect("a page in parts");
    assert_eq!(of_parts.resources.len() + of_parts.later.len(), page.resources.len(), "{parts:?}");
    assert_eq!(
        (of_parts.items, of_parts.total, &of_parts.malformed),
        (page.items, page.total, &page.malformed)
    );
    assert_eq!(page.resources.len() + page.spoiled, page.items);
    assert!(page.resources.iter().all(|resource| !resource.id.is_empty()));
    let backoffs =
        Backoffs { ready: std::time::Duration::MAX, not_ready: std::time::Duration::from_secs(10) };
    for resource in &page.resources {
        let _ = evaluate(resource, &backoffs, Wall::from_timestamp(jiff::Timestamp::UNIX_EPOCH));
    }
    let mut pager = Pager::new(dialect);
    if pager.took(&mut page).is_ok()
        && let Some((place, _)) = pager.next()
    {
        url(&Selector::default(), place, dialect);
    }
}

fn selector(text: &str) {
    let Ok(selector) = serde_json::from_str::<ShardSelector>(text) else { return };
    let Ok(selector) = Selector::read(&selector) else { return };
    assert!(selector.search().len() <= 4096);
    let _ = selector.matches(&BTreeMap::new());
    let place = Place { after: Some(text.to_owned()), before: Some(text.to_owned()), ..Place::default() };
    url(&selector, &place, Dialect::Search);
    url(&selector, &Place::default(), Dialect::Labels);
}

/// Checks that any selector and any id give a valid URL with the expected parameters.
fn url(selector: &Selector, place: &Place, dialect: Dialect) {
    let url = fleet::url(
        "http://fleet",
        dialect,
        &ResourceType::read("clusters").expect("a plural"),
        selector,
        place,
    );
    let parsed: http::Uri = url.parse().expect("a URL");
    let query = parsed.query().expect("a query");
    assert!(query.split('&').all(|pair| {
        matches!(pair.split_once('='), Some(("labels" | "search" | "order" | "orderBy" | "page" | "size", _)))
    }));
}
