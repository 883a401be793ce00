//! The OTLP exporter.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use lockstep_engine::action::Failure;
use lockstep_engine::broker::{Broker, CloudEvent};
use lockstep_engine::trace::Span;
use opentelemetry::trace::{SpanKind, Status};
use opentelemetry::{KeyValue, Value};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanExporter as _, SpanProcessor as _};
use reqwest::redirect;

use super::carrier::Carrier;
use super::settings::Settings;
use super::{publication, span};
use crate::web;

/// Accepts spans and exports them. Clones share their queue.
#[derive(Clone)]
pub struct Spans {
    processor: Arc<BatchSpanProcessor>,
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").finish_non_exhaustive()
    }
}

impl Spans {
    /// Starts to export, within a Tokio runtime. `instance` identifies the process in the spans.
    ///
    /// Environment variables set what [`Settings`] do not: `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_COMPRESSION`,
    /// `OTEL_RESOURCE_ATTRIBUTES`, and `OTEL_BSP_*` for the size and interval of batches.
    pub fn export(settings: &Settings, instance: String) -> anyhow::Result<Self> {
        let client = web::client(nowhere)
            .map_err(|failure| anyhow::anyhow!("no client for the collector of spans: {failure}"))?;
        let mut exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(settings.endpoint.as_str())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(settings.timeout)
            .build()
            .context("no exporter of spans")?;
        exporter.set_resource(&resource(&settings.service, instance));
        let carrier = Carrier::new(exporter, settings);
        Ok(Self { processor: Arc::new(BatchSpanProcessor::builder(carrier).build()) })
    }

    /// Records the publication of an event, if the event belongs to a trace.
    pub(crate) fn published(
        &self,
        event: &CloudEvent,
        broker: &Broker,
        began: SystemTime,
        took: Duration,
        result: &Result<(), Failure>,
    ) {
        if let Some(span) = publication::span(event, broker, began, took, result) {
            self.take(span);
        }
    }

    /// Enqueues a span that has ended, unless the queue is full.
    fn take(&self, span: SpanData) {
        self.processor.on_end(span);
    }

    /// Records a span of a machine, which has ended just now.
    pub(crate) fn record(&self, span: &Span) {
        let attributes = span.attributes.iter().map(|(key, value)| {
            let value = match (value.as_i64(), value.as_str()) {
                (Some(number), _) => Value::I64(number),
                (None, Some(text)) => text.to_owned().into(),
                (None, None) => value.to_string().into(),
            };
            KeyValue::new(key.clone(), value)
        });
        let status = span.failure.clone().map_or(Status::Unset, Status::error);
        let now = SystemTime::now();
        let began = now.checked_sub(span.took).unwrap_or(now);
        if let Some(data) = span::unnamed(&span.traceparent, SpanKind::Internal, began, span.took) {
            self.take(SpanData { name: span.name.clone(), attributes: attributes.collect(), status, ..data });
        }
    }

    /// Exports the queued spans, for at most this long. Later spans are lost.
    pub async fn finish(self, within: Duration) {
        // Failures have been logged.
        let finishing = move || drop(self.processor.shutdown_with_timeout(within));
        let _ended = tokio::task::spawn_blocking(finishing).await;
    }
}

/// Collectors don't redirect, and the headers, which may be secret, must go to no other server.
fn nowhere(attempt: redirect::Attempt<'_>) -> redirect::Action {
    attempt.stop()
}

/// Returns the resource of the spans. The environment can override it.
fn resource(service: &str, instance: String) -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance),
        ])
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())])
        .with_service_name(service.to_owned())
        .build()
}
