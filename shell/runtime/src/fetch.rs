//! Reads documents over HTTP.
//!
//! An answer is read completely, within bounds, and only the required fields are kept. An answer that is too long, or that is
//! large and incomplete at the timeout, is [`Success::Oversized`]. Any other late answer is a failure of [`ErrorKind::Unknown`]. It
//! retries nothing: the machines decide when to retry. HTTPS trusts the certificates of the system, or those in the file that
//! `SSL_CERT_FILE` names, which may change. Messages contain neither the token nor the user information of a URL.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION};
use lockstep_engine::action::{ErrorKind, Failure, Outcome, Success};
use lockstep_engine::document::{Condenser, DOCUMENT_MAX_BYTES, Fields, KEPT_MAX_BYTES, TooLong};
use lockstep_engine::wire::{JSON, cut};
use reqwest::{Response, Url, redirect};
use tokio::time::{Instant, timeout_at};

use self::token::Token;
use crate::web::{self, REDIRECTS, ReloadingClient, read, unanswered};

mod token;

/// A document counts as too large, and not as late, if this many bytes arrived in time.
const LARGE_BYTES: usize = 1 << 20;

/// The maximum size of an error's body to read, in bytes.
const LONGEST_ERROR: usize = 64 * 1024;

/// The environment variable that names the file with the bearer token.
pub const TOKEN_FILE: &str = "HYPERFLEET_API_TOKEN_FILE";

/// Reads documents. Clones share their connections, which are kept open.
#[derive(Debug, Clone)]
pub struct Fetcher {
    client: Arc<ReloadingClient>,
    token: Option<PathBuf>,
}

impl Default for Fetcher {
    /// Creates a fetcher that sends no token.
    fn default() -> Self {
        Self::with_token_file(None)
    }
}

impl Fetcher {
    /// Creates a fetcher that sends the bearer token in the file that the environment variable [`TOKEN_FILE`] names, if it is
    /// set.
    pub fn from_env() -> Self {
        Self::with_token_file(std::env::var_os(TOKEN_FILE).filter(|path| !path.is_empty()).map(PathBuf::from))
    }

    /// Creates a fetcher that sends the bearer token in a file, which may be replaced at any time.
    pub fn with_token_file(token: Option<PathBuf>) -> Self {
        Self { client: Arc::new(ReloadingClient::new(within_origin)), token }
    }

    /// Reads these fields of one document, with these additional headers. The whole answer may take as long as `timeout`.
    pub async fn fetch(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        keep: &Arc<Fields>,
        timeout: Duration,
    ) -> Outcome {
        let deadline = Instant::now() + timeout;
        let token = self.token.as_deref().map(Token::read).transpose()?;
        let mut document = Condenser::new(keep);
        let answer = self.ask(url, headers, token.as_ref(), deadline, &mut document).await;
        let came = document.came();
        answer.and_then(|()| text(document)).or_else(|error| match error {
            Error::Late if came >= LARGE_BYTES => {
                let came = came >> 20;
                let why = format!("{came} MiB of the answer came within {timeout:?}, and not all of it");
                Ok(Success::Oversized { why, is_late: true })
            }
            Error::Late => {
                Err(Failure::new(ErrorKind::Unknown, format!("no whole answer within {timeout:?}")))
            }
            Error::TooLong => {
                let (document, kept) = (DOCUMENT_MAX_BYTES >> 20, KEPT_MAX_BYTES >> 20);
                let why = if came > DOCUMENT_MAX_BYTES {
                    format!("the answer is longer than {document} MiB")
                } else {
                    format!("what is read of the answer is longer than {kept} MiB")
                };
                Ok(Success::Oversized { why, is_late: false })
            }
            Error::Failed(failure) => {
                let message = match &token {
                    Some(token) => token.mask(&failure.message),
                    None => failure.message,
                };
                Err(Failure { message: cut(&message), ..failure })
            }
        })
    }

    async fn ask(
        &self,
        url: &str,
        headers: &BTreeMap<String, String>,
        token: Option<&Token>,
        deadline: Instant,
        document: &mut Condenser,
    ) -> Result<(), Error> {
        let mut url = Url::parse(url)
            .map_err(|error| Failure::new(ErrorKind::Invalid, format!("the URL cannot be used: {error}")))?;
        if token.is_some() {
            // Credentials in the URL would be sent as well. A URL whose scheme permits none has none.
            let _none = url.set_username("").and_then(|()| url.set_password(None));
        }
        let mut request = self.client.get()?.get(url).header(ACCEPT, JSON);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token.header());
        }
        let mut response = timeout_at(deadline, request.send()).await?.map_err(unanswered)?;
        let status = response.status();
        if status.is_success() {
            return timeout_at(deadline, read_document(&mut response, document)).await?;
        }
        let mut body = Vec::new();
        // The status code determines the failure. The body is only for people, so a partial body is sufficient.
        let _whole = timeout_at(deadline, read(&mut response, LONGEST_ERROR, &mut body)).await;
        Err(web::failure(status, response.headers(), &body).into())
    }
}

/// The reason for a missing document.
enum Error {
    Late,
    TooLong,
    Failed(Failure),
}

impl From<tokio::time::error::Elapsed> for Error {
    fn from(_: tokio::time::error::Elapsed) -> Self {
        Self::Late
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Follows redirects only within the same origin: the token is for that server only.
fn within_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let origin = attempt.previous().first().map(Url::origin);
    if origin == Some(attempt.url().origin()) && attempt.previous().len() <= REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

async fn read_document(response: &mut Response, document: &mut Condenser) -> Result<(), Error> {
    while let Some(chunk) = response.chunk().await.map_err(unanswered)? {
        document.push(&chunk).map_err(|TooLong| Error::TooLong)?;
    }
    Ok(())
}

fn text(document: Condenser) -> Result<Success, Error> {
    match document.finish() {
        Some(document) => Ok(Success::Document(document)),
        None => Err(Failure::new(ErrorKind::Invalid, "the answer is not UTF-8").into()),
    }
}
