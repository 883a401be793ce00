//! Tests the publisher with a real RabbitMQ, and with a consumer from another library.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use amqprs::channel::{
    BasicConsumeArguments, Channel, ConsumerMessage, ExchangeDeclareArguments, QueueBindArguments,
    QueueDeclareArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use lockstep_engine::action::{ErrorKind, Failure, Outcome, Success};
use lockstep_engine::broker::{Broker, CloudEvent, Exchange, ExchangeType, SecretString};
use lockstep_runtime::publish::Publisher;
use lockstep_tests::rabbitmq::{ENCODED_PASSWORD, PASSWORD, RESTRICTED_USER, RabbitMq, USER};
use serde_json::{Value, json};

#[path = "rabbitmq/outages.rs"]
mod outages;

fn to(url: &str, exchange: &str) -> Arc<Broker> {
    of_type(url, exchange, ExchangeType::Fanout, "clusters")
}

fn of_type(url: &str, exchange: &str, r#type: ExchangeType, routing_key: &str) -> Arc<Broker> {
    let exchange = Exchange { name: exchange.to_owned(), r#type, routing_key: routing_key.to_owned() };
    Arc::new(Broker::RabbitMq { url: SecretString::new(url), exchange })
}

fn event(number: usize) -> CloudEvent {
    CloudEvent {
        id: format!("{number:08}"),
        r#type: "com.redhat.hyperfleet.cluster.reconcile".to_owned(),
        source: "hyperfleet-sentinel".to_owned(),
        time: "2025-10-21T12:00:00Z".parse().expect("a time"),
        traceparent: number.is_multiple_of(2).then(|| format!("00-{number:032x}-00f067aa0ba902b7-01")),
        data: json!({ "resourceId": "cls-abc", "reason": "ümläut \"quoted\"" }),
    }
}

fn published(outcome: Outcome) -> Vec<Result<(), Failure>> {
    match outcome {
        Ok(Success::Published(results)) => results,
        outcome => panic!("{outcome:?}"),
    }
}

/// A consumer's connection, and a durable queue that is bound to an exchange.
struct Consumer {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

async fn open(broker: &RabbitMq) -> anyhow::Result<(Connection, Channel)> {
    let address = broker.address();
    let arguments = OpenConnectionArguments::new(&address.ip().to_string(), address.port(), USER, PASSWORD);
    let connection = Connection::open(&arguments).await?;
    let channel = connection.open_channel(None).await?;
    Ok((connection, channel))
}

impl Consumer {
    async fn of(broker: &RabbitMq, exchange: &str) -> anyhow::Result<Self> {
        let (connection, channel) = open(broker).await?;
        let queue = format!("{exchange}-queue");
        channel.queue_declare(QueueDeclareArguments::durable_client_named(&queue)).await?;
        channel.queue_bind(QueueBindArguments::new(&queue, exchange, "")).await?;
        Ok(Self { _connection: connection, channel, queue })
    }

    /// Returns all messages in the queue.
    async fn messages(&self) -> anyhow::Result<Vec<ConsumerMessage>> {
        let passive = QueueDeclareArguments::durable_client_named(&self.queue).passive(true).finish();
        let (_, count, _) = self.channel.queue_declare(passive).await?.expect("an answer");
        let arguments = BasicConsumeArguments::new(&self.queue, "").manual_ack(false).finish();
        let (_, mut receiver) = self.channel.basic_consume_rx(arguments).await?;
        let mut messages = Vec::new();
        for _ in 0..count {
            messages.push(receiver.recv().await.expect("as many messages as the broker counts"));
        }
        Ok(messages)
    }
}

#[tokio::test]
async fn every_attribute_and_byte_arrives() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (publisher, target) = (Publisher::default(), to(&broker.url(), "arrive"));
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    let consumer = Consumer::of(broker, "arrive").await?;
    let events = [event(1), event(2)];
    assert_eq!(published(publisher.publish(&target, &events).await), [Ok(()), Ok(())]);

    let messages = consumer.messages().await?;
    assert_eq!(messages.len(), 2);
    for (message, event) in messages.into_iter().zip(&events) {
        let deliver = message.deliver.expect("its way");
        assert_eq!((deliver.exchange().as_str(), deliver.routing_key().as_str()), ("arrive", "clusters"));
        let properties = message.basic_properties.expect("properties");
        assert_eq!(properties.delivery_mode(), Some(2));
        assert_eq!(properties.content_type().map(String::as_str), Some("application/cloudevents+json"));
        assert_eq!(properties.message_id(), Some(&event.id));
        assert_eq!(properties.message_type(), Some(&event.r#type));
        assert_eq!(properties.timestamp(), Some(1_761_048_000));

        let headers = properties.headers().expect("headers").as_ref();
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        let mut expected = BTreeMap::from(
            [
                ("cloudEvents:specversion", "1.0"),
                ("cloudEvents:type", "com.redhat.hyperfleet.cluster.reconcile"),
                ("cloudEvents:source", "hyperfleet-sentinel"),
                ("cloudEvents:id", event.id.as_str()),
                ("cloudEvents:time", "2025-10-21T12:00:00Z"),
                ("cloudEvents:datacontenttype", "application/json"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let mut traced = String::new();
        if let Some(traceparent) = &event.traceparent {
            expected.insert("cloudEvents:traceparent".to_owned(), traceparent.clone());
            traced = format!(r#","traceparent":"{traceparent}""#);
        }
        assert_eq!(headers.collect::<BTreeMap<_, _>>(), expected);

        let body = format!(
            "{}{}{}{traced}}}",
            r#"{"specversion":"1.0","id":""#,
            event.id,
            r#"","type":"com.redhat.hyperfleet.cluster.reconcile","source":"hyperfleet-sentinel","datacontenttype":"application/json","time":"2025-10-21T12:00:00Z","data":{"reason":"ümläut \"quoted\"","resourceId":"cls-abc"}"#,
        );
        assert_eq!(String::from_utf8(message.content.expect("a body"))?, body);
    }
    Ok(())
}

/// Frames are small; the body of such an event takes several.
#[tokio::test]
async fn an_event_that_is_larger_than_a_frame_arrives() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (publisher, target) = (Publisher::default(), to(&broker.url(), "large"));
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    let consumer = Consumer::of(broker, "large").await?;
    let large = CloudEvent { data: json!({ "resourceId": "x".repeat(100_000) }), ..event(2) };
    let events = [event(1), large, event(3)];
    assert_eq!(published(publisher.publish(&target, &events).await), [Ok(()), Ok(()), Ok(())]);
    let messages = consumer.messages().await?;
    let bodies = messages.into_iter().map(|message| message.content.expect("a body"));
    let data = bodies.map(|body| serde_json::from_slice(&body).map(|mut event: Value| event["data"].take()));
    assert_eq!(data.collect::<Result<Vec<_>, _>>()?, events.map(|event| event.data));
    Ok(())
}

/// The chart of the released adapter declares a topic exchange and binds its queue without a key.
#[tokio::test]
async fn a_topic_exchange_of_adapters_is_shared() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let (_connection, channel) = open(broker).await?;
    let topic = ExchangeDeclareArguments::new("adapters", "topic").durable(true).finish();
    channel.exchange_declare(topic).await?;
    let consumer = Consumer::of(broker, "adapters").await?;

    let publisher = Publisher::default();
    let refused = publisher.connect(&to(&broker.url(), "adapters")).await.expect_err("another type");
    assert_eq!(refused.class, ErrorKind::Invalid);
    for words in ["'fanout' but current is 'topic'", "set spec.broker.exchangeType to its type"] {
        assert!(refused.message.contains(words), "{refused}");
    }
    let target = of_type(&broker.url(), "adapters", ExchangeType::Topic, "");
    assert_eq!(publisher.connect(&target).await, Ok(Success::Done));
    assert_eq!(published(publisher.publish(&target, &[event(1)]).await), [Ok(())]);
    assert_eq!(consumer.messages().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn refusals_are_reported_without_the_password() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let address = broker.address();
    let (_connection, channel) = open(broker).await?;
    channel
        .exchange_declare(ExchangeDeclareArguments::new("a-topic", "topic").durable(true).finish())
        .await?;

    let url = |user: &str, password: &str, path: &str| format!("amqp://{user}:{password}@{address}{path}");
    let table = [
        (url(USER, "hunter3", "/"), "new", ErrorKind::Forbidden, "ACCESS_REFUSED - Login was refused"),
        (url(USER, ENCODED_PASSWORD, "/none"), "new", ErrorKind::Forbidden, "vhost none not found"),
        (
            url(USER, ENCODED_PASSWORD, "/closed"),
            "new",
            ErrorKind::Forbidden,
            "access to vhost 'closed' refused",
        ),
        (
            url(RESTRICTED_USER, ENCODED_PASSWORD, "/"),
            "new",
            ErrorKind::Forbidden,
            "access to exchange 'new'",
        ),
        (url(USER, ENCODED_PASSWORD, "/"), "a-topic", ErrorKind::Invalid, "inequivalent arg 'type'"),
        (url(USER, ENCODED_PASSWORD, "/"), &"x".repeat(256), ErrorKind::Invalid, "exchange of RabbitMQ"),
        (
            format!("user:hunter2@{address}"),
            "new",
            ErrorKind::Invalid,
            "amqp://USER:PASSWORD@HOST:5672/VHOST",
        ),
        (format!("http://user:hunter2@{address}"), "new", ErrorKind::Invalid, "amqp://USER:PASSWORD@HOST"),
        (
            "amqp://user:hunter2@127.0.0.1:1".to_owned(),
            "new",
            ErrorKind::Unavailable,
            "RabbitMQ at 127.0.0.1:1 ",
        ),
        ("amqp://user:hunter2@[::1]:1".to_owned(), "new", ErrorKind::Unavailable, "RabbitMQ at [::1]:1 "),
    ];
    for (url, exchange, class, words) in table {
        let (publisher, target) = (Publisher::default(), to(&url, exchange));
        let failure = publisher.connect(&target).await.expect_err(&url);
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
        assert!(!format!("{failure:?}").contains("hunter"), "{failure:?}");
        let unpublished = publisher.publish(&target, &[event(1)]).await.expect_err("no connection");
        assert_eq!(unpublished.class, ErrorKind::Unavailable);
    }
    Ok(())
}

/// An environment variable sets the trusted certificates, so the test needs a separate process.
#[test]
fn tls_is_spoken_with_who_is_trusted() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    for (trusted, expected) in [(true, "Ok(Published([Ok(())]))"), (false, "class: Unavailable")] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_publish-event"));
        child.args([&broker.tls_url(), "encrypted"]);
        if trusted {
            child.env("SSL_CERT_FILE", broker.certificate_authority());
        }
        let output = child.output()?;
        let printed = String::from_utf8(output.stdout)?;
        assert!(output.status.success() && printed.contains(expected), "{printed}");
        assert!(trusted || printed.contains("invalid peer certificate"), "{printed}");
    }
    Ok(())
}

/// The AMQP port is sufficient for this test: after the TLS handshake it does not answer with HTTP.
#[test]
fn certificates_that_are_replaced_are_trusted_by_who_reads_over_http() -> anyhow::Result<()> {
    let Some(broker) = RabbitMq::shared() else { return Ok(()) };
    let dir = tempfile::tempdir()?;
    let trusted = dir.path().join("trusted.pem");
    std::fs::write(&trusted, "")?;
    let output = Command::new(env!("CARGO_BIN_EXE_fetch-twice"))
        .arg(broker.tls_url().replace("amqps://", "https://"))
        .arg(broker.certificate_authority())
        .env("SSL_CERT_FILE", &trusted)
        .output()?;
    let printed = String::from_utf8(output.stdout)?;
    let mut answers = printed.lines();
    let (before, after) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
    assert!(before.contains("class: Unavailable") && before.contains("certificate"), "{printed}");
    assert!(after.contains("class: Unknown") && !after.contains("certificate"), "{printed}");
    Ok(())
}
