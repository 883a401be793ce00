//! Publishes to Google Cloud Pub/Sub.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{self, BoxFuture, FutureExt as _, maybe_done};
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::error::rpc::Code;
use google_cloud_gax::error::{CredentialsError, Error};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_pubsub::client::{Publisher, TopicAdmin};
use google_cloud_pubsub::error::PublishError;
use google_cloud_pubsub::model::Message;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::broker::CloudEvent;

use super::answers::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, settle};
use super::connection::{self, Answer};
use super::message;
use crate::failure;
use crate::web;

/// The address of an emulator, as `HOST:PORT`. It is used instead of Google's servers, without credentials.
const EMULATOR: &str = "PUBSUB_EMULATOR_HOST";

/// A publisher to one topic. It sends a batch at 100 messages or 1 MB, at the latest after 10 ms.
pub(super) struct Connection {
    topic: Topic,
    publisher: Publisher,
    /// Whether the service or the topic is gone, or the credentials are no longer valid. The client would use them for ever,
    /// but a new one reads them again.
    is_lost: AtomicBool,
}

impl Connection {
    /// Builds the client, with the credentials of the environment, and checks that the topic exists.
    pub(super) async fn open(project: &str, topic: &str) -> Result<Self, Failure> {
        let emulator = std::env::var(EMULATOR).ok().filter(|host| !host.is_empty());
        let topic = Topic(format!("projects/{project}/topics/{topic}"));
        let reaching = Self::reach(&topic, emulator.as_deref());
        let publisher = match tokio::time::timeout(CONNECT_TIMEOUT, reaching).await {
            Ok(publisher) => publisher?,
            Err(_) => return Err(topic.silent()),
        };
        Ok(Self { topic, publisher, is_lost: AtomicBool::new(false) })
    }

    async fn publish_all(&self, events: &[CloudEvent]) -> Vec<Answer> {
        let sendings = events.iter().map(|event| {
            let sent = encode(event).map(|message| self.publisher.publish(message));
            let answer = async move {
                sent?.await.map(drop).map_err(|error| {
                    if let PublishError::Rpc(error) = &error
                        && is_unauthenticated(error)
                    {
                        self.is_lost.store(true, Ordering::Relaxed);
                    }
                    self.topic.refused(&error)
                })
            };
            maybe_done(answer.map(Answer::now).boxed())
        });
        let unanswered = || Answer::now(Err(self.topic.unanswered()));
        let answers = settle(sendings.collect()).await.into_iter();
        let answers: Vec<_> = answers.map(|answer| answer.unwrap_or_else(unanswered)).collect();
        let is_gone = |failure: &Failure| {
            matches!(failure.class, ErrorKind::Unavailable | ErrorKind::Unknown | ErrorKind::NotFound)
        };
        if answers.iter().filter_map(|answer| answer.result.as_ref().err()).any(is_gone) {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        answers
    }

    async fn reach(topic: &Topic, emulator: Option<&str>) -> Result<Publisher, Failure> {
        web::choose_cryptography();
        // The machines decide when to retry.
        let mut admin = TopicAdmin::builder().with_retry_policy(NeverRetry);
        let mut publisher = Publisher::builder(topic.0.as_str()).with_retry_policy(NeverRetry);
        if let Some(host) = emulator {
            let (endpoint, credentials) = (format!("http://{host}"), anonymous::Builder::new().build());
            admin = admin.with_endpoint(endpoint.as_str()).with_credentials(credentials.clone());
            publisher = publisher.with_endpoint(endpoint).with_credentials(credentials);
        }
        let admin = admin.build().await.map_err(|error| topic.no_client(&error))?;
        let publisher = publisher.build().await.map_err(|error| topic.no_client(&error))?;
        match admin.get_topic().set_topic(topic.0.as_str()).send().await {
            Ok(_) => Ok(publisher),
            Err(error) => match code(&error) {
                None | Some(Code::NotFound | Code::Unauthenticated | Code::Unavailable) => {
                    Err(topic.unseen(&error))
                }
                // A publisher may have no permission to read the topic, and an emulator may not serve it. Publishing will show
                // whether it exists.
                Some(_) => Ok(publisher),
            },
        }
    }
}

impl connection::Connection for Connection {
    fn is_open(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed)
    }

