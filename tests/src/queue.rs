//! A queue of a broker, bound before the first event is published, and the events that arrive in it.

use std::collections::BTreeMap;

use amqprs::BasicProperties;
use amqprs::channel::{
    BasicConsumeArguments, Channel, ConsumerMessage, ExchangeDeclareArguments, QueueBindArguments,
    QueueDeclareArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use anyhow::Context as _;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::ground::PATIENCE;
use crate::rabbitmq::{PASSWORD, RabbitMq, USER};

/// A durable queue that is bound to a durable exchange.
pub struct Queue {
    /// Kept open for the channel.
    _connection: Connection,
    channel: Channel,
    name: String,
}

impl Queue {
    /// Declares the queue and the exchange, if they do not exist.
    pub async fn bind(broker: &RabbitMq, exchange: &str) -> anyhow::Result<Self> {
        Self::bind_to(broker, exchange, "fanout").await
    }

    /// Does the same with an exchange of this type; the queue is bound without a key.
    pub async fn bind_to(broker: &RabbitMq, exchange: &str, kind: &str) -> anyhow::Result<Self> {
        let address = broker.address();
        let arguments =
            OpenConnectionArguments::new(&address.ip().to_string(), address.port(), USER, PASSWORD);
        let connection = Connection::open(&arguments).await?;
        let channel = connection.open_channel(None).await?;
        let declared = ExchangeDeclareArguments::new(exchange, kind).durable(true).finish();
        channel.exchange_declare(declared).await?;
        let name = format!("{exchange}-queue");
        channel.queue_declare(QueueDeclareArguments::durable_client_named(&name)).await?;
        channel.queue_bind(QueueBindArguments::new(&name, exchange, "")).await?;
        Ok(Self { _connection: connection, channel, name })
    }

    /// Consumes all current and later messages of the queue.
    pub async fn arrivals(&self) -> anyhow::Result<Arrivals> {
        let arguments = BasicConsumeArguments::new(&self.name, "").manual_ack(false).finish();
        let (_, receiver) = self.channel.basic_consume_rx(arguments).await?;
        Ok(Arrivals(receiver))
    }

    /// Returns the number of messages in the queue.
    pub async fn len(&self) -> anyhow::Result<usize> {
        let passive = QueueDeclareArguments::durable_client_named(&self.name).passive(true).finish();
        let (_, count, _) = self.channel.queue_declare(passive).await?.context("no answer")?;
        Ok(usize::try_from(count)?)
    }

    /// Returns the events in the queue, and removes them.
    pub async fn drain(&self) -> anyhow::Result<Vec<Arrival>> {
        let count = self.len().await?;
        let mut arrivals = self.arrivals().await?;
        let mut events = Vec::with_capacity(count);
        for _ in 0..count {
            let next = tokio::time::timeout(PATIENCE, arrivals.next()).await;
            let next = next.with_context(|| format!("only {} of {count} arrived", events.len()))?;
            events.push(next?);
        }
        Ok(events)
    }
}

/// A consumer's events.
pub struct Arrivals(UnboundedReceiver<ConsumerMessage>);

impl Arrivals {
    /// Returns the next event.
    pub async fn next(&mut self) -> anyhow::Result<Arrival> {
        let message = self.0.recv().await.context("the connection ended")?;
        let body = String::from_utf8(message.content.context("a message without a body")?)?;
        let event = serde_json::from_str::<Value>(&body)?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Ok(Arrival {
            resource: text("/data/resourceId").context("an event about nothing")?,
            id: text("/id").context("an event without an id")?,
            body,
            properties: message.basic_properties.context("a message without properties")?,
        })
    }
}

/// An event that has arrived.
#[derive(Debug)]
pub struct Arrival {
    /// The resource of the event.
    pub resource: String,
    /// The id of the event.
    pub id: String,
    /// The whole body.
    pub body: String,
    /// The AMQP properties.
    pub properties: BasicProperties,
}

impl Arrival {
    /// Returns the AMQP headers.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let headers = self.properties.headers().into_iter().flat_map(AsRef::as_ref);
        headers.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }
}
