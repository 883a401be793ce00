//! What all spans have in common: the ids of their trace, their times and their scope.

use std::time::{Duration, SystemTime};

use lockstep_engine::trace;
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// Returns a span without a name, with the ids of a `traceparent`; `None` if that is invalid.
pub(super) fn unnamed(
    traceparent: &str,
    span_kind: SpanKind,
    start_time: SystemTime,
    took: Duration,
) -> Option<SpanData> {
    let (trace, span) = trace::ids(traceparent)?;
    let parent = trace::parent(trace, span).map(SpanId::from_hex).transpose().ok()?;
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    Some(SpanData {
        span_context: SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE),
        parent_span_id: parent.unwrap_or(SpanId::INVALID),
        parent_span_is_remote: false,
        span_kind,
        name: "".into(),
        start_time,
        end_time: start_time + took,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("lockstep")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    })
}
