//! Publishes events to message brokers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use lockstep_engine::action::{ErrorKind, Failure, Outcome, Success};
use lockstep_engine::broker::{Broker, CloudEvent};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use self::connection::{Answer, Connection};
#[cfg(all(test, feature = "otlp"))]
pub(crate) use self::message::example;
use crate::spans::Spans;

#[cfg(any(feature = "pubsub", feature = "rabbitmq"))]
mod answers;
mod connection;
#[cfg(any(feature = "pubsub", feature = "rabbitmq"))]
mod message;
#[cfg(feature = "pubsub")]
mod pubsub;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;

/// Keeps the connection to a broker, which its clones share. There is one connection at a time: connecting to another broker
/// closes it.
#[derive(Clone, Default)]
pub struct Publisher {
    open: Arc<Mutex<Option<Arc<Open>>>>,
    connecting: Arc<tokio::sync::Mutex<()>>,
    in_process: Option<UnboundedSender<CloudEvent>>,
    spans: Option<Spans>,
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").finish_non_exhaustive()
    }
}

/// A connection, with its broker.
struct Open {
    broker: Arc<Broker>,
    connection: Box<dyn Connection>,
}

impl Publisher {
    /// Creates a publisher that passes its events to the receiver in this process, whatever the broker.
    pub fn in_process() -> (Self, UnboundedReceiver<CloudEvent>) {
        let (sender, events) = mpsc::unbounded_channel();
        (Self { in_process: Some(sender), ..Self::default() }, events)
    }

    /// Adds spans: for each event that belongs to a trace, a span records how it was published.
    #[must_use]
    pub(crate) fn exporting(self, spans: Option<Spans>) -> Self {
        Self { spans, ..self }
    }

    /// Connects, unless a connection to this broker is open. A connection that ended is opened again only by a call of this
    /// function. A connection over which the broker accepts nothing for now is kept, and the call fails with the reason.
    pub async fn connect(&self, broker: &Arc<Broker>) -> Outcome {
        if self.in_process.is_some() {
            return Ok(Success::Done);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(open) = self.connected(broker) {
            return open.connection.pause().map_or(Ok(Success::Done), Err);
        }
        let former = self.replace(None);
        if let Some(former) = former {
            former.connection.close().await;
        }
        let connection = open(broker).await?;
        self.replace(Some(Arc::new(Open { broker: Arc::clone(broker), connection })));
        Ok(Success::Done)
    }

    /// Publishes events in their order, and waits for the broker's confirm of each, for at most 30 s.
    pub async fn publish(&self, broker: &Arc<Broker>, events: &[CloudEvent]) -> Outcome {
        if let Some(consumer) = &self.in_process {
            let nack = |_| Failure::new(ErrorKind::Unavailable, "the consumer of this process has ended");
            let taken = |event: &CloudEvent| consumer.send(event.clone()).map_err(nack);
            return Ok(Success::Published(events.iter().map(taken).collect()));
        }
        let Some(open) = self.connected(broker) else {
            let message = format!("no connection to this {} broker is open", broker.name());
            return Err(Failure::new(ErrorKind::Unavailable, message));
        };
        if let Some(failure) = open.connection.pause() {
            return Err(failure);
        }
        let (begun, start) = (SystemTime::now(), Instant::now());
        let answers = open.connection.publish(events).await;
        if let Some(spans) = &self.spans {
            for (event, Answer { result, at }) in events.iter().zip(&answers) {
                spans.published(event, broker, begun, at.duration_since(start), result);
            }
        }
        Ok(Success::Published(answers.into_iter().map(|answer| answer.result).collect()))
    }

    /// Returns the connection, if it is open and leads to this broker.
    fn connected(&self, broker: &Arc<Broker>) -> Option<Arc<Open>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (open.broker == *broker && open.connection.is_open()).then_some(open)
    }

    fn replace(&self, open: Option<Arc<Open>>) -> Option<Arc<Open>> {
        std::mem::replace(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner), open)
    }
}

/// Connects to the broker; fails with [`ErrorKind::Invalid`] for a kind of broker that is not in this build.
#[cfg_attr(
    not(any(feature = "pubsub", feature = "rabbitmq")),
    expect(clippy::unused_async, reason = "only the brokers that a build contains are waited for")
)]
async fn open(broker: &Broker) -> Result<Box<dyn Connection>, Failure> {
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
            Err(Failure::new(ErrorKind::Invalid, message))
        }
    }
}
