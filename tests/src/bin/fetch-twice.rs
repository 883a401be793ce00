//! Fetches a URL, replaces the file of trusted certificates, fetches the URL again, and prints both results:
//! `fetch-twice <URL> <certificates>`.
//!
//! This is a separate program, because the environment variable `SSL_CERT_FILE` names the file.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use lockstep_runtime::fetch::Fetcher;

const TIMEOUT: Duration = Duration::from_mins(3);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("no URL")?;
    let certificates = arguments.next().context("no certificates")?;
    let trusted = std::env::var("SSL_CERT_FILE")?;
    let fetcher = Fetcher::default();
    writeln!(
        std::io::stdout(),
        "{:?}",
        fetcher.fetch(&url, &BTreeMap::new(), &Arc::default(), TIMEOUT).await
    )?;
    std::fs::copy(certificates, trusted)?;
    writeln!(
        std::io::stdout(),
        "{:?}",
        fetcher.fetch(&url, &BTreeMap::new(), &Arc::default(), TIMEOUT).await
    )?;
    Ok(())
}
