//! Fetches a URL, replaces the file of trusted certificates, fetches it again, and prints how that went:
//! `fetch-twice <URL> <certificates>`.
//!
//! A process of its own, because the file is named by the environment, as `SSL_CERT_FILE`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use lockstep_shell::fetch::Fetcher;

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
