//! Publishes one event to a RabbitMQ and prints the result: `publish-event <URL> <exchange>`.
//!
//! This is a separate program, because environment variables configure it.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use jiff::Timestamp;
use lockstep_engine::broker::{Broker, CloudEvent, Exchange, ExchangeType, SecretString};
use lockstep_runtime::publish::Publisher;
use serde_json::Value;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("no URL")?;
    let exchange = arguments.next().context("no exchange")?;
    let exchange = Exchange { name: exchange, r#type: ExchangeType::Fanout, routing_key: String::new() };
    let broker = Arc::new(Broker::RabbitMq { url: SecretString::new(&url), exchange });
    let event = CloudEvent {
        id: "00000001".to_owned(),
        r#type: "com.redhat.hyperfleet.cluster.reconcile".to_owned(),
        source: "hyperfleet-sentinel".to_owned(),
        time: Timestamp::UNIX_EPOCH,
        traceparent: None,
        data: Value::Null,
    };
    let publisher = Publisher::default();
    let outcome = match publisher.connect(&broker).await {
        Ok(_) => publisher.publish(&broker, &[event]).await,
        Err(failure) => Err(failure),
    };
    writeln!(std::io::stdout(), "{outcome:?}")?;
    Ok(())
}