    fn pause(&self) -> Option<Failure> {
        None
    }

    fn publish<'a>(&'a self, events: &'a [CloudEvent]) -> BoxFuture<'a, Vec<Answer>> {
        self.publish_all(events).boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }
}

/// A topic with its project. It classifies errors.
struct Topic(String);

impl Topic {
    fn no_client(&self, error: &(dyn std::error::Error + 'static)) -> Failure {
        let advice = "check the credentials that the environment gives (Application Default Credentials)";
        Failure::new(
            ErrorKind::Forbidden,
            format!("Pub/Sub, {}: {}; {advice}", self.0, failure::describe(error)),
        )
    }

    /// Returns the failure of a read. A read changes nothing, whatever its error.
    fn unseen(&self, error: &Error) -> Failure {
        let failure = self.failure(error);
        let class = if failure.class == ErrorKind::Unknown { ErrorKind::Unavailable } else { failure.class };
        Failure { class, ..failure }
    }

    fn refused(&self, error: &PublishError) -> Failure {
        match error {
            PublishError::Rpc(error) => self.failure(error),
            error => Failure::new(ErrorKind::Unavailable, format!("Pub/Sub, {}: {error}", self.0)),
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        let (class, advice) = match code(error) {
            Some(Code::NotFound) => (
                ErrorKind::NotFound,
                "; create the topic, or name another project or topic in the configuration",
            ),
            Some(Code::PermissionDenied) => {
                (ErrorKind::Forbidden, "; the account needs the role roles/pubsub.publisher on this topic")
            }
            Some(Code::InvalidArgument) => (ErrorKind::Invalid, ""),
            Some(Code::ResourceExhausted) => (ErrorKind::Throttled, "; check the project's quota"),
            _ if error.is_transient_and_before_rpc() => (ErrorKind::Unavailable, ""),
            _ if is_unauthenticated(error) => {
                (ErrorKind::Forbidden, "; check the credentials that the environment gives")
            }
            _ => (ErrorKind::Unknown, ""),
        };
        Failure::new(class, format!("Pub/Sub, {}: {}{advice}", self.0, failure::describe(error)))
    }

    fn silent(&self) -> Failure {
        let message = format!("Pub/Sub, {}: no answer within {} s", self.0, CONNECT_TIMEOUT.as_secs());
        Failure::new(ErrorKind::Unavailable, message)
    }

    fn unanswered(&self) -> Failure {
        let message = format!("Pub/Sub, {}: not confirmed within {} s", self.0, ANSWER_TIMEOUT.as_secs());
        Failure::new(ErrorKind::Unknown, message)
    }
}

/// Returns whether the credentials are invalid or missing.
fn is_unauthenticated(error: &Error) -> bool {
    code(error) == Some(Code::Unauthenticated)
        || error.source().is_some_and(<dyn std::error::Error>::is::<CredentialsError>)
}

fn code(error: &Error) -> Option<Code> {
    error.status().map(|status| status.code)
}

/// Encodes the message as in the Pub/Sub protocol binding for CloudEvents, in structured mode. It also sets the attributes as
/// the binding's binary mode would, for filters of subscriptions.
fn encode(event: &CloudEvent) -> Result<Message, Failure> {
    let attributes = message::attributes(event).map(|(name, value)| (format!("ce-{name}"), value));
    let content_type = ("content-type".to_owned(), message::CONTENT_TYPE.to_owned());
    Ok(Message::new().set_data(message::body(event)?).set_attributes(attributes.chain([content_type])))
}

#[cfg(test)]
mod tests;
