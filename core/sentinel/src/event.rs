//! The events that are published.
//!
//! Source: HyperFleet Sentinel, "CloudEvent Format". The keys of the data after `reason` are those that released adapters
//! read.

use jiff::Timestamp;
use lockstep_engine::broker::CloudEvent;
use lockstep_engine::machine::Note;
use lockstep_engine::random::Random;
use lockstep_engine::time::Wall;
use lockstep_engine::trace;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::resource::{Owner, Resource, ResourceType};

/// The source of the events.
pub const SOURCE: &str = "hyperfleet-sentinel";

/// Generates ids: UUIDs of version 7 (RFC 9562), each greater than the one before, whatever the clock does.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ids {
    /// The milliseconds and the counter of the last id: 48 and 12 bits.
    last: u64,
}

impl Ids {
    /// Returns the next id.
    pub fn next(&mut self, now: Wall, random: &mut Random) -> String {
        let millis = u64::try_from(now.timestamp().as_millisecond()).unwrap_or(0);
        self.last = (self.last + 1).max(millis << 12);
        let (millis, counter) = (self.last >> 12, self.last & 0xfff);
        let high = (millis << 16) | 0x7000 | counter;
        let low = (random.bits() >> 2) | (1 << 63);
        let text = format!("{high:016x}{low:016x}");
        format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
    }
}

/// Returns an event for another attempt: it is the same, but each publication is a span of its own in the trace.
pub fn again(event: &CloudEvent, random: &mut Random) -> CloudEvent {
    let mut event = event.clone();
    if let Some(traceparent) = &mut event.traceparent {
        trace::again(traceparent, random);
    }
    event
}

/// Returns the event that requests the reconcile of a resource. The given data has further fields than those of the specification.
pub fn reconcile(
    resource: Resource,
    resource_type: &ResourceType,
    reason: &str,
    mut data: Map<String, Value>,
    id: String,
    traceparent: Option<String>,
    now: Wall,
) -> CloudEvent {
    let mut put = |key: &str, value: Value| data.insert(key.to_owned(), value);
    put("resourceType", resource_type.name().into());
    put("resourceId", resource.id.as_str().into());
    put("reason", reason.into());
    put("id", resource.id.into());
    let kind = resource.kind.unwrap_or_else(|| resource_type.kind().to_owned());
    let singular = resource_type.singular(&kind);
    put("kind", kind.into());
    if let Some(href) = resource.href {
        put("href", href.into());
    }
    if let Some(generation) = resource.generation {
        put("generation", generation.into());
    }
    if let Some(owners) = resource.owner_references {
        let Owner { id, kind, href } = owners;
        let texts = [("id", id), ("kind", kind), ("href", href)];
        let texts = texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into())));
        put("owner_references", Value::Object(texts.collect()));
    }
    CloudEvent {
        id,
        r#type: format!("com.redhat.hyperfleet.{singular}.reconcile"),
        source: SOURCE.to_owned(),
        time: millis(now.timestamp()),
        traceparent,
        data: Value::Object(data),
    }
}

/// Returns the log line of a confirmed event ("Message Publisher": "Log event publishing success/failure").
pub fn published(event: &CloudEvent) -> Note {
    let text = |field: &str| event.data[field].as_str().unwrap_or_default().to_owned();
    Note::Published {
        event: event.id.clone(),
        resource_type: text("resourceType"),
        resource: text("resourceId"),
    }
}

