//! Replaces the exporter in a build without it.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use anyhow::bail;
use lockstep_engine::action::Failure;
use lockstep_engine::broker::{Broker, CloudEvent};
use lockstep_engine::trace::Span;

use super::settings::Settings;

/// A placeholder for the exporter; it has no values.
#[derive(Clone, Debug)]
pub struct Spans(Infallible);

impl Spans {
    /// Returns an error.
    ///
    /// # Errors
    /// Always: this build has no exporter.
    pub fn export(settings: &Settings, _instance: String) -> anyhow::Result<Self> {
        bail!(
            "this build of lockstep can't export spans to {}; build it with the feature \"otlp\", or remove the \
             OTEL_EXPORTER_OTLP_* variables",
            settings.collector()
        )
    }

    pub(crate) fn published(
        &self,
        _event: &CloudEvent,
        _broker: &Broker,
        _began: SystemTime,
        _took: Duration,
        _result: &Result<(), Failure>,
    ) {
        match self.0 {}
    }

    pub(crate) fn record(&self, _span: &Span) {
        match self.0 {}
    }

    /// Can never be called: the type has no value.
    #[expect(clippy::unused_async, reason = "its counterpart is async")]
    pub async fn finish(self, _within: Duration) {
        match self.0 {}
    }
}
