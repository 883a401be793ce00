//! Queries container registries for images.
//!
//! The protocol is that of the [OCI Distribution Specification](https://github.com/opencontainers/distribution-spec), with the
//! [tokens](https://distribution.github.io/distribution/spec/auth/token/) that registries require. Credentials and tokens go
//! only to the registry and to the token service that it names: a redirect to another server carries none, and a challenge from
//! another server is not answered. Plain HTTP is used only for a registry on this host. Error bodies are not passed on, because
//! they may repeat what was sent.
//!
//! | event | class |
//! | --- | --- |
//! | 401 or 403, from the registry or from its token service | forbidden |
//! | 404 | not found |
//! | 429 | throttled |
//! | no connection, TLS, 5xx, a token service that gives no token, everything else | unavailable |
//! | no whole answer in time | unknown |
//! | the image's name can't be read | invalid |

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use lockstep_engine::action::{ErrorKind, Failure, Outcome, Success};
use lockstep_engine::broker::SecretString;
use lockstep_engine::image::{FoundImage, ImageReference, is_digest};
use lockstep_engine::wire::cut;
use reqwest::Response;

use self::session::Session;
use crate::web::ReloadingClient;

mod challenge;
mod manifest;
mod origin;
mod session;

/// The timeout for a complete query.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The tag of references that have neither tag nor digest.
const LATEST: &str = "latest";

/// The header with an image's digest.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// Queries container registries. Clones share their connections, which are kept open.
#[derive(Debug, Clone)]
pub struct Registries {
    client: Arc<ReloadingClient>,
}

impl Default for Registries {
    fn default() -> Self {
        Self { client: Arc::new(ReloadingClient::new(origin::safely)) }
    }
}

impl Registries {
    /// Queries an image. Credentials have the form `user:password`. The whole query may take as long as `timeout`.
    pub async fn find(&self, image: &str, credentials: Option<&SecretString>, timeout: Duration) -> Outcome {
        let image =
            ImageReference::parse(image).map_err(|problem| Failure::new(ErrorKind::Invalid, problem))?;
        let client = self.client.get()?;
        let session = Session::new(&client, &image, credentials)?;
        match tokio::time::timeout(timeout, find(session, &image)).await {
            Ok(Ok(found)) => Ok(Success::Image(found)),
            // An unexpected answer says nothing about the image.
            Ok(Err(failure)) => {
                let class =
                    if failure.class == ErrorKind::Invalid { ErrorKind::Unavailable } else { failure.class };
                Err(Failure { class, message: cut(&failure.message), ..failure })
            }
            Err(_) => {
                let message = format!("{}: no whole answer within {timeout:?}", image.registry);
                Err(Failure::new(ErrorKind::Unknown, message))
            }
        }
    }
}

async fn find(mut session: Session<'_>, image: &ImageReference) -> Result<FoundImage, Failure> {
    let name = image.digest.as_deref().or(image.tag.as_deref()).unwrap_or(LATEST);
    let answer = session.ask(Method::HEAD, &format!("manifests/{name}")).await?;
    let Some(digest) = image.digest.clone().or_else(|| digest_header(&answer)) else {
        let message = format!("{}: the answer contains no digest", image.registry);
        return Err(Failure::new(ErrorKind::Invalid, message));
    };
    let release = if image.tag.is_none() { release(&mut session, &digest).await? } else { None };
    Ok(FoundImage { digest, release })
}

fn digest_header(answer: &Response) -> Option<String> {
    let digest = answer.headers().get(CONTENT_DIGEST)?.to_str().ok()?;
    is_digest(digest).then(|| digest.to_owned())
}

/// Returns the version in the image's label. An image without a label is valid; only a failure that may disappear on a retry is
/// returned.
async fn release(session: &mut Session<'_>, digest: &str) -> Result<Option<String>, Failure> {
    match read_release(session, digest).await {
        Err(failure)
            if matches!(
                failure.class,
                ErrorKind::Throttled | ErrorKind::Unavailable | ErrorKind::Unknown
            ) =>
        {
            Err(failure)
        }
        release => Ok(release.ok().flatten()),
    }
}

async fn read_release(session: &mut Session<'_>, digest: &str) -> Result<Option<String>, Failure> {
    let mut manifest = session.read(&format!("manifests/{digest}")).await?;
    if let Some(first) = manifest::first_of_index(&manifest) {
        manifest = session.read(&format!("manifests/{first}")).await?;
    }
    let Some(config) = manifest::config(&manifest) else { return Ok(None) };
    let config = session.read(&format!("blobs/{config}")).await?;
    Ok(manifest::release(&config))
}
