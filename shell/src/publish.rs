//! Publishes events to message brokers.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use futures::future::{MaybeDone, join_all};
use lockstep_core::engine::action::{Class, Failure, Outcome, Success};
use lockstep_core::engine::broker::{Broker, CloudEvent};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::Instant;

use crate::spans::Spans;

mod message;
mod pubsub;
mod rabbitmq;
mod span;

/// How long it may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the answers to the events of one call may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps the connection to a broker, which its clones share. There is one at a time: who connects to another broker
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

/// A connection with the broker that it leads to.
struct Open {
    broker: Arc<Broker>,
    connection: Connection,
}

/// What became of an event.
struct Answer {
    result: Result<(), Failure>,
    at: Instant,
}

impl Answer {
    fn now(result: Result<(), Failure>) -> Self {
        Self { result, at: Instant::now() }
    }
}

enum Connection {
    RabbitMq(Box<rabbitmq::Connection>),
    PubSub(pubsub::Connection),
}

impl Publisher {
    /// A publisher whose events, whatever the broker, come to who holds the receiver, in this process.
    pub fn in_process() -> (Self, UnboundedReceiver<CloudEvent>) {
        let (sender, events) = mpsc::unbounded_channel();
        (Self { in_process: Some(sender), ..Self::default() }, events)
    }

    /// The same, but of each event that belongs to a trace a span tells how it was published.
    #[must_use]
    pub(crate) fn exporting(self, spans: Option<Spans>) -> Self {
        Self { spans, ..self }
    }

    /// Connects, unless a connection to this broker is open. A connection that ended is not made anew until somebody
    /// asks for it here; one over which the broker takes nothing for the time being is kept, and fails with the reason.
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
        let connection = Connection::open(broker).await?;
        self.replace(Some(Arc::new(Open { broker: Arc::clone(broker), connection })));
        Ok(Success::Done)
    }

    /// Publishes events in their order, and awaits what the broker says of each, though not for longer than 30 s.
    pub async fn publish(&self, broker: &Arc<Broker>, events: &[CloudEvent]) -> Outcome {
        if let Some(consumer) = &self.in_process {
            let nack = |_| Failure::new(Class::Unavailable, "the consumer of this process has ended");
            let taken = |event: &CloudEvent| consumer.send(event.clone()).map_err(nack);
            return Ok(Success::Published(events.iter().map(taken).collect()));
        }
        let Some(open) = self.connected(broker) else {
            let message = format!("no connection to this {} broker is open", broker.name());
            return Err(Failure::new(Class::Unavailable, message));
        };
        if let Some(failure) = open.connection.pause() {
            return Err(failure);
        }
        let (begun, start) = (SystemTime::now(), Instant::now());
        let answers = open.connection.publish(events).await;
        if let Some(spans) = &self.spans {
            for (event, Answer { result, at }) in events.iter().zip(&answers) {
                if let Some(span) = span::of(event, broker, begun, at.duration_since(start), result) {
                    spans.take(span);
                }
            }
        }
        Ok(Success::Published(answers.into_iter().map(|answer| answer.result).collect()))
    }

    /// The connection, if it leads to this broker and is well.
    fn connected(&self, broker: &Arc<Broker>) -> Option<Arc<Open>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        (open.broker == *broker && open.connection.is_open()).then_some(open)
    }

    fn replace(&self, open: Option<Arc<Open>>) -> Option<Arc<Open>> {
        std::mem::replace(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner), open)
    }
}

impl Connection {
    async fn open(broker: &Broker) -> Result<Self, Failure> {
        match broker {
            Broker::RabbitMq { url, exchange, routing_key } => {
                let connection = rabbitmq::Connection::open(url, exchange, routing_key).await?;
                Ok(Self::RabbitMq(Box::new(connection)))
            }
            Broker::PubSub { project, topic } => {
                pubsub::Connection::open(project, topic).await.map(Self::PubSub)
            }
        }
    }

    fn is_open(&self) -> bool {
        match self {
            Self::RabbitMq(connection) => connection.is_open(),
            Self::PubSub(connection) => connection.is_open(),
        }
    }

    fn pause(&self) -> Option<Failure> {
        match self {
            Self::RabbitMq(connection) => connection.pause(),
            Self::PubSub(_) => None,
        }
    }

    async fn publish(&self, events: &[CloudEvent]) -> Vec<Answer> {
        match self {
            Self::RabbitMq(connection) => connection.publish(events).await,
            Self::PubSub(connection) => connection.publish(events).await,
        }
    }

    async fn close(&self) {
        match self {
            Self::RabbitMq(connection) => connection.close().await,
            Self::PubSub(_) => {}
        }
    }
}

/// Awaits the answers to all events, though not for too long: none stands for one that didn't come.
async fn settle<F>(mut sendings: Vec<MaybeDone<F>>) -> Vec<Option<Answer>>
where
    F: Future<Output = Answer> + Unpin,
{
    // All at once: they may come in another order than the events, and each is to be noticed when it comes.
    let _late = tokio::time::timeout(ANSWER_TIMEOUT, join_all(&mut sendings)).await;
    sendings.iter_mut().map(|sending| Pin::new(sending).take_output()).collect()
}
