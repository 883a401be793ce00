//! Message brokers, and the events that are published to them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broker {
    /// An AMQP 0-9-1 broker.
    RabbitMq {
        /// `amqp://` or `amqps://`, with the credentials.
        url: SecretString,
        /// The exchange for events.
        exchange: Exchange,
    },
    /// Google Cloud Pub/Sub, with the credentials from the environment.
    PubSub {
        /// The project's id.
        project: String,
        /// The topic's id.
        topic: String,
    },
}

/// A durable exchange of RabbitMQ; the connection declares it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// Its type.
    pub r#type: ExchangeType,
    /// The routing key of events, which a fanout exchange ignores.
    pub routing_key: String,
}

/// How an exchange of RabbitMQ distributes messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExchangeType {
    /// To every queue that is bound to it.
    Fanout,
    /// To the queues whose binding matches the routing key.
    Topic,
}

impl ExchangeType {
    /// Returns the name that configurations and the protocol use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }
}

impl Broker {
    /// Returns its type, under the name that configurations and metrics use.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RabbitMq { .. } => "rabbitmq",
            Self::PubSub { .. } => "gcp-pubsub",
        }
    }
}

/// A text that contains credentials: it is never shown, and never written.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretString(String);

impl SecretString {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text itself, for use in a connection.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for SecretString {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("***")
    }
}

/// An event as defined by CloudEvents 1.0. Its data is JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloudEvent {
    /// Unique among all events of its source; later ones sort after earlier ones.
    pub id: String,
    /// What happened, such as `com.redhat.hyperfleet.cluster.reconcile`.
    pub r#type: String,
    /// The source of the event.
    pub source: String,
    /// The time of the event.
    pub time: Timestamp,
    /// The span of its publication (W3C Trace Context), if traces are recorded.
    pub traceparent: Option<String>,
    /// The data of the event.
    pub data: Value,
}

/// The media type of an event's data.
pub const DATA_CONTENT_TYPE: &str = "application/json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_never_shown() {
        let broker = Broker::RabbitMq {
            url: SecretString::new("amqp://user:hunter2@broker"),
            exchange: Exchange {
                name: "events".to_owned(),
                r#type: ExchangeType::Fanout,
                routing_key: String::new(),
            },
        };
        let shown = format!("{broker:?} {}", serde_json::to_string(&broker).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
