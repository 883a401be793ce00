//! Tests the shell's queries to container registries, against a test registry and against servers that misbehave.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

#[path = "registry/access.rs"]
mod access;
#[path = "registry/bad_servers.rs"]
mod bad_servers;
#[path = "registry/images.rs"]
mod images;
#[path = "registry/redirects.rs"]
mod redirects;

use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure, Success};
use lockstep_engine::broker::SecretString;
use lockstep_engine::image::FoundImage;
use lockstep_runtime::registry::Registries;
use lockstep_tests::{raw, registry as stand_in};

use self::stand_in::{BASIC, TOKEN};

/// The timeout; longer than any answer takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Returns the credentials that the test registry accepts.
fn user() -> SecretString {
    SecretString::new("user:hunter2")
}

async fn found(image: &str, credentials: Option<SecretString>) -> FoundImage {
    match Registries::default().find(image, credentials.as_ref(), PATIENCE).await {
        Ok(Success::Image(image)) => image,
        other => panic!("{image}: {other:?}"),
    }
}

/// Returns the failure of a query, and checks that it shows no secret.
async fn failure(image: &str, credentials: Option<SecretString>, timeout: Duration) -> Failure {
    let failure = Registries::default().find(image, credentials.as_ref(), timeout).await.unwrap_err();
    for secret in ["hunter2", BASIC, TOKEN] {
        assert!(!failure.message.contains(secret), "{failure}");
    }
    failure
}

async fn class(image: &str, credentials: Option<SecretString>) -> ErrorKind {
    failure(image, credentials, PATIENCE).await.class
}
