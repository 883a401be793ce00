//! Tests how the shell reads documents: from the HyperFleet model, and from servers that misbehave.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "fetch/bad_servers.rs"]
mod bad_servers;
#[path = "fetch/hyperfleet.rs"]
mod hyperfleet;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockstep_engine::action::{Failure, Success};
use lockstep_engine::document::Fields;
use lockstep_runtime::fetch::Fetcher;
use lockstep_tests::raw;

/// The timeout; longer than any answer takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

async fn document(fetcher: &Fetcher, url: &str) -> String {
    match fetcher.fetch(url, &BTreeMap::new(), &Arc::default(), PATIENCE).await {
        Ok(Success::Document(document)) => document.text().into_owned(),
        other => panic!("{url}: {other:?}"),
    }
}

async fn failure(fetcher: &Fetcher, url: &str, timeout: Duration) -> Failure {
    fetcher.fetch(url, &BTreeMap::new(), &Arc::default(), timeout).await.unwrap_err()
}

/// Returns why an answer is too large.
async fn oversized(fetcher: &Fetcher, url: &str, keep: &Arc<Fields>, timeout: Duration) -> String {
    match fetcher.fetch(url, &BTreeMap::new(), keep, timeout).await {
        Ok(Success::Oversized { why, is_late: false }) => why,
        other => panic!("{url}: {other:?}"),
    }
}
