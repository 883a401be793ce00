//! The message of an event to a broker: the whole event as JSON, and its attributes again as message attributes, for clients
//! that route messages without reading them.

use jiff::Timestamp;
use lockstep_engine::action::{Class, Failure};
use lockstep_engine::broker::{CloudEvent, DATA_CONTENT_TYPE};
use serde::Serialize;
use serde_json::Value;

/// The media type of the body.
pub(super) const CONTENT_TYPE: &str = "application/cloudevents+json";

/// The version of CloudEvents.
const SPEC_VERSION: &str = "1.0";

/// The body: an event in the JSON format of CloudEvents.
#[derive(Serialize)]
struct Body<'e> {
    specversion: &'static str,
    id: &'e str,
    r#type: &'e str,
    source: &'e str,
    datacontenttype: &'static str,
    time: &'e str,
    data: &'e Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'e str>,
}

/// An event with its time as text.
pub(super) struct Message<'e> {
    event: &'e CloudEvent,
    time: String,
}

impl<'e> Message<'e> {
    /// Returns the message of an event.
    ///
    /// # Errors
    ///
    /// If its source is empty, which CloudEvents forbids.
    pub(super) fn new(event: &'e CloudEvent) -> Result<Self, Failure> {
        if event.source.is_empty() {
            return Err(invalid(&"its source is empty"));
        }
        Ok(Self { event, time: time(event.time) })
    }

    /// Returns the body: the event in the JSON format of CloudEvents 1.0 (structured mode), which includes its data as JSON.
    pub(super) fn body(&self) -> Result<Vec<u8>, Failure> {
        let CloudEvent { id, r#type, source, time: _, traceparent, data } = self.event;
        let body = Body {
            specversion: SPEC_VERSION,
            id,
            r#type,
            source,
            datacontenttype: DATA_CONTENT_TYPE,
            time: &self.time,
            data,
            traceparent: traceparent.as_deref(),
        };
        serde_json::to_vec(&body).map_err(|error| invalid(&error))
    }

    /// Returns all attributes with their names in CloudEvents 1.0.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let event = self.event;
        [
            ("specversion", SPEC_VERSION),
            ("type", &event.r#type),
            ("source", &event.source),
            ("id", &event.id),
            ("time", &self.time),
            ("datacontenttype", DATA_CONTENT_TYPE),
        ]
        .into_iter()
        .chain(event.traceparent.as_deref().map(|traceparent| ("traceparent", traceparent)))
    }
}

/// Formats a time with digits for none, or for thousandths, millionths, billionths of a second.
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
    Failure::new(Class::Invalid, format!("the event can't be sent: {error}"))
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
    use cloudevents::event::{Data, ExtensionValue};
    use cloudevents::{AttributesReader as _, Event};

    use super::*;

    #[test]
    fn a_parser_of_another_library_reads_the_same_event() {
        let event = example();
        let body = Message::new(&event).unwrap().body().unwrap();
        let read: Event = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (read.id(), read.ty(), read.source().as_str()),
            (&*event.id, &*event.r#type, &*event.source)
        );
        assert_eq!(read.time().unwrap().timestamp(), event.time.as_second());
        assert_eq!(read.datacontenttype(), Some(DATA_CONTENT_TYPE));
        assert_eq!(read.data(), Some(&Data::Json(event.data)));
        assert_eq!(read.extension("traceparent"), event.traceparent.map(ExtensionValue::String).as_ref());
    }

    #[test]
    fn body_and_attributes_say_the_same() {
        for time in ["00Z", "00.72Z", "00.720001Z", "00.720000001Z", "59.999Z"] {
            let time = format!("2025-10-21T12:00:{time}").parse().unwrap();
            let event = CloudEvent { time, ..example() };
            let message = Message::new(&event).unwrap();
            let body: Value = serde_json::from_slice(&message.body().unwrap()).unwrap();
            for (name, value) in message.attributes() {
                assert_eq!(body[name], value, "{name}");
            }
        }
    }
}
