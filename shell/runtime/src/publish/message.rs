//! The message of an event to a broker: the whole event as JSON, and its attributes again as message attributes, for clients
//! that route messages without reading them.

use cloudevents::{EventBuilder as _, EventBuilderV10};
use jiff::Timestamp;
use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::broker::{CloudEvent, DATA_CONTENT_TYPE};

/// The media type of the body.
pub(super) const CONTENT_TYPE: &str = "application/cloudevents+json";

/// The name of the attribute with the trace context.
const TRACEPARENT: &str = "traceparent";

/// Returns the body: the event in the JSON format of CloudEvents 1.0 (structured mode), which includes its data as JSON.
pub(super) fn body(event: &CloudEvent) -> Result<Vec<u8>, Failure> {
    let mut whole = EventBuilderV10::new()
        .id(event.id.as_str())
        .source(event.source.as_str())
        .ty(event.r#type.as_str())
        .time(event.time.to_string())
        .data(DATA_CONTENT_TYPE, event.data.clone());
    if let Some(traceparent) = &event.traceparent {
        whole = whole.extension(TRACEPARENT, traceparent.as_str());
    }
    let whole = whole.build().map_err(|error| invalid(&error))?;
    serde_json::to_vec(&whole).map_err(|error| invalid(&error))
}

/// Returns all attributes with their names in CloudEvents 1.0.
pub(super) fn attributes(event: &CloudEvent) -> impl Iterator<Item = (&'static str, String)> {
    [
        ("specversion", "1.0".to_owned()),
        ("type", event.r#type.clone()),
        ("source", event.source.clone()),
        ("id", event.id.clone()),
        ("time", time(event.time)),
        ("datacontenttype", DATA_CONTENT_TYPE.to_owned()),
    ]
    .into_iter()
    .chain(event.traceparent.clone().map(|traceparent| (TRACEPARENT, traceparent)))
}

/// Formats a time with as many digits as in the body: none, or thousandths, millionths, billionths of a second.
fn time(time: Timestamp) -> String {
    let precision = match time.subsec_nanosecond() {
        0 => 0,
        nanoseconds if nanoseconds % 1_000_000 == 0 => 3,
        nanoseconds if nanoseconds % 1_000 == 0 => 6,
        _ => 9,
    };
    format!("{time:.precision$}")
}

/// Returns the failure of an event that no broker can accept.
pub(super) fn invalid(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ErrorKind::Invalid, format!("the event can't be sent: {error}"))
}

/// Returns an event with all possible fields.
#[cfg(test)]
pub(crate) fn example() -> CloudEvent {
    CloudEvent {
        id: "0199f9b2-1111-7000-8000-000000000001".to_owned(),
        r#type: "com.redhat.hyperfleet.cluster.reconcile".to_owned(),
        source: "hyperfleet-sentinel".to_owned(),
        time: "2025-10-21T12:00:00Z".parse().expect("a time"),
        traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned()),
        data: serde_json::json!({ "resourceId": "cls-abc", "generation": 5 }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn body_and_attributes_say_the_same() {
        for time in ["00Z", "00.72Z", "00.720001Z", "00.720000001Z", "59.999Z"] {
            let time = format!("2025-10-21T12:00:{time}").parse().unwrap();
            let event = CloudEvent { time, ..example() };
            let body: Value = serde_json::from_slice(&body(&event).unwrap()).unwrap();
            for (name, value) in attributes(&event) {
                assert_eq!(body[name], value.as_str(), "{name}");
            }
        }
    }
}
