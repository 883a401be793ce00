//! The span of one publication of an event.
//!
//! Source: OpenTelemetry, "Semantic Conventions for Messaging Spans", with those for RabbitMQ and Google Cloud Pub/Sub.

use std::time::{Duration, SystemTime};

use lockstep_engine::action::Failure;
use lockstep_engine::broker::{Broker, CloudEvent};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;

use super::span;

/// Returns the span of the event's `traceparent`: from the publication until the broker's answer. Returns `None` for an event
/// without a trace.
pub(super) fn span(
    event: &CloudEvent,
    broker: &Broker,
    begun: SystemTime,
    took: Duration,
    result: &Result<(), Failure>,
) -> Option<SpanData> {
    let data = span::unnamed(event.traceparent.as_deref()?, SpanKind::Producer, begun, took)?;
    let (system, destination) = match broker {
        Broker::RabbitMq { exchange, .. } => ("rabbitmq", &exchange.name),
        Broker::PubSub { topic, .. } => ("gcp_pubsub", topic),
    };
    let mut attributes = vec![
        KeyValue::new("messaging.system", system),
        KeyValue::new("messaging.operation.name", "publish"),
        KeyValue::new("messaging.operation.type", "send"),
        KeyValue::new("messaging.destination.name", destination.clone()),
        KeyValue::new("messaging.message.id", event.id.clone()),
        KeyValue::new("cloudevents.event_type", event.r#type.clone()),
    ];
    if let Broker::RabbitMq { exchange, .. } = broker {
        let routing_key = exchange.routing_key.clone();
        attributes.push(KeyValue::new("messaging.rabbitmq.destination.routing_key", routing_key));
    }
    for (attribute, key) in [("hyperfleet.resource_id", "id"), ("hyperfleet.resource_kind", "kind")] {
        if let Some(text) = event.data[key].as_str() {
            attributes.push(KeyValue::new(attribute, text.to_owned()));
        }
    }
    if let Err(failure) = result {
        attributes.push(KeyValue::new("error.type", failure.class.name()));
    }
    Some(SpanData {
        name: format!("publish {destination}").into(),
        attributes,
        status: result.as_ref().map_or_else(|failure| Status::error(failure.to_string()), |()| Status::Unset),
        ..data
    })
}

#[cfg(test)]
mod tests {
    use lockstep_engine::action::ErrorKind;
    use lockstep_engine::broker::{Exchange, ExchangeType, SecretString};

    use super::*;
    use crate::publish::example;

    fn render(span: &SpanData) -> String {
        let SpanData { span_context, parent_span_id, name, span_kind, status, attributes, .. } = span;
        let head = format!("{name} ({span_kind:?}): {status:?}");
        let ids = format!("{} {} in {parent_span_id}", span_context.trace_id(), span_context.span_id());
        let attributes = attributes.iter().map(|KeyValue { key, value, .. }| format!("{key} = {value}"));
        [head, ids].into_iter().chain(attributes).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn spans_of_both_brokers() {
        let rabbitmq = Broker::RabbitMq {
            url: SecretString::new("amqp://user:hunter2@broker"),
            exchange: Exchange {
                name: "events".to_owned(),
                r#type: ExchangeType::Fanout,
                routing_key: "clusters".to_owned(),
            },
        };
        let pubsub = Broker::PubSub { project: "fleet".to_owned(), topic: "events".to_owned() };
        let event = CloudEvent {
            data: serde_json::json!({ "id": "cls-abc", "kind": "Cluster", "resourceId": "cls-abc" }),
            ..example()
        };
        let (begun, took) = (SystemTime::UNIX_EPOCH, Duration::from_millis(7));
        let nack =
            Failure::new(ErrorKind::Unavailable, "RabbitMQ at broker:5672: the broker refused it (nack)");
        let spans = [(rabbitmq, Err(nack)), (pubsub, Ok(()))]
            .map(|(broker, result)| span(&event, &broker, begun, took, &result).expect("a span"));
        assert!(spans.iter().all(|span| span.end_time == begun + took));
        assert!(!format!("{spans:?}").contains("hunter2"));
        insta::assert_snapshot!(spans.map(|span| render(&span)).join("\n\n"));
    }

    #[test]
    fn an_event_without_a_trace_has_none() {
        let broker = Broker::PubSub { project: "fleet".to_owned(), topic: "events".to_owned() };
        for traceparent in [None, Some(""), Some("00-xyz-1-01"), Some("00-4bf92f3577b34da6a3ce929d0e0e4736")]
        {
            let event = CloudEvent { traceparent: traceparent.map(str::to_owned), ..example() };
            assert_eq!(span(&event, &broker, SystemTime::now(), Duration::ZERO, &Ok(())), None);
        }
    }
}