/// Returns a time truncated to whole milliseconds.
fn millis(time: Timestamp) -> Timestamp {
    Timestamp::from_millisecond(time.as_millisecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use lockstep_engine::trace::Trace;

    use super::*;
    use crate::decision::BACKOFF_EXPIRED;

    /// Returns an event as the specification defines it.
    fn specified(
        resource: Resource,
        resource_type: &ResourceType,
        id: &str,
        traceparent: Option<String>,
        now: Wall,
    ) -> CloudEvent {
        reconcile(resource, resource_type, BACKOFF_EXPIRED, Map::new(), id.to_owned(), traceparent, now)
    }

    fn clusters() -> ResourceType {
        ResourceType::read("clusters").unwrap()
    }

    #[test]
    fn ids_are_uuids_of_version_7_that_grow() {
        let (mut ids, mut random) = (Ids::default(), Random::from_seed(1));
        let now = wall("2026-01-01T00:00:00Z");
        let millis = now.timestamp().as_millisecond();
        let mut given = vec![ids.next(now, &mut random), ids.next(now, &mut random)];
        // The clock goes back, and forward again.
        given.push(ids.next(wall("2025-01-01T00:00:00Z"), &mut random));
        given.push(ids.next(wall("2026-01-01T00:00:01Z"), &mut random));
        assert!(given.is_sorted(), "{given:?}");
        for (id, (later, counter)) in given.iter().zip([(0, 0), (0, 1), (0, 2), (1000, 0)]) {
            let parts: Vec<&str> = id.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
            assert_eq!(i64::from_str_radix(&[parts[0], parts[1]].concat(), 16), Ok(millis + later), "{id}");
            assert_eq!(parts[2], format!("7{counter:03x}"), "the version, then the counter");
            assert!(parts[3].starts_with(['8', '9', 'a', 'b']), "the variant: {id}");
        }
    }

    /// The released API serves any plural in its configuration.
    #[test]
    fn events_of_other_types_are_named_by_the_kind() {
        let routes = ResourceType::read("routes").unwrap();
        for (kind, r#type) in [
            (Some("Route"), "com.redhat.hyperfleet.route.reconcile"),
            (Some("a b"), "com.redhat.hyperfleet.routes.reconcile"),
            (None, "com.redhat.hyperfleet.routes.reconcile"),
        ] {
            let resource = Resource { kind: kind.map(str::to_owned), ..Resource::default() };
            let event = specified(resource, &routes, "evt-1", None, wall("2025-10-21T12:00:00Z"));
            assert_eq!((event.r#type.as_str(), &event.data["resourceType"]), (r#type, &"routes".into()));
        }
        for wrong in ["", "Clusters", "a/b", "1a", &"a".repeat(64)] {
            assert_eq!(ResourceType::read(wrong), None, "{wrong:?}");
        }
        for right in ["clusters", "node-pools", "ipv4", "v1-routes2"] {
            assert_eq!(ResourceType::read(right).as_ref().map(ResourceType::name), Some(right));
        }
    }

    fn wall(time: &str) -> Wall {
        Wall::from_timestamp(time.parse().unwrap())
    }

    #[test]
    fn ids_ascend_and_differ_whatever_the_clock_does() {
        let (mut ids, mut random) = (Ids::default(), Random::from_seed(1));
        let mut made = Vec::new();
        for time in
            ["2025-10-21T12:00:00Z", "2025-10-21T11:00:00Z", "2025-10-21T12:00:01Z", "1960-01-01T00:00:00Z"]
        {
            made.extend((0..5000).map(|_| ids.next(wall(time), &mut random)));
        }
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(made.iter().all(|id| id.len() == 36 && &id[14..15] == "7" && "89ab".contains(&id[19..20])));
    }

    #[test]
    fn events_of_both_types() {
        let resource = Resource {
            id: "cls-123".to_owned(),
            href: Some("/api/hyperfleet/v1/clusters/cls-123".to_owned()),
            generation: Some(3),
            ..Resource::default()
        };
        let pool = Resource {
            id: "np-1".to_owned(),
            kind: Some("NodePool".to_owned()),
            owner_references: Some(Owner {
                id: Some("cls-123".to_owned()),
                kind: Some("Cluster".to_owned()),
                href: None,
            }),
            ..Resource::default()
        };
        let now = wall("2025-10-21T12:00:00Z");
        let mut random = Random::from_seed(1);
        let trace = Trace::begin(&mut random).span(&mut random);
        let events = [
            specified(resource, &clusters(), "evt-1", None, now),
            specified(pool, &ResourceType::read("nodepools").unwrap(), "evt-2", Some(trace), now),
        ];
        insta::assert_json_snapshot!(events);
    }

    #[test]
    fn what_is_sent_again_is_another_span_of_the_same_trace() {
        let mut random = Random::from_seed(1);
        let now = wall("2025-10-21T12:00:00Z");
        let event = |trace| specified(Resource::default(), &clusters(), "evt-1", trace, now);
        let first = event(Some(Trace::begin(&mut random).first()));
        let second = again(&first, &mut random);
        assert_ne!(first.traceparent, second.traceparent);
        assert_eq!(CloudEvent { traceparent: first.traceparent.clone(), ..second }, first);

        let untraced = event(None);
        assert_eq!(again(&untraced, &mut random), untraced);
    }
}
