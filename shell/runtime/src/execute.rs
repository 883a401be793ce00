//! Executes single actions with the kube client, one HTTP request each.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http_body_util::BodyExt as _;
use kube::Client;
use lockstep_engine::action::{Action, BrokerRequest, ErrorKind, Failure, Fetch, KubeRequest, Outcome};
use lockstep_engine::wire;

use crate::failure;
use crate::fetch::Fetcher;
use crate::publish::Publisher;
use crate::registry::{self, Registries};

/// How long an answer may take; after that the outcome is unknown.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Fills a value of a Secret with random bytes.
pub type RandomBytes = fn(&mut [u8]) -> Result<(), Failure>;

/// Executes the actions of one machine.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    timeout: Duration,
    random: RandomBytes,
    field_manager: String,
    fetcher: Fetcher,
    publisher: Publisher,
    registries: Registries,
}

impl Executor {
    /// Creates an executor that uses the client as `lockstep-<controller>`. Documents are read with the token that the
    /// environment names ([`crate::fetch::TOKEN_FILE`]).
    pub fn new(client: Client, controller: &str) -> Self {
        Self {
            client,
            timeout: TIMEOUT,
            random,
            field_manager: wire::field_manager(controller),
            fetcher: Fetcher::from_env(),
            publisher: Publisher::default(),
            registries: Registries::default(),
        }
    }

    /// Sets the publisher of events.
    #[must_use]
    pub fn publishing_with(self, publisher: Publisher) -> Self {
        Self { publisher, ..self }
    }

    /// Sets the timeout for answers of the API server.
    #[must_use]
    pub fn answered_within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Sets what generates the random values of Secrets.
    #[must_use]
    pub(crate) fn generating_with(self, random: RandomBytes) -> Self {
        Self { random, ..self }
    }

    /// Returns the client of the requests.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Executes one action. [`crate::run`] runs watches: here they are an error.
    pub async fn execute(&self, action: &Action) -> Outcome {
        match action {
            Action::Kube(request) => self.ask_kubernetes(request).await,
            Action::Watch(_) => Err(Failure::new(ErrorKind::Invalid, "a watch is not a request")),
            Action::Http(Fetch { url, headers, timeout, keep }) => {
                self.fetcher.fetch(url, headers, keep, *timeout).await
            }
            Action::Registry(query) => {
                self.registries.find(&query.image, query.credentials.as_ref(), registry::TIMEOUT).await
            }
            Action::Broker(BrokerRequest::Connect { broker }) => self.publisher.connect(broker).await,
            Action::Broker(BrokerRequest::Publish { broker, events }) => {
                self.publisher.publish(broker, events).await
            }
        }
    }

    async fn ask_kubernetes(&self, request: &KubeRequest) -> Outcome {
        let request = wire::generated(request, self.random)?;
        let encoded = wire::encode(&request, &self.field_manager)?;
        let answer = tokio::time::timeout(self.timeout, self.exchange(&request, encoded)).await;
        answer.unwrap_or_else(|_| {
            Err(Failure::new(ErrorKind::Unknown, format!("no answer within {} s", self.timeout.as_secs())))
        })
    }

    async fn exchange(&self, request: &KubeRequest, encoded: http::Request<Vec<u8>>) -> Outcome {
        let unanswered = |error| wire::redacted(request, &failure::from_client(&error));
        let answer = self.client.send(encoded.map(kube::client::Body::from)).await.map_err(unanswered)?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.map_err(unanswered)?.to_bytes();
        let retry_after = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        wire::decode(request, head.status, retry_after, &body)
    }
}

/// Fills a value with random bytes of the operating system.
pub(crate) fn random(value: &mut [u8]) -> Result<(), Failure> {
    getrandom::fill(value).map_err(|error| {
        Failure::new(
            ErrorKind::Unavailable,
            format!("the system gives no random bytes for a Secret: {error}"),
        )
    })
}

#[cfg(test)]
mod tests;
