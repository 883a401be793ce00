//! Common code for HTTP: the client, bounded bodies, and the meaning of unsuccessful answers.
//!
//! It retries nothing: the machines decide when to retry. HTTPS trusts the certificates of the system, or those in the file
//! that `SSL_CERT_FILE` names.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use lockstep_engine::action::{ErrorKind, Failure};
use reqwest::{Client, ClientBuilder, Response, redirect, retry};

use crate::failure::describe;

mod answer;

pub(crate) use self::answer::failure;

/// The maximum number of consecutive redirects to follow.
pub(crate) const REDIRECTS: usize = 5;

/// Decides on a redirect.
pub(crate) type Redirects = fn(redirect::Attempt<'_>) -> redirect::Action;

/// A process-lifetime client. It is built when it is first needed, and rebuilt when the file of trusted certificates has
/// changed, because CA certificates are replaced, too.
#[derive(Debug)]
pub(crate) struct ReloadingClient {
    redirects: Redirects,
    made: Mutex<Option<(Option<SystemTime>, Client)>>,
}

impl ReloadingClient {
    pub(crate) fn new(redirects: Redirects) -> Self {
        Self { redirects, made: Mutex::default() }
    }

    /// Returns the client, or why it could not be built.
    pub(crate) fn get(&self) -> Result<Client, Failure> {
        let changed = std::env::var_os("SSL_CERT_FILE").and_then(|file| file_time(file.as_ref()));
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = made.as_ref().filter(|(before, _)| *before == changed) {
            return Ok(client.clone());
        }
        let client = client(self.redirects)?;
        *made = Some((changed, client.clone()));
        Ok(client)
    }
}

fn file_time(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}

/// Builds a client, which reads the system's certificates.
pub(crate) fn client(redirects: Redirects) -> Result<Client, Failure> {
    choose_cryptography();
    builder(redirects)
        .build()
        // A system without certificates can still use HTTP.
        .or_else(|_| builder(redirects).tls_certs_only([]).build())
        .map_err(|error| Failure::new(ErrorKind::Unavailable, describe(&error)))
}

/// Selects the cryptography provider of the process, for libraries without one of their own.
pub(crate) fn choose_cryptography() {
    // An error means that a provider is already installed, and any provider is suitable.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn builder(redirects: Redirects) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("lockstep/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::custom(redirects))
        .referer(false)
        .retry(retry::never())
}

/// Reads the body. Returns false if it exceeds the limit, before it holds more in memory.
pub(crate) async fn read(response: &mut Response, limit: usize, body: &mut Vec<u8>) -> reqwest::Result<bool> {
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(false);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(true)
}

/// Classifies the error of a request without a complete answer.
pub(crate) fn unanswered(error: reqwest::Error) -> Failure {
    let class = if error.is_connect() {
        ErrorKind::Unavailable
    } else if error.is_builder() {
        ErrorKind::Invalid
    } else {
        ErrorKind::Unknown
    };
    Failure::new(class, describe(&error.without_url()))
}
