//! Sends batches to the collector, and logs when the collector starts to refuse them and when it accepts them again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;
use tracing::{info, warn};

use super::settings::Settings;

/// An exporter, for the thread on which batches are made.
#[derive(Debug)]
pub(super) struct Carrier<E> {
    exporter: Arc<E>,
    /// The runtime of the exporter's client. The thread does not run in it.
    runtime: Handle,
    timeout: Duration,
    collector: String,
    /// The number of spans lost since the collector last accepted some.
    lost: AtomicUsize,
}

impl<E: SpanExporter + 'static> Carrier<E> {
    /// Creates a carrier. Must be called within the runtime.
    pub(super) fn new(exporter: E, settings: &Settings) -> Self {
        Self {
            exporter: Arc::new(exporter),
            runtime: Handle::current(),
            timeout: settings.timeout,
            collector: settings.collector(),
            lost: AtomicUsize::default(),
        }
    }

    async fn carry(&self, batch: Vec<SpanData>) -> Result<(), String> {
        let (exporter, timeout) = (Arc::clone(&self.exporter), self.timeout);
        let exporting = async move { tokio::time::timeout(timeout, exporter.export(batch)).await };
        match self.runtime.spawn(exporting).await {
            Ok(Ok(answer)) => answer.map_err(|error| error.to_string()),
            Ok(Err(_)) => Err(format!("no answer within {timeout:?}")),
            Err(_) => Err("the program has ended".to_owned()),
        }
    }
}

impl<E: SpanExporter + 'static> SpanExporter for Carrier<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (count, collector) = (batch.len(), &self.collector);
        match self.carry(batch).await {
            Ok(()) => match self.lost.swap(0, Ordering::Relaxed) {
                0 => {}
                lost => info!("the collector at {collector} accepts spans again; {lost} were lost"),
            },
            Err(problem) => {
                if self.lost.fetch_add(count, Ordering::Relaxed) == 0 {
                    warn!(
                        "spans are lost until the collector at {collector} accepts them, which will be \
                         logged: {problem}; check OTEL_EXPORTER_OTLP_ENDPOINT, and that the collector runs \
                         and can be reached from here"
                    );
                }
            }
        }
        // Failures are logged here and not by the caller, which would log each one.
        Ok(())
    }
}
