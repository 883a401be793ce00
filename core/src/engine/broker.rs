//! Message brokers, and the events that are published to them.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Broker {
    /// An AMQP 0-9-1 broker.
    RabbitMq {
        /// `amqp://` or `amqps://`, with the credentials.
        url: SecretString,
        /// Where events are published.
        exchange: Exchange,
    },
    /// Google Cloud Pub/Sub, with the credentials that the environment gives.
    PubSub {
        /// The project's id.
        project: String,
        /// The topic's id.
        topic: String,
    },
}

/// A durable exchange of RabbitMQ, which is declared.
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
    /// As configurations and the protocol name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fanout => "fanout",
            Self::Topic => "topic",
        }
    }
}

impl Broker {
    /// Its type, as configurations and metrics name it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::RabbitMq { .. } => "rabbitmq",
            Self::PubSub { .. } => "gcp-pubsub",
        }
    }
}

/// A text that holds credentials: it is never shown, and never written.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SecretString(String);

impl SecretString {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for who needs it to connect.
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

/// An event in the terms of CloudEvents 1.0. Its data is JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CloudEvent {
    /// Unique among all events of its source; later ones sort after earlier ones.
    pub id: String,
    /// What happened, such as `com.redhat.hyperfleet.cluster.reconcile`.
    pub r#type: String,
    /// Who tells.
    pub source: String,
    /// When.
    pub time: Timestamp,
    /// The span of its publication (W3C Trace Context), if traces are kept.
    pub traceparent: Option<String>,
    /// What it is about.
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
