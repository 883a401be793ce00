//! The requests about one image, and their authentication.

use http::header::ACCEPT;
use http::{HeaderMap, Method, StatusCode};
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::broker::SecretString;
use lockstep_engine::image::ImageReference;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::Deserialize;

use super::challenge::Challenge;
use super::manifest::MEDIA_TYPES;
use super::origin;
use crate::web;

/// The maximum size of a manifest or configuration in bytes; registries accept no longer manifests.
const LONGEST: usize = 4 * 1024 * 1024;

/// The maximum size of a token service's answer in bytes.
const LONGEST_TOKEN: usize = 256 * 1024;

/// Sends requests to one repository. It sends credentials only after the registry has requested them.
pub(super) struct Session<'a> {
    client: &'a Client,
    image: &'a ImageReference,
    /// The user and the password.
    credentials: Option<(&'a str, &'a str)>,
    repository: Url,
    authorization: Authorization,
}

enum Authorization {
    None,
    Basic { user: String, password: String },
    Bearer { token: String },
}

impl<'a> Session<'a> {
    pub(super) fn new(
        client: &'a Client,
        image: &'a ImageReference,
        credentials: Option<&'a SecretString>,
    ) -> Result<Self, Failure> {
        let pair = |credentials: &'a SecretString| {
            let text = credentials.reveal();
            text.split_once(':').unwrap_or((text, ""))
        };
        let repository = origin::repository(image)?;
        let credentials = credentials.map(pair);
        Ok(Self { client, image, credentials, repository, authorization: Authorization::None })
    }

    /// Requests a path of the repository. A response without success is a failure.
    pub(super) async fn ask(&mut self, method: Method, path: &str) -> Result<Response, Failure> {
        let url = self.repository.join(path);
        let url = url.map_err(|error| Failure::new(ErrorKind::Invalid, format!("{path}: {error}")))?;
        let mut response = self.send(method.clone(), url.clone()).await?;
        let is_challenge = response.status() == StatusCode::UNAUTHORIZED
            // Other servers get no credentials.
            && response.url().origin() == self.repository.origin()
            && matches!(self.authorization, Authorization::None);
        if is_challenge {
            self.authorization = self.answer(response.headers()).await?;
            response = self.send(method, url).await?;
        }
        successful(response)
    }

    /// Reads a path of the repository to its end.
    pub(super) async fn read(&mut self, path: &str) -> Result<Vec<u8>, Failure> {
        let response = self.ask(Method::GET, path).await?;
        read(response, LONGEST).await
    }

    async fn send(&self, method: Method, url: Url) -> Result<Response, Failure> {
        let request = self.client.request(method, url).header(ACCEPT, MEDIA_TYPES);
        let request = match &self.authorization {
            Authorization::None => request,
            Authorization::Basic { user, password } => request.basic_auth(user, Some(password)),
            Authorization::Bearer { token } => request.bearer_auth(token),
        };
        send(request, &self.repository).await
    }

    /// Returns the authorization that answers the registry's challenge.
    async fn answer(&self, headers: &HeaderMap) -> Result<Authorization, Failure> {
        let refused =
            |why| Err(Failure::new(ErrorKind::Forbidden, format!("{}: {why}", self.image.registry)));
        match (Challenge::best(headers), self.credentials) {
            (Some(Challenge::Bearer { realm, service }), _) => {
                let token = self.token(&realm, service.as_deref()).await;
                let token =
                    token.map_err(|failure| Failure { class: not_of_the_image(failure.class), ..failure })?;
                Ok(Authorization::Bearer { token })
            }
            (Some(Challenge::Basic), Some((user, password))) => {
                Ok(Authorization::Basic { user: user.to_owned(), password: password.to_owned() })
            }
            (Some(Challenge::Basic), None) => {
                refused("it requires credentials, and the pull secret has none for it")
            }
            (None, _) => refused("it refuses anonymous access, but requests neither a token nor credentials"),
        }
    }

    /// Requests a token that permits a pull.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<String, Failure> {
        let broken = |name: &str, why| Failure::new(ErrorKind::Unavailable, format!("{name}: {why}"));
        let realm = Url::parse(realm).ok().filter(|realm| origin::is_safe(realm, &self.repository));
        let Some(mut url) = realm else {
            return Err(broken(&self.image.registry, "its token service has no safe URL"));
        };
        let scope = format!("repository:{}:pull", self.image.repository);
        url.query_pairs_mut()
            .extend_pairs(service.map(|service| ("service", service)))
            .append_pair("scope", &scope);
        let name = origin::name(&url);
        let mut request = self.client.get(url.clone());
        if let Some((user, password)) = self.credentials {
            request = request.basic_auth(user, Some(password));
        }
        let answer = read(successful(send(request, &url).await?)?, LONGEST_TOKEN).await?;
        let answer: Option<Token> = serde_json::from_slice(&answer).ok();
        let tokens = answer.into_iter().flat_map(|answer| [answer.token, answer.access_token]).flatten();
        let token = tokens.into_iter().find(|token| !token.is_empty());
        token.ok_or_else(|| broken(&name, "the answer has no token"))
    }
}

/// The answer of a token service. Either field may hold the token.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// Maps a failure of the token service. If the service does not know what is requested, that says nothing about the image.
fn not_of_the_image(class: ErrorKind) -> ErrorKind {
    match class {
        ErrorKind::Forbidden | ErrorKind::Throttled | ErrorKind::Unknown => class,
        ErrorKind::NotFound
        | ErrorKind::KindNotServed
        | ErrorKind::AlreadyExists
        | ErrorKind::Conflict
        | ErrorKind::Invalid
        | ErrorKind::Gone
        | ErrorKind::Unavailable => ErrorKind::Unavailable,
    }
}

async fn send(request: RequestBuilder, to: &Url) -> Result<Response, Failure> {
    request.send().await.map_err(|error| of(to, web::unanswered(error)))
}

fn successful(response: Response) -> Result<Response, Failure> {
    if response.status().is_success() {
        return Ok(response);
    }
    let failure = web::failure(response.status(), response.headers(), &[]);
    Err(of(response.url(), failure))
}

async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let url = response.url().clone();
    let mut body = Vec::new();
    match web::read(&mut response, limit, &mut body).await {
        Ok(true) => Ok(body),
        Ok(false) => Err(of(
            &url,
            Failure::new(ErrorKind::Invalid, format!("the answer is longer than {limit} bytes")),
        )),
        Err(error) => Err(of(&url, web::unanswered(error))),
    }
}

/// Adds the name of the server to a failure.
fn of(url: &Url, mut failure: Failure) -> Failure {
    failure.message = format!("{}: {}", origin::name(url), failure.message);
    failure
}
