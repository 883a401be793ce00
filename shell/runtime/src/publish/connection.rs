//! An open connection to a broker of any kind.

use futures::future::BoxFuture;
#[cfg(not(all(feature = "pubsub", feature = "rabbitmq")))]
use lockstep_engine::action::Class;
use lockstep_engine::action::Failure;
use lockstep_engine::broker::{Broker, CloudEvent};
use tokio::time::Instant;

#[cfg(feature = "pubsub")]
use super::pubsub;
#[cfg(feature = "rabbitmq")]
use super::rabbitmq;

/// The result for an event.
pub(super) struct Answer {
    pub(super) result: Result<(), Failure>,
    pub(super) at: Instant,
}

/// A connection that publishes events.
pub(super) trait Connection: Send + Sync {
    fn is_open(&self) -> bool;

    /// Returns why the broker accepts nothing for now, if that is so.
    fn pause(&self) -> Option<Failure>;

    /// Sends all events, then waits for the broker's answer to each.
    fn publish<'a>(&'a self, events: &'a [CloudEvent]) -> BoxFuture<'a, Vec<Answer>>;

    fn close(&self) -> BoxFuture<'_, ()>;
}

/// Connects to the broker; fails with [`Class::Invalid`] for a kind of broker that is not in this build.
#[cfg_attr(
    not(any(feature = "pubsub", feature = "rabbitmq")),
    expect(clippy::unused_async, reason = "only the brokers that a build contains are waited for")
)]
pub(super) async fn open(broker: &Broker) -> Result<Box<dyn Connection>, Failure> {
    match broker {
        #[cfg(feature = "rabbitmq")]
        Broker::RabbitMq { url, exchange } => Ok(Box::new(rabbitmq::Connection::open(url, exchange).await?)),
        #[cfg(feature = "pubsub")]
        Broker::PubSub { project, topic } => Ok(Box::new(pubsub::Connection::open(project, topic).await?)),
        #[cfg(not(all(feature = "pubsub", feature = "rabbitmq")))]
        other => {
            let name = other.name();
            let message =
                format!("this build of lockstep can't publish to {name}; build it with that feature");
            Err(Failure::new(Class::Invalid, message))
        }
    }
}

#[cfg(any(feature = "pubsub", feature = "rabbitmq"))]
pub(super) mod answers {
    //! Common handling of answers, for connections of all kinds.

    use std::pin::Pin;
    use std::time::Duration;

    use futures::future::{MaybeDone, join_all};
    use lockstep_engine::action::Failure;
    use tokio::time::Instant;

    use super::Answer;

    /// The timeout for a connection attempt.
    pub(in crate::publish) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The timeout for the answers to the events of one call.
    pub(in crate::publish) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

    impl Answer {
        pub(in crate::publish) fn now(result: Result<(), Failure>) -> Self {
            Self { result, at: Instant::now() }
        }
    }

    /// Waits for the answers to all events, up to [`ANSWER_TIMEOUT`]; `None` is a missing answer.
    pub(in crate::publish) async fn settle<F>(mut sendings: Vec<MaybeDone<F>>) -> Vec<Option<Answer>>
    where
        F: Future<Output = Answer> + Unpin,
    {
        // All at once: answers may arrive in another order than the events, and the time of each is recorded.
        let _late = tokio::time::timeout(ANSWER_TIMEOUT, join_all(&mut sendings)).await;
        sendings.iter_mut().map(|sending| Pin::new(sending).take_output()).collect()
    }
}
