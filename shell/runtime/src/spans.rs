//! Exports spans to an OpenTelemetry collector: OTLP over HTTP, as protobuf.
//!
//! Spans wait in a bounded queue and are exported in batches, on a separate thread. A slow or unavailable collector blocks
//! nothing: spans that do not fit into the queue, and batches that it does not accept in time, are lost, which is logged once.
//!
//! Without the feature `otlp`, [`Spans`] has no value: a program that is configured to export does not start.

#[cfg(not(feature = "otlp"))]
pub use self::disabled::Spans;
#[cfg(feature = "otlp")]
pub use self::otlp::Spans;
pub use self::settings::Settings;

#[cfg(feature = "otlp")]
mod carrier;
#[cfg(not(feature = "otlp"))]
mod disabled;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod publication;
mod settings;
#[cfg(feature = "otlp")]
mod span;
