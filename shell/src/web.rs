//! What all reading over HTTP has in common: the client, bounded bodies, and what unsuccessful answers mean.
//!
//! Nothing is tried twice, as when to try again is for machines to decide. HTTPS trusts the certificates of the system, or
//! those in the file that `SSL_CERT_FILE` names.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use lockstep_core::engine::action::{Class, Failure};
use reqwest::{Client, ClientBuilder, Response, redirect, retry};

use crate::failure::describe;

mod answer;

pub(crate) use self::answer::failure;

/// Redirects in a row that are followed.
pub(crate) const REDIRECTS: usize = 5;

/// Decides on a redirect.
pub(crate) type Redirects = fn(redirect::Attempt<'_>) -> redirect::Action;

/// The client of who reads as long as the process lives. It is made when it is first needed, and anew when the file of
/// trusted certificates has changed: authorities are replaced, too.
#[derive(Debug)]
pub(crate) struct ReloadingClient {
    redirects: Redirects,
    made: Mutex<Option<(Option<SystemTime>, Client)>>,
}

impl ReloadingClient {
    pub(crate) fn new(redirects: Redirects) -> Self {
        Self { redirects, made: Mutex::default() }
    }

    /// The client, or why there is none.
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

/// Makes a client, which reads the system's certificates.
pub(crate) fn client(redirects: Redirects) -> Result<Client, Failure> {
    choose_cryptography();
    builder(redirects)
        .build()
        // A system without certificates can still be read from over HTTP.
        .or_else(|_| builder(redirects).tls_certs_only([]).build())
        .map_err(|error| Failure::new(Class::Unavailable, describe(&error)))
}

/// Chooses it for the whole process, for those libraries that have none of their own.
pub(crate) fn choose_cryptography() {
    // An error tells that another part of the process has chosen before, and any choice will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn builder(redirects: Redirects) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("lockstep/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::custom(redirects))
        .referer(false)
        .retry(retry::never())
}

/// Reads what comes; false if it exceeds the limit, which is noticed before more is held in memory.
pub(crate) async fn read(response: &mut Response, limit: usize, body: &mut Vec<u8>) -> reqwest::Result<bool> {
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > limit {
            return Ok(false);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(true)
}

/// What a request that got no whole answer has met.
pub(crate) fn unanswered(error: reqwest::Error) -> Failure {
    let class = if error.is_connect() {
        Class::Unavailable
    } else if error.is_builder() {
        Class::Invalid
    } else {
        Class::Unknown
    };
    Failure::new(class, describe(&error.without_url()))
}
